{{/* weir.yaml: the values, and what the chart mounts. */}}
{{- define "weir.config" -}}
{{- $c := deepCopy .Values.config }}
{{- include "weir.config.tls" (list . $c) }}
{{- include "weir.config.spiffe" (list . $c) }}
{{- include "weir.config.admin" (list . $c) }}
{{- include "weir.config.snapshot" (list . $c) }}
{{- include "weir.config.seed" (list . $c) }}
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

{{/* The admin port, if it is to be reached: (root, config). */}}
{{- define "weir.config.admin" -}}
{{- $root := index . 0 }}{{ $c := index . 1 }}
{{- if $root.Values.admin.existingSecret }}
{{- $hosts := list }}
{{- range $service := list "" "-headless" }}
{{- range $end := list "" ".svc" ".svc.cluster.local" }}
{{- $hosts = append $hosts (printf "%s%s.%s%s" (include "weir.fullname" $root) $service $root.Release.Namespace $end) }}
{{- end }}
{{- end }}
{{- $port := include "weir.port" (dig "admin" "address" "127.0.0.1:19080" $c) }}
{{- $admin := dict "address" (printf "0.0.0.0:%s" $port) "token_file" "/etc/weir/admin/token" "hosts" $hosts "tls" (dict "cert" "/etc/weir/tls/tls.crt" "key" "/etc/weir/tls/tls.key") }}
{{- $_ := set $c "admin" (mergeOverwrite ($c.admin | default dict) $admin) }}
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

{{/* Where pods ask each other, unless the values say so themselves: (root, config). */}}
{{- define "weir.config.seed" -}}
{{- $root := index . 0 }}{{ $c := index . 1 }}
{{- $tls := include "weir.seedTLS" $root | fromYaml }}
{{- if and $root.Values.seed.enabled $tls (not (dig "cache" "seed" dict $c)) }}
{{- $port := int $root.Values.seed.port }}
{{- $host := printf "%s-headless.%s.svc" (include "weir.fullname" $root) $root.Release.Namespace }}
{{- $seed := dict "listen" (printf ":%d" $port) "tls" $tls "peers" (list (printf "dns:///%s:%d" $host $port)) "peers_allowed" (include "weir.seedPeers" (list $root $tls) | fromYamlArray) }}
{{- $_ := set $c "cache" (set ($c.cache | default dict) "seed" $seed) }}
{{- end }}
{{- end }}

{{/* The certificate that pods show each other; nothing if there is none. */}}
{{- define "weir.seedTLS" -}}
{{- $dir := "" }}
{{- if .Values.seed.existingSecret }}{{ $dir = "/etc/weir/seed" }}
{{- else if and (include "weir.tlsSecret" .) (or .Values.certificate.enabled .Values.tls.requireClientCertificate) }}{{ $dir = "/etc/weir/tls" }}
{{- end }}
{{- if $dir }}
{{- toYaml (dict "cert" (printf "%s/tls.crt" $dir) "key" (printf "%s/tls.key" $dir) "ca" (printf "%s/ca.crt" $dir)) }}
{{- else if and .Values.spiffe.enabled (or .Values.spiffe.trustDomain .Values.seed.peersAllowed) }}
{{- toYaml (dict "spiffe" (include "weir.spiffe" .)) }}
{{- end }}
{{- end }}

{{/* Who pods are by that certificate: a SPIFFE ID, or its first other URI, or its first DNS name: (root, tls). */}}
{{- define "weir.seedPeers" -}}
{{- $root := index . 0 }}{{ $v := $root.Values }}
{{- if $v.seed.peersAllowed }}{{ toYaml $v.seed.peersAllowed }}
{{- else if hasKey (index . 1) "spiffe" }}
- spiffe://{{ $v.spiffe.trustDomain }}/ns/{{ $root.Release.Namespace }}/sa/{{ include "weir.serviceAccount" $root }}
{{- else if and $v.certificate.enabled $v.certificate.uris (not $v.seed.existingSecret) }}
{{- range $v.certificate.uris }}
- {{ ternary . (printf "uri:%s" .) (hasPrefix "spiffe://" .) }}
{{- end }}
{{- else }}
{{- range $service := list "" "-headless" }}
{{- range $end := list "" ".svc" ".svc.cluster.local" }}
- dns:{{ include "weir.fullname" $root }}{{ $service }}.{{ $root.Release.Namespace }}{{ $end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* What a change of rolls the pods. */}}
{{- define "weir.restartKey" -}}
{{- if .Values.restartOnConfigChange }}{{ include "weir.config" . | sha256sum }}
{{- else }}
{{- $c := include "weir.config" . | fromYaml }}
{{- $key := pick $c "name" "instance" "listeners" "admin" "probes" }}
{{- $_ := set $key "snapshot" (dig "cache" "snapshot" dict $c) }}
{{- $_ := set $key "seed" (dig "cache" "seed" dict $c) }}
{{- $_ := set $key "log" (dig "log" "format" "" $c) }}
{{- $_ := set $key "limits" (pick ($c.limits | default dict) "request_bytes" "streams_per_connection" "connection_idle") }}
{{- $_ := set $key "timing" (pick ($c.timing | default dict) "keepalive" "max_stream_age") }}
{{- $key | toJson | sha256sum }}
{{- end }}
{{- end }}
