// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// leaf is one value of a pod that can be changed in place.
type leaf struct {
	kind Kind
	// container, for resources and images; init if it is an init container.
	container string
	init      bool
	// bound is requests or limits; label or annotation.
	bound string
	// key is a resource, or the key of a label or an annotation.
	key string
}

func (l leaf) String() string {
	switch l.kind {
	case ResizePod:
		return fmt.Sprintf("%s.%s of container %s", l.bound, l.key, l.container)
	case UpdateContainer:
		return "the image of container " + l.container
	}
	return l.bound + " " + l.key
}

const (
	label      = "label"
	annotation = "annotation"
	requests   = "requests"
	limits     = "limits"
)

// values are the leaves of a pod, or of a template, as text. A leaf that is not there has no entry.
type values map[leaf]string

// leavesOf returns the leaves of a template, or of a pod: what is not there for a template is there for a pod if the API server
// sets it.
func leavesOf(labels, annotations map[string]string, spec *corev1.PodSpec) values {
	v := values{}
	for key, value := range labels {
		v[leaf{kind: PatchMetadata, bound: label, key: key}] = value
	}
	for key, value := range annotations {
		v[leaf{kind: PatchMetadata, bound: annotation, key: key}] = value
	}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		if c.Name == v1alpha1.ContainerEtcd || c.Name == v1alpha1.ContainerBackupRestore {
			v[leaf{kind: UpdateContainer, container: c.Name}] = c.Image
		}
		v.addResources(c)
	}
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; c.Name == v1alpha1.InitContainerPrepare && c.RestartPolicy == nil {
			v[leaf{kind: UpdateContainer, container: c.Name, init: true}] = c.Image
		}
	}
	return v
}

// addResources adds CPU and memory. A request that is missing is that of the limit, as the API server has it in pods.
func (v values) addResources(c *corev1.Container) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		limit, limited := c.Resources.Limits[name]
		request, requested := c.Resources.Requests[name]
		if limited {
			v[leaf{kind: ResizePod, container: c.Name, bound: limits, key: string(name)}] = limit.String()
		}
		if !requested && limited {
			request, requested = limit, true
		}
		if requested {
			v[leaf{kind: ResizePod, container: c.Name, bound: requests, key: string(name)}] = request.String()
		}
	}
}

// with returns the resources of v, with some leaves as they are in others.
func (v values) with(leaves []leaf, others values) values {
	all := maps.Clone(v)
	maps.DeleteFunc(all, func(l leaf, _ string) bool { return l.kind != ResizePod })
	for _, l := range leaves {
		all[l] = others[l]
	}
	return all
}

// same reports whether a leaf has the same value in both, or in neither.
func (v values) same(other values, l leaf) bool {
	a, has := v[l]
	b, had := other[l]
	if has != had || a == b {
		return has == had
	}
	return l.kind == ResizePod && compare(a, b) == 0
}

// lowers reports whether a leaf of resources is lower than before. A limit where there was none lowers what a container may use.
func (v values) lowers(before values, l leaf) bool {
	now, has := v[l]
	then, had := before[l]
	switch {
	case l.kind != ResizePod:
		return false
	case has && had:
		return compare(now, then) < 0
	}
	return has && l.bound == limits || had && l.bound == requests
}

func compare(a, b string) int {
	x := quantity(a)
	return x.Cmp(quantity(b))
}

// quantity reads what String has written.
func quantity(text string) resource.Quantity {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}
	}
	return q
}

// changed are the leaves in which any of some values differ from others, in an order that does not vary.
func changed(from values, to ...values) []leaf {
	found := map[leaf]bool{}
	for _, t := range to {
		all := maps.Clone(from)
		maps.Copy(all, t)
		for l := range all {
			if !from.same(t, l) {
				found[l] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b leaf) int { return strings.Compare(a.String(), b.String()) })
}

// unpatchable returns why a change of a label or an annotation takes a new pod; empty if it does not. Values that stand for
// content, or ask for a restart, are there to replace pods. Others are read when a pod is created, and at no other time.
func unpatchable(l leaf) string {
	domain, name, qualified := strings.Cut(l.key, "/")
	if !qualified {
		domain, name = "", l.key
	}
	has := func(text string, parts ...string) bool {
		return slices.ContainsFunc(parts, func(s string) bool { return strings.Contains(strings.ToLower(text), s) })
	}
	switch {
	case domain == "checksum" || has(name, "checksum", "hash", "sha256", "restart", "reload", "redeploy", "rollme", "timestamp"):
		return "stands for content, or asks for a restart"
	case within(domain, "druid.gardener.cloud") || l.bound == label && within(domain, "app.kubernetes.io") && ours[l.key]:
		return "is managed by the operator"
	case domain == "cluster-autoscaler.kubernetes.io" || domain == "app.kubernetes.io":
		return ""
	case slices.ContainsFunc(atCreation, func(parent string) bool { return within(domain, parent) }) || has(domain, "cni") ||
		has(l.key, "inject", "sidecar") || strings.HasPrefix(l.key, "io.kubernetes.") || strings.HasPrefix(l.key, "io.katacontainers."):
		return "is read only when a pod is created"
	}
	return ""
}

// atCreation are the domains whose keys webhooks, networks and runtimes read when a pod is created.
var atCreation = []string{"kubernetes.io", "k8s.io", "ovn.org", "istio.io", "linkerd.io", "hashicorp.com", "azure.workload.identity"}

var ours = map[string]bool{v1alpha1.LabelManagedBy: true, v1alpha1.LabelPartOf: true, v1alpha1.LabelComponent: true, v1alpha1.LabelName: true}

func within(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}

// derived returns what in a pod is derived from values that change, and would keep the old ones; empty if there is nothing.
func derived(spec *corev1.PodSpec, leaves []leaf) string {
	resized, relabelled := map[string]bool{}, false
	for _, l := range leaves {
		resized[l.container] = resized[l.container] || l.kind == ResizePod
		relabelled = relabelled || l.kind == PatchMetadata
	}
	delete(resized, "")
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, e := range c.Env {
			switch {
			case e.ValueFrom != nil && e.ValueFrom.ResourceFieldRef != nil && anyTrue(resized):
				return fmt.Sprintf("variable %s of container %s is derived from resources", e.Name, c.Name)
			case (e.Name == "GOMEMLIMIT" || e.Name == "GOMAXPROCS") && resized[c.Name]:
				return fmt.Sprintf("variable %s of container %s depends on its resources", e.Name, c.Name)
			case e.ValueFrom != nil && isOfMetadata(e.ValueFrom.FieldRef) && (relabelled || strings.Contains(e.ValueFrom.FieldRef.FieldPath, appsv1.StatefulSetRevisionLabel)):
				return fmt.Sprintf("variable %s of container %s is derived from labels or annotations", e.Name, c.Name)
			}
		}
	}
	for _, v := range spec.Volumes {
		for _, item := range downward(v) {
			if item.ResourceFieldRef != nil && anyTrue(resized) || isOfMetadata(item.FieldRef) && relabelled {
				return fmt.Sprintf("file %s of volume %s is derived from a value that changes", item.Path, v.Name)
			}
		}
	}
	return ""
}

func anyTrue(of map[string]bool) bool {
	return slices.Contains(slices.Collect(maps.Values(of)), true)
}

func isOfMetadata(ref *corev1.ObjectFieldSelector) bool {
	return ref != nil && (strings.HasPrefix(ref.FieldPath, "metadata.labels") || strings.HasPrefix(ref.FieldPath, "metadata.annotations"))
}

func downward(v corev1.Volume) []corev1.DownwardAPIVolumeFile {
	var items []corev1.DownwardAPIVolumeFile
	if v.DownwardAPI != nil {
		items = append(items, v.DownwardAPI.Items...)
	}
	if v.Projected != nil {
		for _, s := range v.Projected.Sources {
			if s.DownwardAPI != nil {
				items = append(items, s.DownwardAPI.Items...)
			}
		}
	}
	return items
}

// maxListed bounds how many names are listed.
const maxListed = 8

func list(leaves []leaf) string { return join(names(leaves)) }

func names(leaves []leaf) []string {
	var names []string
	for _, l := range leaves[:min(len(leaves), maxListed)] {
		names = append(names, l.String())
	}
	if more := len(leaves) - maxListed; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return names
}

func join(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}
