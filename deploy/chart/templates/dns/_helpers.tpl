{{/* The Corefile of dns.servers and dns.extraConfig, which have the form of the chart of CoreDNS. */}}
{{- define "bridgehead.corefile" -}}
{{- range $name, $one := .Values.dns.extraConfig }}
{{ $name }}{{ with $one.parameters }} {{ . }}{{ end }}
{{- end }}
{{- range .Values.dns.servers }}
{{- $port := default 53 .port }}
{{- $zones := list }}
{{- range (default (list (dict "zone" ".")) .zones) }}
{{- $zones = append $zones (printf "%s%s:%d" (default "" .scheme) (default "." .zone) (int $port)) }}
{{- end }}
{{ join " " $zones }} {
  {{- range .plugins }}
    {{ .name }}{{ with .parameters }} {{ . }}{{ end }}{{ with .configBlock }} {
{{ . | indent 8 }}
    }{{ end }}
  {{- end }}
}
{{- end }}
{{- end -}}

{{/* The ports of dns.servers, as JSON. */}}
{{- define "bridgehead.dnsPorts" -}}
{{- $ports := list -}}
{{- range .Values.dns.servers -}}
{{- $ports = append $ports (int (default 53 .port)) -}}
{{- end -}}
{{- $ports | uniq | toJson -}}
{{- end -}}

{{/* The name of a port, as in kubeadm's manifest: Services such as kube-dns may lead to it by name. Arguments: port,
protocol. */}}
{{- define "bridgehead.dnsPortName" -}}
{{- $isTcp := eq (index . 1) "TCP" -}}
{{- if eq (int (index . 0)) 53 -}}
{{ $isTcp | ternary "dns-tcp" "dns" }}
{{- else -}}
{{ $isTcp | ternary "tcp" "udp" }}-{{ index . 0 }}
{{- end -}}
{{- end -}}

{{- define "bridgehead.dnsServiceName" -}}
{{ default (include "bridgehead.partName" (list . "dns")) .Values.dns.service.name }}
{{- end -}}
