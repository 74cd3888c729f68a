// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func part(o client.Object, name string) reflect.Value {
	return reflect.ValueOf(o).Elem().FieldByName(name)
}

// setStatus gives an object the status of another one. Each kind that has one has it as a subresource.
func setStatus(of, from client.Object) {
	if s := part(of, "Status"); s.IsValid() {
		s.Set(part(from.DeepCopyObject().(client.Object), "Status"))
	}
}

func clearStatus(of client.Object) {
	if s := part(of, "Status"); s.IsValid() {
		s.SetZero()
	}
}

func sameSpec(a, b client.Object) bool {
	s := part(a, "Spec")
	return !s.IsValid() || equality.Semantic.DeepEqual(s.Interface(), part(b, "Spec").Interface())
}
