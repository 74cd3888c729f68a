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

// setStatus gives an object the status of another one, whose memory it shares: what is stored never changes. Each kind that has a status has it as a
// subresource.
func setStatus(of, from client.Object) {
	if s := part(of, "Status"); s.IsValid() {
		s.Set(part(from, "Status"))
	}
}

// another returns an object that shares what is below its fields with one that is stored.
func another(stored client.Object) client.Object {
	next := reflect.New(reflect.TypeOf(stored).Elem())
	next.Elem().Set(reflect.ValueOf(stored).Elem())
	return next.Interface().(client.Object)
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
