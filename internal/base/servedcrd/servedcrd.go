// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package servedcrd checks that the API server keeps what the operator writes. Another operator of the same API group may have
// installed its own CustomResourceDefinition, whose schema prunes or rejects fields that this operator relies on.
package servedcrd

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi3"
)

// The API server publishes the schema of a new CustomResourceDefinition a moment after it serves the type.
const (
	pollInterval = 500 * time.Millisecond
	pollTimeout  = 15 * time.Second
	// watchInterval is how often Watch asks what the API server publishes.
	watchInterval = 5 * time.Second
)

// Definition is a CustomResourceDefinition that the operator needs.
type Definition struct {
	Kind, Plural string
	// Component of config/crd that has it.
	Component string
	// Status is the Go type of the status, and Spec that of the spec; nil if fields of it may be missing.
	Status, Spec reflect.Type
}

// lackingError says that a served definition lacks fields. A definition that is not served is another error: an API server that has just
// started publishes definitions one by one.
type lackingError struct{ error }

// Check returns an error if the served schema lacks a field. It reads the schema that the API server publishes to every authenticated
// user, so it needs no permission.
func (d Definition) Check(ctx context.Context, api openapi.Client) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, pollTimeout, true, func(context.Context) (bool, error) {
		last = d.check(api)
		return last == nil, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

func (d Definition) check(api openapi.Client) error {
	// A root lists the served groups once, so each attempt has its own.
	document, err := openapi3.NewRoot(api).GVSpecAsMap(v1alpha1.GroupVersion)
	if err != nil {
		return fmt.Errorf("the API server serves no %s: %w; install the CustomResourceDefinitions of config/crd", v1alpha1.GroupVersion, err)
	}
	schema := schemaOf(document, d.Kind)
	if schema == nil {
		return fmt.Errorf("the API server serves no %s of %s; install the CustomResourceDefinitions of config/crd", d.Kind, v1alpha1.GroupVersion)
	}
	var missing []string
	lacking("status", d.Status, property(schema, "status"), &missing)
	if d.Spec != nil {
		lacking("spec", d.Spec, property(schema, "spec"), &missing)
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return lackingError{fmt.Errorf("the CustomResourceDefinition %s.%s lacks %s, which the API server would drop from each %s; "+
			"it belongs to another operator or to another version of this one, and is not overwritten: install config/crd/%s, or remove this operator",
			d.Plural, v1alpha1.GroupVersion.Group, strings.Join(missing, ", "), d.Kind, d.Component)}
	}
	return nil
}

// Watch checks definitions again whenever the API server publishes another schema, and returns the error of one that lacks a field. What
// was in that field is dropped also from what is read, and looks as if it had never been there. It returns nil when the context ends.
func Watch(ctx context.Context, api openapi.Client, definitions ...Definition) error {
	checked := ""
	var lacks lackingError
	_ = wait.PollUntilContextCancel(ctx, watchInterval, true, func(context.Context) (bool, error) {
		paths, err := api.Paths()
		published := paths["apis/"+v1alpha1.GroupVersion.String()]
		if err != nil || published == nil || published.ServerRelativeURL() == checked {
			// An API server that does not answer says nothing, and one that has just started may not publish it yet.
			return false, nil
		}
		var failed error
		for _, d := range definitions {
			failed = errors.Join(failed, d.check(api))
		}
		if failed == nil {
			// The URL contains a hash of the schema.
			checked = published.ServerRelativeURL()
		}
		return errors.As(failed, &lacks), nil
	})
	return lacks.error
}

// schemaOf returns the schema of a kind in an OpenAPI document; nil if there is none.
func schemaOf(document map[string]any, kind string) map[string]any {
	components, _ := document["components"].(map[string]any)
	schemas, _ := components["schemas"].(map[string]any)
	for _, schema := range schemas {
		schema, _ := schema.(map[string]any)
		kinds, _ := schema["x-kubernetes-group-version-kind"].([]any)
		for _, served := range kinds {
			if served, _ := served.(map[string]any); served["group"] == v1alpha1.GroupVersion.Group && served["kind"] == kind {
				return schema
			}
		}
	}
	return nil
}

func property(schema map[string]any, name string) map[string]any {
	properties, _ := schema["properties"].(map[string]any)
	p, _ := properties[name].(map[string]any)
	return p
}

// lacking appends the paths of the fields of a type that a schema lacks.
func lacking(path string, of reflect.Type, schema map[string]any, missing *[]string) {
	if schema == nil {
		*missing = append(*missing, path)
		return
	}
	if keep, _ := schema["x-kubernetes-preserve-unknown-fields"].(bool); keep {
		return
	}
	switch of.Kind() {
	case reflect.Pointer:
		lacking(path, of.Elem(), schema, missing)
	case reflect.Slice:
		items, _ := schema["items"].(map[string]any)
		lacking(path, of.Elem(), items, missing)
	case reflect.Struct:
		for i := range of.NumField() {
			field := of.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			switch {
			case name == "-" || !field.IsExported():
			case name == "":
				lacking(path, field.Type, schema, missing)
			case schema["type"] != "object":
				// A time or a quantity: a struct in Go, a string in JSON.
			default:
				lacking(path+"."+name, field.Type, property(schema, name), missing)
			}
		}
	}
}
