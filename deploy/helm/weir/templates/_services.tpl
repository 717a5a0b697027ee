{{/* The port of a service for a listener: (root, its place, the listener). */}}
{{- define "weir.servicePort" -}}
{{- $root := index . 0 }}{{ $i := index . 1 }}{{ $l := index . 2 }}
{{- $name := include "weir.portName" $i -}}
- name: {{ $name }}
  port: {{ include "weir.port" $l.address }}
  targetPort: {{ $name }}
{{- if and $root.Values.service.appProtocol (not $l.tls) }}
  appProtocol: {{ $root.Values.service.appProtocol }}
{{- end }}
{{- end }}

{{/* What is said of a service in its values alone. */}}
{{- define "weir.serviceSpec" -}}
type: {{ .type }}
{{- range $key := list "trafficDistribution" "internalTrafficPolicy" "externalTrafficPolicy" "loadBalancerClass" "loadBalancerSourceRanges" }}
{{- with index $ $key }}
{{ $key }}:{{ if kindIs "string" . }} {{ . }}{{ else }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The ports of the headless service: listeners, and what pods and operators reach in every pod. */}}
{{- define "weir.headlessPorts" -}}
{{- $config := include "weir.config" . | fromYaml }}
{{- range $i, $l := $config.listeners }}
{{- if include "weir.port" $l.address }}
{{ include "weir.servicePort" (list $ $i $l) }}
{{- end }}
{{- end }}
{{- range $name, $address := dict "admin" (dig "admin" "address" "127.0.0.1:19080" $config) "seed" (dig "cache" "seed" "listen" "unix:" $config) }}
{{- with include "weir.openPort" $address }}
- name: {{ $name }}
  port: {{ . }}
  targetPort: {{ $name }}
{{- end }}
{{- end }}
{{- end }}
