// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// facts are what is known of a CustomResourceDefinition of etcd-druid: names, subresources, and its fields by their paths.
type facts struct {
	Names        map[string]any   `json:"names"`
	Subresources map[string]any   `json:"subresources"`
	Fields       map[string]field `json:"fields"`
}

// field is one field, with the properties of its schema.
type field map[string]any

func (f field) required() bool { required, _ := f["required"].(bool); return required }

// upstream reads the facts about a CustomResourceDefinition of etcd-druid.
func upstream(t testing.TB, plural string) facts {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", plural+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var f facts
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// crd builds a CustomResourceDefinition from the facts.
func (f facts) crd() *unstructured.Unstructured {
	names := map[string]any{}
	for name, value := range f.Names {
		names[name] = value
	}
	plural := names["plural"].(string)
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": names,
			"versions": []any{map[string]any{
				"name": "v1alpha1", "served": true, "storage": true, "subresources": f.Subresources,
				"schema": map[string]any{"openAPIV3Schema": f.schema("")},
			}},
		},
	}}
}

// schema builds the schema of the field at a path from the fields beneath it.
func (f facts) schema(path string) map[string]any {
	schema := map[string]any{}
	for property, value := range f.Fields[path] {
		switch property {
		case "required":
		case "rules":
			rules := []any{}
			for _, rule := range value.([]any) {
				rules = append(rules, map[string]any{"rule": rule})
			}
			schema["x-kubernetes-validations"] = rules
		default:
			schema[property] = value
		}
	}
	if intOrString, _ := schema["x-kubernetes-int-or-string"].(bool); intOrString {
		schema["anyOf"] = []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}}
		return schema
	}
	switch schema["type"] {
	case "array":
		schema["items"] = map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
		if _, ok := f.Fields[path+"[]"]; ok {
			schema["items"] = f.schema(path + "[]")
		}
	case "object":
		if _, ok := f.Fields[path+"{}"]; ok {
			schema["additionalProperties"] = f.schema(path + "{}")
			return schema
		}
		properties, required := map[string]any{}, []any{}
		for _, name := range f.children(path) {
			properties[name] = f.schema(path + "." + name)
			if f.Fields[path+"."+name].required() {
				required = append(required, name)
			}
		}
		if len(properties) == 0 {
			if path != ".metadata" {
				schema["x-kubernetes-preserve-unknown-fields"] = true
			}
			return schema
		}
		schema["properties"] = properties
		if len(required) > 0 {
			schema["required"] = required
		}
	}
	return schema
}

// children returns the names of the fields directly beneath a path.
func (f facts) children(path string) []string {
	var names []string
	for at := range f.Fields {
		name, ok := strings.CutPrefix(at, path+".")
		if ok && name != "" && !strings.ContainsAny(name, ".[{") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
