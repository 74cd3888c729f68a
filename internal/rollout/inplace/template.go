// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Template is the pod template of a revision.
type Template struct {
	corev1.PodTemplateSpec
	// raw is the template as the API server has stored it, with fields that this program does not know.
	raw map[string]any
}

// ParseTemplate reads the data of a ControllerRevision of a StatefulSet.
func ParseTemplate(data []byte) (*Template, error) {
	var revision struct {
		Spec struct {
			Template json.RawMessage `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(data, &revision); err != nil {
		return nil, fmt.Errorf("decoding a revision: %w", err)
	}
	t := &Template{}
	if err := json.Unmarshal(revision.Spec.Template, &t.raw); err != nil {
		return nil, fmt.Errorf("decoding the template of a revision: %w", err)
	}
	if err := json.Unmarshal(revision.Spec.Template, &t.PodTemplateSpec); err != nil {
		return nil, fmt.Errorf("decoding the template of a revision: %w", err)
	}
	return t, nil
}

// fixed is a template without what can be changed in place.
func (t *Template) fixed() map[string]any {
	f := runtime.DeepCopyJSON(t.raw)
	// The controllers write "$patch": "replace" into what they store.
	delete(f, "$patch")
	meta := child(f, "metadata")
	delete(meta, "creationTimestamp") // null, and since Kubernetes 1.34 not there
	delete(meta, "labels")
	delete(meta, "annotations")
	spec := child(f, "spec")
	for _, c := range containers(spec, "containers") {
		if name := c["name"]; name == v1alpha1.ContainerEtcd || name == v1alpha1.ContainerBackupRestore {
			delete(c, "image")
		}
		stripResources(c)
	}
	for _, c := range containers(spec, "initContainers") {
		if c["name"] == v1alpha1.InitContainerPrepare && c["restartPolicy"] == nil {
			delete(c, "image")
		}
	}
	return f
}

// stripResources removes requests and limits of CPU and memory, and what is empty without them.
func stripResources(container map[string]any) {
	resources := child(container, "resources")
	for _, bound := range []string{"requests", "limits"} {
		if amounts := child(resources, bound); amounts != nil {
			delete(amounts, string(corev1.ResourceCPU))
			delete(amounts, string(corev1.ResourceMemory))
			if len(amounts) == 0 {
				delete(resources, bound)
			}
		}
	}
	if len(resources) == 0 {
		delete(container, "resources")
	}
}

func child(of map[string]any, name string) map[string]any {
	m, _ := of[name].(map[string]any)
	return m
}

func containers(spec map[string]any, list string) []map[string]any {
	all, _ := spec[list].([]any)
	var maps []map[string]any
	for _, c := range all {
		if m, ok := c.(map[string]any); ok {
			maps = append(maps, m)
		}
	}
	return maps
}

// unlike returns the path of the first field in which two templates differ and which cannot be changed in place; empty if
// there is none.
func unlike(a, b *Template) string { return firstDifference("", a.fixed(), b.fixed()) }

func firstDifference(path string, a, b any) string {
	if reflect.DeepEqual(a, b) {
		return ""
	}
	x, ok := a.(map[string]any)
	y, too := b.(map[string]any)
	if ok && too {
		for _, key := range slices.Sorted(maps.Keys(merged(x, y))) {
			if d := firstDifference(strings.TrimPrefix(path+"."+key, "."), x[key], y[key]); d != "" {
				return d
			}
		}
	}
	p, ok := a.([]any)
	q, too := b.([]any)
	if ok && too && len(p) == len(q) {
		for i := range p {
			if d := firstDifference(fmt.Sprintf("%s[%s]", path, nameOr(p[i], i)), p[i], q[i]); d != "" {
				return d
			}
		}
	}
	return path
}

// nameOr is the name of an element of a list, or its index.
func nameOr(element any, i int) string {
	if m, ok := element.(map[string]any); ok {
		if name, ok := m["name"].(string); ok {
			return name
		}
	}
	return fmt.Sprint(i)
}

func merged(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
