{{- define "labels" -}}
app.kubernetes.io/name: cert-manager
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
