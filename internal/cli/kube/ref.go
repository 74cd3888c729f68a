// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Ref is the argument of a verb: a name, or a kind and a name, such as etcd/main. The kind is empty if it was not given.
type Ref struct{ Kind, Name string }

// kinds are the kinds by the names that kubectl takes.
var kinds = map[string]string{
	"etcd": v1alpha1.KindEtcd, "etcds": v1alpha1.KindEtcd,
	"etcdoperatortask": v1alpha1.KindEtcdOperatorTask, "etcdoperatortasks": v1alpha1.KindEtcdOperatorTask, "etcdtask": v1alpha1.KindEtcdOperatorTask,
}

// ParseRef reads an argument that names an Etcd or a task, as kubectl writes it: main, etcd/main, or what -o name prints.
func ParseRef(arg string) (Ref, error) {
	resource, name, prefixed := strings.Cut(arg, "/")
	if !prefixed {
		resource, name = "", arg
	}
	var ref Ref
	if prefixed {
		singular := strings.TrimSuffix(strings.ToLower(resource), "."+v1alpha1.GroupVersion.Group)
		if ref.Kind = kinds[singular]; ref.Kind == "" {
			return ref, Usage("%q is neither an Etcd nor a task: use etcd/NAME, etcdoperatortask/NAME or NAME", arg)
		}
	}
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return ref, Usage("%q is not a name: %s", name, wrong[0])
	}
	ref.Name = name
	return ref, nil
}

// EtcdName reads an argument that names an Etcd.
func EtcdName(arg string) (string, error) { return nameOf(arg, v1alpha1.KindEtcd, "an Etcd") }

// TaskName reads an argument that names a task.
func TaskName(arg string) (string, error) {
	return nameOf(arg, v1alpha1.KindEtcdOperatorTask, "a task")
}

func nameOf(arg, kind, wanted string) (string, error) {
	ref, err := ParseRef(arg)
	if err == nil && ref.Kind != "" && ref.Kind != kind {
		err = Usage("%q is not %s", arg, wanted)
	}
	return ref.Name, err
}

// String returns the kind and the name, for people.
func (r Ref) String() string {
	switch r.Kind {
	case v1alpha1.KindEtcd:
		return fmt.Sprintf("Etcd %q", r.Name)
	case v1alpha1.KindEtcdOperatorTask:
		return fmt.Sprintf("task %q", r.Name)
	}
	return fmt.Sprintf("task and no Etcd %q", r.Name)
}
