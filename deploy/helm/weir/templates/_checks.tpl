{{/* Values that contradict each other end the rendering, with what to do. */}}
{{- define "weir.checks" -}}
{{- $v := .Values }}
{{- $claim := and $v.snapshot.enabled (hasKey $v.snapshot.volume "persistentVolumeClaim") }}
{{- if and $v.existingConfig.configMap $v.existingConfig.secret }}{{ fail "existingConfig: configMap or secret, not both" }}{{ end }}
{{- if not (or $v.config.origins $v.existingConfig.configMap $v.existingConfig.secret) }}{{ fail "config.origins: at least one control plane is needed, e.g. --set 'config.origins[0].name=mesh' --set 'config.origins[0].grpc.addresses={control-plane:18000}'" }}{{ end }}
{{- if and $v.certificate.enabled $v.tls.existingSecret }}{{ fail "certificate.enabled and tls.existingSecret: one certificate, not both" }}{{ end }}
{{- if and $v.certificate.enabled (not $v.certificate.issuerRef.name) }}{{ fail "certificate.issuerRef.name: which issuer of cert-manager signs?" }}{{ end }}
{{- if and $v.tls.tickets.existingSecret (not (include "weir.tlsSecret" .)) }}{{ fail "tls.tickets.existingSecret needs tls.existingSecret: there are no sessions without TLS" }}{{ end }}
{{- if and $v.admin.existingSecret (not (include "weir.tlsSecret" .)) }}{{ fail "admin.existingSecret needs tls.existingSecret or certificate.enabled: a token is not sent in plain text" }}{{ end }}
{{- if and $v.tls.crl.existingConfigMap (not (and (include "weir.tlsSecret" .) $v.tls.requireClientCertificate)) }}{{ fail "tls.crl.existingConfigMap needs tls.existingSecret and tls.requireClientCertificate: it revokes certificates of clients" }}{{ end }}
{{- if and $claim (eq $v.workload.kind "DaemonSet") }}{{ fail "snapshot.volume.persistentVolumeClaim: a snapshot is of one process, and a DaemonSet has many; snapshot.volume.ephemeral is a volume for each pod" }}{{ end }}
{{- if and $claim (gt (int (include "weir.maxReplicas" .)) 1) }}{{ fail "snapshot.volume.persistentVolumeClaim: a snapshot is of one process, so replicas must be 1; snapshot.volume.ephemeral is a volume for each pod" }}{{ end }}
{{- end }}

{{/* Nothing, or the end if a listener that others can reach admits everybody: (its place, the listener, who opens it to them). */}}
{{- define "weir.certified" -}}
{{- if not (or (dig "tls" "client_ca" "" (index . 1)) (dig "tls" "spiffe" "" (index . 1))) }}{{ fail (printf "config.listeners[%d] asks for no client certificate (tls.client_ca), and %s opens it to others" (index . 0) (index . 2)) }}{{ end }}
{{- end }}

{{/* replicaCount, the name that many charts have, or replicas. */}}
{{- define "weir.replicas" -}}
{{- ternary .Values.replicas .Values.replicaCount (kindIs "invalid" .Values.replicaCount) }}
{{- end }}

{{/* The fewest and the most pods that there are to be. */}}
{{- define "weir.minReplicas" -}}
{{- ternary .Values.autoscaling.minReplicas (include "weir.replicas" .) .Values.autoscaling.enabled }}
{{- end }}
{{- define "weir.maxReplicas" -}}
{{- ternary .Values.autoscaling.maxReplicas (include "weir.replicas" .) .Values.autoscaling.enabled }}
{{- end }}
