{{/* The port of host:port; nothing for a Unix socket. */}}
{{- define "weir.port" -}}
{{- if not (hasPrefix "unix:" .) }}{{ regexFind "[0-9]+$" . }}{{ end }}
{{- end }}

{{/* The same, and nothing for an address that only the pod itself reaches. */}}
{{- define "weir.openPort" -}}
{{- if not (regexMatch "^(127\\.|localhost:|\\[::1\\])" .) }}{{ include "weir.port" . }}{{ end }}
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

{{/* The size of the volume of the snapshot: all that weir ever writes there, and room for the file system. */}}
{{- define "weir.snapshotSize" -}}
{{- if .Values.snapshot.sizeLimit }}{{ .Values.snapshot.sizeLimit }}
{{- else }}
{{- $max := dig "cache" "snapshot" "max_bytes" "1GiB" .Values.config }}
{{- if kindIs "float64" $max }}{{ $max = printf "%.0f" $max }}{{ end }}
{{- $max = toString $max | replace " " "" }}
{{- $units := dict "" 1.0 "B" 1.0 "KB" 1e3 "MB" 1e6 "GB" 1e9 "TB" 1e12 "KiB" 1024.0 "MiB" 1048576.0 "GiB" 1073741824.0 "TiB" 1099511627776.0 }}
{{- $n := regexFind "^[0-9]+" $max }}
{{- $unit := trimPrefix $n $max }}
{{- if or (not $n) (eq $n "0") (not (hasKey $units $unit)) }}{{ fail (printf "snapshot.sizeLimit: config.cache.snapshot.max_bytes is %q, of which the chart knows no size; say how large the volume is to be" $max) }}{{ end }}
{{- printf "%dMi" (add 64 (ceil (divf (mulf 1.125 (float64 $n) (get $units $unit)) 1048576.0) | int64)) }}
{{- end }}
{{- end }}
