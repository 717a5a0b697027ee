{{- define "weir.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "weir.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "weir.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "weir.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "weir.selector" -}}
app.kubernetes.io/name: {{ include "weir.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "weir.labels" -}}
{{ include "weir.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "weir.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "weir.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "weir.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* The port of host:port; nothing for a Unix socket. */}}
{{- define "weir.port" -}}
{{- if not (hasPrefix "unix:" .) }}{{ regexFind "[0-9]+$" . }}{{ end }}
{{- end }}

{{/* The port of a service for a listener: (root, its place, the listener). */}}
{{- define "weir.servicePort" -}}
{{- $root := index . 0 }}{{ $i := index . 1 }}{{ $l := index . 2 }}
{{- $name := ternary "xds" (printf "xds-%d" $i) (eq $i 0) -}}
- name: {{ $name }}
  port: {{ include "weir.port" $l.address }}
  targetPort: {{ $name }}
{{- if and $root.Values.service.appProtocol (not $l.tls) }}
  appProtocol: {{ $root.Values.service.appProtocol }}
{{- end }}
{{- end }}

{{/* Nothing, or the end if a listener that others can reach admits everybody: (its place, the listener, who opens it to them). */}}
{{- define "weir.certified" -}}
{{- if not (or (dig "tls" "client_ca" "" (index . 1)) (dig "tls" "spiffe" "" (index . 1))) }}{{ fail (printf "config.listeners[%d] asks for no client certificate (tls.client_ca), and %s opens it to others" (index . 0) (index . 2)) }}{{ end }}
{{- end }}

{{/* Whole seconds of a duration such as 1m30s or 500ms, rounded up. */}}
{{- define "weir.seconds" -}}
{{- $s := 0.0 }}
{{- range regexFindAll "[0-9.]+(h|ms|m|s)" . -1 }}
{{- $n := regexFind "^[0-9.]+" . | float64 }}
{{- if hasSuffix "ms" . }}{{ $s = addf $s (divf $n 1000.0) }}
{{- else if hasSuffix "h" . }}{{ $s = addf $s (mulf $n 3600.0) }}
{{- else if hasSuffix "m" . }}{{ $s = addf $s (mulf $n 60.0) }}
{{- else }}{{ $s = addf $s $n }}
{{- end }}
{{- end }}
{{- ceil $s | int }}
{{- end }}

{{/* Four fifths of a quantity of memory, in bytes. */}}
{{- define "weir.memoryLimit" -}}
{{- $q := toString . }}
{{- $units := dict "" 1.0 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 }}
{{- $unit := regexFind "[kMGTi]*$" $q }}
{{- if not (and (hasKey $units $unit) (regexMatch "^[0-9]+(\\.[0-9]+)?[kMGTi]*$" $q)) }}{{ fail (printf "resources.limits.memory: %s is no quantity of bytes" $q) }}{{ end }}
{{- printf "%.0f" (mulf 0.8 (regexFind "^[0-9.]+" $q | float64) (get $units $unit)) }}
{{- end }}

{{/* weir.yaml: the values, and what the chart mounts. */}}
{{- define "weir.config" -}}
{{- $c := deepCopy .Values.config }}
{{- if not $c.origins }}{{ fail "config.origins: at least one control plane is needed, e.g. --set 'config.origins[0].name=mesh' --set 'config.origins[0].grpc.addresses={control-plane:18000}'" }}{{ end }}
{{- if and .Values.tls.tickets.existingSecret (not .Values.tls.existingSecret) }}{{ fail "tls.tickets.existingSecret needs tls.existingSecret: there are no sessions without TLS" }}{{ end }}
{{- if and .Values.tls.crl.existingConfigMap (not (and .Values.tls.existingSecret .Values.tls.requireClientCertificate)) }}{{ fail "tls.crl.existingConfigMap needs tls.existingSecret and tls.requireClientCertificate: it revokes certificates of clients" }}{{ end }}
{{- if .Values.tls.existingSecret }}
{{- range $c.listeners }}
{{- if not .tls }}
{{- $tls := dict "cert" "/etc/weir/tls/tls.crt" "key" "/etc/weir/tls/tls.key" "min_version" $.Values.tls.minVersion }}
{{- if $.Values.tls.tickets.existingSecret }}{{ $_ := set $tls "tickets" "/etc/weir/tickets/keys" }}{{ end }}
{{- if $.Values.tls.requireClientCertificate }}{{ $_ := set $tls "client_ca" "/etc/weir/tls/ca.crt" }}{{ end }}
{{- if $.Values.tls.crl.existingConfigMap }}{{ $_ := set $tls "crl" "/etc/weir/crl/crl.pem" }}{{ end }}
{{- $_ := set . "tls" $tls }}
{{- end }}
{{- end }}
{{- end }}
{{- if .Values.snapshot.enabled }}
{{- $cache := $c.cache | default dict }}
{{- $snapshot := $cache.snapshot | default dict }}
{{- if not $snapshot.path }}
{{- $_ := set $c "cache" (mergeOverwrite $cache (dict "snapshot" (mergeOverwrite $snapshot (dict "path" "/var/lib/weir/snapshot")))) }}
{{- end }}
{{- if and .Values.snapshot.key.existingSecret (not $c.cache.snapshot.key_file) }}
{{- $_ := set $c.cache.snapshot "key_file" "/etc/weir/snapshot/keys" }}
{{- end }}
{{- end }}
{{- toYaml $c }}
{{- end }}

{{/* What a change of rolls the pods. */}}
{{- define "weir.restartKey" -}}
{{- if .Values.restartOnConfigChange }}{{ include "weir.config" . | sha256sum }}
{{- else }}
{{- $c := include "weir.config" . | fromYaml }}
{{- $key := pick $c "name" "instance" "listeners" "admin" "probes" }}
{{- $_ := set $key "snapshot" (dig "cache" "snapshot" dict $c) }}
{{- $_ := set $key "log" (dig "log" "format" "" $c) }}
{{- $_ := set $key "limits" (pick ($c.limits | default dict) "request_bytes" "streams_per_connection" "connection_idle") }}
{{- $_ := set $key "timing" (pick ($c.timing | default dict) "keepalive" "max_stream_age") }}
{{- $key | toJson | sha256sum }}
{{- end }}
{{- end }}
