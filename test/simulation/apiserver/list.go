// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// selectable is a field by which objects can be selected.
type selectable struct{ kind, name string }

// IndexField implements client.FieldIndexer: objects can be selected by this field, of the server and of each cache.
func (s *Server) IndexField(_ context.Context, o client.Object, name string, extract client.IndexerFunc) error {
	kind, err := s.kindOf(o)
	if err != nil {
		return err
	}
	s.fields[selectable{kind.Kind, name}] = extract
	return nil
}

// fillList gives a list those of some objects of a kind that are selected.
func (s *Server) fillList(into client.ObjectList, kind string, from []client.Object, o *client.ListOptions) error {
	items := reflect.ValueOf(into).Elem().FieldByName("Items")
	if !items.IsValid() {
		return fmt.Errorf("listing a %T: not modeled", into)
	}
	items.SetZero()
	shared := ptr.Deref(o.UnsafeDisableDeepCopy, false)
	for _, object := range from {
		if o.Namespace != "" && object.GetNamespace() != o.Namespace || o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(object.GetLabels())) {
			continue
		}
		if matches, err := s.selected(object, kind, o); err != nil {
			return err
		} else if matches {
			items.Set(reflect.Append(items, reflect.ValueOf(own(object, shared)).Elem()))
		}
	}
	return nil
}

func (s *Server) selected(object client.Object, kind string, o *client.ListOptions) (bool, error) {
	if o.FieldSelector == nil {
		return true, nil
	}
	for _, r := range o.FieldSelector.Requirements() {
		extract, ok := s.fields[selectable{kind, r.Field}]
		if !ok {
			return false, fmt.Errorf("selecting a %s by %s: not modeled", kind, r.Field)
		}
		if !slices.Contains(extract(object), r.Value) {
			return false, nil
		}
	}
	return true, nil
}
