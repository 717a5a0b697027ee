{{/* How pods are replaced. */}}
{{- define "weir.strategy" -}}
{{- if eq .Values.workload.kind "StatefulSet" }}
type: RollingUpdate       # the last one first, and the next when it is ready
{{- else if and (eq .Values.workload.kind "DaemonSet") (or .Values.hostPort .Values.hostNetwork) }}
type: RollingUpdate       # two pods cannot have one port of the node
rollingUpdate: { maxUnavailable: 1, maxSurge: 0 }
{{- else if and .Values.snapshot.enabled (hasKey .Values.snapshot.volume "persistentVolumeClaim") }}
type: Recreate            # the claim is for one pod at a time: a new one beside the old would wait for it for ever
{{- else }}
type: RollingUpdate       # a new pod is ready, and so its origins have answered it, before an old one drains
rollingUpdate: { maxUnavailable: 0, maxSurge: 1 }
{{- end }}
{{- end }}

{{/* A claim for each replica of a StatefulSet. Its labels and size cannot be changed later, so those of the chart's version are not among them. */}}
{{- define "weir.claims" -}}
{{- $claim := .Values.snapshot.claim -}}
persistentVolumeClaimRetentionPolicy:
  {{- toYaml $claim.retention | nindent 2 }}
volumeClaimTemplates:
  - apiVersion: v1
    kind: PersistentVolumeClaim
    metadata:
      name: snapshot
      labels:
        {{- include "weir.selector" . | nindent 8 }}
        {{- with $claim.labels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $claim.annotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      accessModes:
        {{- toYaml $claim.accessModes | nindent 8 }}
      {{- with $claim.storageClassName }}
      storageClassName: {{ . }}
      {{- end }}
      resources:
        requests: { storage: {{ include "weir.snapshotSize" . }} }
{{- end }}
