{{/* The container weir: (root, config). */}}
{{- define "weir.container" -}}
{{- $root := index . 0 }}{{ $config := index . 1 -}}
- name: weir
  image: {{ include "weir.image" $root }}
  imagePullPolicy: {{ $root.Values.image.pullPolicy }}
  args:
    - run
    - --config=/etc/weir/config/weir.yaml
    {{- if $root.Values.snapshot.enabled }}
    - --last-good=/var/lib/weir   # a refused weir.yaml gives way to the last accepted one when the container restarts
    {{- end }}
    {{- range $root.Values.extraArgs }}
    - {{ . | quote }}
    {{- end }}
  env:
    {{- with dig "limits" "memory" "" $root.Values.resources }}
    - name: GOMEMLIMIT
      value: {{ include "weir.memoryLimit" . | quote }}
    {{- end }}
    {{- with $root.Values.env }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $root.Values.envFrom }}
  envFrom:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  ports:
    {{- include "weir.containerPorts" . | nindent 4 }}
  {{- if include "weir.port" (dig "probes" "address" "" $config | default "unix:") }}
  startupProbe:
    httpGet: { path: /healthz, port: probes }
    {{- toYaml $root.Values.probes.startup | nindent 4 }}
  livenessProbe:
    httpGet: { path: /healthz, port: probes }
    {{- toYaml $root.Values.probes.liveness | nindent 4 }}
  readinessProbe:
    httpGet: { path: /readyz, port: probes }
    {{- toYaml $root.Values.probes.readiness | nindent 4 }}
  {{- end }}
  {{- with $root.Values.lifecycle }}
  lifecycle:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- toYaml $root.Values.securityContext | nindent 4 }}
  resources:
    {{- toYaml $root.Values.resources | nindent 4 }}
  volumeMounts:
    {{- include "weir.mounts" $root | nindent 4 }}
{{- end }}

{{/* The ports of the container: (root, config). */}}
{{- define "weir.containerPorts" -}}
{{- $root := index . 0 }}{{ $config := index . 1 }}
{{- $ports := list }}
{{- range $i, $l := $config.listeners }}
{{- with include "weir.port" $l.address }}
{{- $port := dict "name" (include "weir.portName" $i) "containerPort" (int .) }}
{{- if $root.Values.hostPort }}{{ $_ := set $port "hostPort" (int .) }}{{ end }}
{{- $ports = append $ports $port }}
{{- end }}
{{- end }}
{{- range $name, $address := dict "admin" (dig "admin" "address" "127.0.0.1:19080" $config) "probes" (dig "probes" "address" "" $config | default "unix:") "seed" (dig "cache" "seed" "listen" "unix:" $config) }}
{{- with include "weir.port" $address }}{{ $ports = append $ports (dict "name" $name "containerPort" (int .)) }}{{ end }}
{{- end }}
{{- toYaml $ports }}
{{- end }}

{{/* The name of a listener's port, by its place. */}}
{{- define "weir.portName" -}}
{{- if . }}xds-{{ . }}{{ else }}xds{{ end }}
{{- end }}

{{- define "weir.mounts" -}}
- { name: config, mountPath: /etc/weir/config, readOnly: true }   # the directory, not the file: so that changes arrive
{{- include "weir.clientMounts" . }}
{{- if .Values.spiffe.enabled }}
- { name: spiffe, mountPath: /run/spiffe, readOnly: true }
{{- end }}
{{- if and .Values.seed.enabled .Values.seed.existingSecret }}
- { name: seed-tls, mountPath: /etc/weir/seed, readOnly: true }
{{- end }}
{{- if .Values.admin.existingSecret }}
- { name: admin-token, mountPath: /etc/weir/admin, readOnly: true }
{{- end }}
{{- if .Values.tls.tickets.existingSecret }}
- { name: tickets, mountPath: /etc/weir/tickets, readOnly: true }
{{- end }}
{{- if .Values.tls.crl.existingConfigMap }}
- { name: crl, mountPath: /etc/weir/crl, readOnly: true }   # the directory, as for config
{{- end }}
{{- if .Values.snapshot.enabled }}
- { name: snapshot, mountPath: /var/lib/weir }
{{- if .Values.snapshot.key.existingSecret }}
- { name: snapshot-key, mountPath: /etc/weir/snapshot, readOnly: true }
{{- end }}
{{- end }}
{{- end }}

{{/* What a client of the pods needs, too: their certificate, and what the values mount. */}}
{{- define "weir.clientMounts" -}}
{{- if include "weir.tlsSecret" . }}
- { name: tls, mountPath: /etc/weir/tls, readOnly: true }
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- define "weir.clientVolumes" -}}
{{- with include "weir.tlsSecret" . }}
- name: tls
  secret: { secretName: {{ . }}, defaultMode: 0440 }
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "weir.volumes" -}}
- name: config
  {{- with .Values.existingConfig.secret }}
  secret: { secretName: {{ . }}, defaultMode: 0440, items: [{ key: weir.yaml, path: weir.yaml }] }
  {{- else }}
  configMap: { name: {{ .Values.existingConfig.configMap | default (include "weir.fullname" .) }}, items: [{ key: weir.yaml, path: weir.yaml }] }
  {{- end }}
{{- include "weir.clientVolumes" . }}
{{- if .Values.spiffe.enabled }}
- name: spiffe
  csi: { driver: {{ .Values.spiffe.driver }}, readOnly: true }
{{- end }}
{{- if and .Values.seed.enabled .Values.seed.existingSecret }}
- name: seed-tls
  secret: { secretName: {{ .Values.seed.existingSecret }}, defaultMode: 0440 }
{{- end }}
{{- with .Values.admin.existingSecret }}
- name: admin-token
  secret: { secretName: {{ . }}, defaultMode: 0440, items: [{ key: token, path: token }] }
{{- end }}
{{- with .Values.tls.tickets.existingSecret }}
- name: tickets
  secret: { secretName: {{ . }}, defaultMode: 0440, items: [{ key: keys, path: keys }] }
{{- end }}
{{- with .Values.tls.crl.existingConfigMap }}
- name: crl
  configMap: { name: {{ . }}, items: [{ key: crl.pem, path: crl.pem }] }
{{- end }}
{{- if .Values.snapshot.enabled }}
{{- if .Values.snapshot.volume }}
- name: snapshot
  {{- toYaml .Values.snapshot.volume | nindent 2 }}
{{- else if ne .Values.workload.kind "StatefulSet" }}
- name: snapshot
  emptyDir: { sizeLimit: {{ include "weir.snapshotSize" . }} }
{{- end }}
{{- with .Values.snapshot.key.existingSecret }}
- name: snapshot-key
  secret: { secretName: {{ . }}, defaultMode: 0440, items: [{ key: keys, path: keys }] }
{{- end }}
{{- with .Values.snapshot.seed }}
- name: seed
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}
