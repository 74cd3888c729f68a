{{/* The name of an image: (list . "agent" "etcd-agent"). A release has digests of its images, which are those of its own tag. */}}
{{- define "etcd-foreman.image" -}}
{{- $root := index . 0 -}}
{{- $images := $root.Values.images -}}
{{- $image := index $images (index . 1) -}}
{{- $tag := $image.tag | default $images.tag -}}
{{- if eq $tag "latest" -}}
{{- fail "images: the tag latest is no fixed version, and the operator and the agent must be of one build. Set the tag that you built or mirrored" -}}
{{- end -}}
{{- $digest := $image.digest -}}
{{- if not (or $tag $digest) -}}
{{- $digest = get ($root.Files.Get "files/digests.yaml" | fromYaml) (index . 2) -}}
{{- end -}}
{{ $image.repository | default (printf "%s/%s" $images.registry (index . 2)) }}:{{ $tag | default $root.Chart.AppVersion }}{{ with $digest }}@{{ . }}{{ end }}
{{- end -}}

{{/* The OperatorConfiguration. */}}
{{- define "etcd-foreman.config" -}}
{{- range list "mode" "namespaces" "featureGates" -}}
{{- if hasKey $.Values.config . }}{{ fail (printf "config.%s: set the value %s instead. The roles and policies of the chart depend on it" . .) }}{{ end -}}
{{- end -}}
{{- range list "apiVersion" "kind" -}}
{{- if hasKey $.Values.config . }}{{ fail (printf "config.%s: remove it. The chart sets it" .) }}{{ end -}}
{{- end -}}
{{- range $field, $address := dict "metricsBindAddress" ":8080" "healthBindAddress" ":8081" "webhookBindAddress" ":9443" -}}
{{- $set := toString (dig "server" $field $address $.Values.config) -}}
{{- $off := and (eq $set "0") (eq $field "metricsBindAddress") (not $.Values.monitoring.enabled) -}}
{{- if not (or $off (eq $set $address)) }}{{ fail (printf "config.server.%s: remove it. The ports, probes, Service, PodMonitor and NetworkPolicies of the chart depend on %s" $field $address) }}{{ end -}}
{{- end -}}
{{- $images := dict "etcdAgent" (include "etcd-foreman.image" (list . "agent" "etcd-agent")) -}}
{{- with .Values.images.etcd }}{{ $_ := set $images "etcd" . }}{{ end -}}
{{- $config := dict "apiVersion" "operator.config.druid.gardener.cloud/v1alpha1" "kind" "OperatorConfiguration" "images" $images -}}
{{- if eq .Values.mode "Executor" -}}
{{- $_ := set $config "mode" .Values.mode -}}
{{- if include "etcd-foreman.fleetPolicies" . }}{{ $_ := set $config "featureGates" (dict "FleetPolicies" true) }}{{ end -}}
{{- if eq .Values.executor.admission "Webhook" }}{{ $_ := set $config "server" (dict "webhookBindAddress" ":9443") }}{{ end -}}
{{- else -}}
{{- $_ := set $config "featureGates" .Values.featureGates -}}
{{- end -}}
{{- with .Values.namespaces }}{{ $_ := set $config "namespaces" . }}{{ end -}}
{{- mergeOverwrite $config .Values.config | toYaml -}}
{{- end -}}

{{/* Not empty if the feature gate FleetPolicies is on. */}}
{{- define "etcd-foreman.fleetPolicies" -}}
{{- if ternary .Values.featureGates.FleetPolicies .Values.featureGates.AllAlpha (hasKey .Values.featureGates "FleetPolicies") }}true{{ end -}}
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
