// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"unique"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
)

// slim drops managed fields, and interns strings that the twenty or so objects of an Etcd share: names, namespace, UID and
// labels.
func slim(object any) (any, error) {
	o, err := meta.Accessor(object)
	if err != nil {
		// It has no metadata: it is the tombstone of a deleted object.
		return object, nil
	}
	o.SetManagedFields(nil)
	o.SetNamespace(interned(o.GetNamespace()))
	o.SetLabels(internedMap(o.GetLabels()))
	o.SetAnnotations(internedMap(o.GetAnnotations()))
	owners := o.GetOwnerReferences()
	for i := range owners {
		r := &owners[i]
		r.APIVersion, r.Kind, r.Name, r.UID = interned(r.APIVersion), interned(r.Kind), interned(r.Name), types.UID(interned(string(r.UID)))
	}
	o.SetOwnerReferences(owners)
	return object, nil
}

// interned returns a string that shares its memory with equal ones.
func interned(s string) string { return unique.Make(s).Value() }

func internedMap(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	next := make(map[string]string, len(m))
	for k, v := range m {
		next[interned(k)] = interned(v)
	}
	return next
}
