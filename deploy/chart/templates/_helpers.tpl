{{/* The name of the chart, or nameOverride. */}}
{{- define "bridgehead.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The first part of the names of all objects: the release's name, with the chart's unless it contains it. */}}
{{- define "bridgehead.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "bridgehead.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "bridgehead.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels that select the pods of a part. Argument: a list of the root and the part. */}}
{{- define "bridgehead.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "bridgehead.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* Labels of the objects of a part. Helm adds app.kubernetes.io/managed-by by itself. */}}
{{- define "bridgehead.labels" -}}
{{- $root := index . 0 -}}
{{ include "bridgehead.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: bridgehead
{{- end -}}

{{/* The name of an object of a part: RELEASE-PART. */}}
{{- define "bridgehead.partName" -}}
{{ include "bridgehead.fullname" (index . 0) }}-{{ index . 1 }}
{{- end -}}

{{/* The ServiceAccount of a part. */}}
{{- define "bridgehead.serviceAccountName" -}}
{{- $account := (index (index . 0).Values (index . 1)).serviceAccount -}}
{{- if $account.create -}}
{{- default (include "bridgehead.partName" .) $account.name -}}
{{- else -}}
{{- required (printf "%s.serviceAccount.name: name the ServiceAccount to use, or set %s.serviceAccount.create to true" (index . 1) (index . 1)) $account.name -}}
{{- end -}}
{{- end -}}

{{- define "bridgehead.serviceAccount" -}}
{{- $root := index . 0 -}}
{{- $account := (index $root.Values (index . 1)).serviceAccount -}}
{{- if $account.create }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "bridgehead.serviceAccountName" . }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "bridgehead.labels" . | nindent 4 }}
  {{- with $account.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* The subject of a binding: the ServiceAccount of a part. */}}
{{- define "bridgehead.subject" -}}
- kind: ServiceAccount
  name: {{ include "bridgehead.serviceAccountName" . }}
  namespace: {{ (index . 0).Release.Namespace }}
{{- end -}}

{{/* Binding of a role to the ServiceAccount of a part. Arguments: root, part, kind and name of the role, namespace of the
binding ("": the whole cluster). */}}
{{- define "bridgehead.binding" -}}
{{- $namespace := index . 4 -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ empty $namespace | ternary "ClusterRoleBinding" "RoleBinding" }}
metadata:
  name: {{ include "bridgehead.partName" . }}
  {{- with $namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "bridgehead.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ index . 2 }}
  name: {{ index . 3 }}
subjects:
{{ include "bridgehead.subject" . }}
{{- end -}}

{{/* The image of a part: its own settings before the chart's; a digest before a tag. */}}
{{- define "bridgehead.image" -}}
{{- $root := index . 0 -}}
{{- $own := (index $root.Values (index . 1)).image -}}
{{- $repository := default $root.Values.image.repository $own.repository -}}
{{- $digest := default (empty $own.repository | ternary $root.Values.image.digest "") $own.digest -}}
{{- if $digest -}}
{{ $repository }}@{{ $digest }}
{{- else -}}
{{ $repository }}:{{ coalesce $own.tag $root.Values.image.tag $root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* Image, pull policy and command of a part's container; the arguments follow. */}}
{{- define "bridgehead.program" -}}
{{- $root := index . 0 -}}
image: {{ include "bridgehead.image" . | quote }}
imagePullPolicy: {{ default $root.Values.image.pullPolicy (index $root.Values (index . 1)).image.pullPolicy }}
{{- end -}}

{{/* Environment by which a part reaches the API server without its Service. */}}
{{- define "bridgehead.apiServer" -}}
{{- with .Values.k8sServiceHost }}
- name: KUBERNETES_SERVICE_HOST
  value: {{ . | quote }}
- name: KUBERNETES_SERVICE_PORT
  value: {{ $.Values.k8sServicePort | quote }}
{{- end }}
{{- end -}}

{{/* Metadata of a part's pods. Arguments: root, part, value of the label k8s-app, further annotations as YAML. */}}
{{- define "bridgehead.podMetadata" -}}
{{- $values := index (index . 0).Values (index . 1) -}}
labels:
  {{- include "bridgehead.labels" . | nindent 2 }}
  k8s-app: {{ index . 2 }}
  {{- with $values.labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $annotations := merge (dict) $values.podAnnotations (fromYaml (index . 3)) }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Fields of a pod that the parts have in common. */}}
{{- define "bridgehead.podSpec" -}}
{{- $root := index . 0 -}}
{{- $values := index $root.Values (index . 1) -}}
serviceAccountName: {{ include "bridgehead.serviceAccountName" . }}
enableServiceLinks: false
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
nodeSelector:
  kubernetes.io/os: linux
  {{- with $values.nodeSelector }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Verbosity of a part's log, in MetalLB's names of levels. */}}
{{- define "bridgehead.verbosity" -}}
{{ has . (list "all" "debug") | ternary 1 0 }}
{{- end -}}

{{/* Namespaces for objects of the balancer and for MetalLB's, unless somebody else has made them. Arguments: root, name,
whether it stays after the release. */}}
{{- define "bridgehead.namespace" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $found := lookup "v1" "Namespace" "" $name -}}
{{- $owner := dig "metadata" "annotations" "meta.helm.sh/release-name" "" $found -}}
{{- if and (ne $name $root.Release.Namespace) (or (not $found) (eq $owner $root.Release.Name)) }}
apiVersion: v1
kind: Namespace
metadata:
  name: {{ $name }}
  labels:
    app.kubernetes.io/part-of: bridgehead
  {{- if index . 2 }}
  annotations:
    helm.sh/resource-policy: keep
  {{- end }}
{{- end }}
{{- end -}}
