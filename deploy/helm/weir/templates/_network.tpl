{{/* A rule of ingress: ports, and from whom: (ports, peers). Without a peer nobody comes. */}}
{{- define "weir.from" -}}
{{- if and (index . 0) (index . 1) }}
- from:
    {{- toYaml (index . 1) | nindent 4 }}
  ports:
    {{- range index . 0 }}
    - { port: {{ . }}, protocol: TCP }
    {{- end }}
{{- end }}
{{- end }}

{{/* The pods of the release, as peers. */}}
{{- define "weir.own" -}}
- podSelector:
    matchLabels:
      {{- include "weir.selector" . | nindent 6 }}
{{- end }}

{{/* The ports, as a list: of all listeners; or of those that services open to the outside. */}}
{{- define "weir.listenerPorts" -}}
{{- range (include "weir.config" . | fromYaml).listeners }}
{{- with include "weir.openPort" .address }}
- {{ . }}
{{- end }}
{{- end }}
{{- end }}
{{- define "weir.outsidePorts" -}}
{{- $listeners := (include "weir.config" . | fromYaml).listeners }}
{{- if ne .Values.service.type "ClusterIP" }}
{{- include "weir.listenerPorts" . }}
{{- else if .Values.externalService.enabled }}
{{- range .Values.externalService.listeners }}
- {{ include "weir.port" (index $listeners (int .)).address }}
{{- end }}
{{- end }}
{{- end }}
