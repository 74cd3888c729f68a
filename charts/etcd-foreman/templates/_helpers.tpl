{{/* The name of an image, with tag and digest: (list . "agent"). */}}
{{- define "etcd-foreman.image" -}}
{{- $root := index . 0 -}}
{{- $image := index $root.Values.images (index . 1) -}}
{{ $image.repository }}:{{ $image.tag | default $root.Chart.AppVersion }}{{ with $image.digest }}@{{ . }}{{ end }}
{{- end -}}

{{/* The OperatorConfiguration. */}}
{{- define "etcd-foreman.config" -}}
{{- $images := dict "etcdAgent" (include "etcd-foreman.image" (list . "agent")) -}}
{{- with .Values.images.etcd }}{{ $_ := set $images "etcd" . }}{{ end -}}
{{- $config := dict "apiVersion" "operator.config.druid.gardener.cloud/v1alpha1" "kind" "OperatorConfiguration" "featureGates" .Values.featureGates "images" $images -}}
{{- with .Values.namespaces }}{{ $_ := set $config "namespaces" . }}{{ end -}}
{{- mergeOverwrite $config .Values.config | toYaml -}}
{{- end -}}

{{/* The labels of objects that kustomize installs without any. */}}
{{- define "etcd-foreman.labels" -}}
app.kubernetes.io/name: etcd-foreman
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{/* The rules of a ClusterRole about what is in namespaces (list rules true) or in none (list rules false). */}}
{{- define "etcd-foreman.rules" -}}
{{- $namespaced := index . 1 -}}
{{- $clusterScoped := list "nodes" "persistentvolumes" "storageclasses" "tokenreviews" "subjectaccessreviews" -}}
{{- $kept := list -}}
{{- range $rule := index . 0 -}}
{{- $resources := list -}}
{{- range $rule.resources -}}
{{- if ne (has . $clusterScoped) $namespaced }}{{ $resources = append $resources . }}{{ end -}}
{{- end -}}
{{- if $resources }}{{ $kept = append $kept (set (deepCopy $rule) "resources" $resources) }}{{ end -}}
{{- end -}}
{{- toYaml $kept -}}
{{- end -}}
