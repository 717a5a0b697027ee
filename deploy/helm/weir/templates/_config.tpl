{{/* weir.yaml: the values, and what the chart mounts. */}}
{{- define "weir.config" -}}
{{- $c := deepCopy .Values.config }}
{{- include "weir.config.tls" (list . $c) }}
{{- include "weir.config.spiffe" (list . $c) }}
{{- include "weir.config.snapshot" (list . $c) }}
{{- toYaml $c }}
{{- end }}

{{/* The files of a TLS secret, for listeners that say nothing of tls: (root, config). */}}
{{- define "weir.config.tls" -}}
{{- $root := index . 0 }}{{ $c := index . 1 }}{{ $v := $root.Values.tls }}
{{- if include "weir.tlsSecret" $root }}
{{- range $c.listeners }}
{{- if not .tls }}
{{- $tls := dict "cert" "/etc/weir/tls/tls.crt" "key" "/etc/weir/tls/tls.key" "min_version" $v.minVersion }}
{{- if $v.tickets.existingSecret }}{{ $_ := set $tls "tickets" "/etc/weir/tickets/keys" }}{{ end }}
{{- if $v.requireClientCertificate }}{{ $_ := set $tls "client_ca" "/etc/weir/tls/ca.crt" }}{{ end }}
{{- if $v.crl.existingConfigMap }}{{ $_ := set $tls "crl" "/etc/weir/crl/crl.pem" }}{{ end }}
{{- $_ := set . "tls" $tls }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The socket of the Workload API, for listeners without tls and origins that have nothing but a server_identity: (root, config). */}}
{{- define "weir.config.spiffe" -}}
{{- $root := index . 0 }}{{ $c := index . 1 }}
{{- with include "weir.spiffe" $root }}
{{- $socket := . }}
{{- range $c.listeners }}
{{- if and (not .tls) (not (hasPrefix "unix:" .address)) }}{{ $_ := set . "tls" (dict "spiffe" $socket "min_version" $root.Values.tls.minVersion) }}{{ end }}
{{- end }}
{{- range $c.origins }}
{{- $tls := dig "tls" dict (.grpc | default dict) | default dict }}
{{- if and $tls.server_identity (not (or $tls.ca $tls.cert $tls.spiffe)) }}{{ $_ := set $tls "spiffe" $socket }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Where the snapshot is, and its keys: (root, config). */}}
{{- define "weir.config.snapshot" -}}
{{- $root := index . 0 }}{{ $c := index . 1 }}
{{- if $root.Values.snapshot.enabled }}
{{- $cache := $c.cache | default dict }}
{{- $snapshot := $cache.snapshot | default dict }}
{{- if not $snapshot.path }}{{ $_ := set $snapshot "path" "/var/lib/weir/snapshot" }}{{ end }}
{{- if and $root.Values.snapshot.key.existingSecret (not $snapshot.key_file) }}{{ $_ := set $snapshot "key_file" "/etc/weir/snapshot/keys" }}{{ end }}
{{- $_ := set $cache "snapshot" $snapshot }}
{{- $_ := set $c "cache" $cache }}
{{- end }}
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
