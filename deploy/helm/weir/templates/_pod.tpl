{{/* The pod, the same for every kind of workload. */}}
{{- define "weir.pod" -}}
{{- $config := include "weir.config" . | fromYaml -}}
metadata:
  labels:
    {{- include "weir.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    kubectl.kubernetes.io/default-container: weir
    weir-xds.github.io/restart-key: {{ include "weir.restartKey" . }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "weir.serviceAccount" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  # Draining ends streams over config.timing.drain; what is left then is for the last snapshot.
  terminationGracePeriodSeconds: {{ add (include "weir.seconds" (dig "timing" "drain" "30s" $config) | int) (int .Values.terminationMarginSeconds) }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- toYaml .Values.podSecurityContext | nindent 4 }}
  {{- $import := and .Values.snapshot.enabled .Values.snapshot.seed }}
  {{- if or .Values.initContainers $import }}
  initContainers:
    {{- if $import }}
    {{- include "weir.importer" (list . $config) | nindent 4 }}
    {{- end }}
    {{- with .Values.initContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
  containers:
    {{- include "weir.container" (list . $config) | nindent 4 }}
    {{- with .Values.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    {{- include "weir.volumes" . | nindent 4 }}
  {{- include "weir.placement" . | trim | nindent 2 }}
{{- end }}

{{/* Where the pod runs, and by which names it finds others. */}}
{{- define "weir.placement" -}}
{{- range $key := list "priorityClassName" "runtimeClassName" "schedulerName" "nodeSelector" "tolerations" "affinity" "dnsConfig" -}}
{{- with index $.Values $key }}
{{ $key }}:{{ if kindIs "string" . }} {{ . }}{{ else }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}
{{- end }}
{{- if .Values.hostNetwork }}
hostNetwork: true
{{- end }}
{{- with .Values.dnsPolicy | default (ternary "ClusterFirstWithHostNet" "" .Values.hostNetwork) }}
dnsPolicy: {{ . }}
{{- end }}
{{- if .Values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml .Values.topologySpreadConstraints | nindent 2 }}
{{- else if ne .Values.workload.kind "DaemonSet" }}
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - topologyKey: {{ . }}
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "weir.selector" $ | nindent 8 }}
  {{- end }}
{{- end }}
{{- end }}

{{/* The container that fills an empty snapshot from a file: (root, config). */}}
{{- define "weir.importer" -}}
{{- $root := index . 0 }}{{ $config := index . 1 -}}
- name: seed
  image: {{ include "weir.image" $root }}
  imagePullPolicy: {{ $root.Values.image.pullPolicy }}
  args: [snapshot, import, --if-empty, --path, {{ $config.cache.snapshot.path | quote }}, /seed/seed.weir]
  securityContext:
    {{- toYaml $root.Values.securityContext | nindent 4 }}
  resources:
    {{- toYaml $root.Values.resources | nindent 4 }}
  volumeMounts:
    - { name: snapshot, mountPath: /var/lib/weir }
    - { name: seed, mountPath: /seed, readOnly: true }
{{- end }}
