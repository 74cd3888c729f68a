// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var groupVersion = schema.GroupVersion{Group: "druid.gardener.cloud", Version: "v1alpha1"}

// Fields of an object.
type Fields = map[string]any

// NewObject returns an Etcd or a task.
func NewObject(kind, namespace, name string, spec Fields) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: Fields{"spec": spec}}
	o.SetGroupVersionKind(groupVersion.WithKind(kind))
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// NewList returns an empty list of a kind.
func NewList(kind string) *unstructured.UnstructuredList {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(groupVersion.WithKind(kind))
	return l
}

// Etcd returns an Etcd of one small member, with more fields of its spec.
func (t *Tenant) Etcd(name string, more Fields) *unstructured.Unstructured {
	spec := Fields{
		"replicas": int64(1), "storageCapacity": "1Gi",
		"etcd": Fields{"resources": Fields{"requests": Fields{"cpu": "20m", "memory": "64Mi"}}},
	}
	for key, value := range more {
		spec[key] = value
	}
	return NewObject("Etcd", t.Namespace, name, spec)
}

// Task returns a task of an Etcd.
func (t *Tenant) Task(name, taskType, etcd string, more Fields) *unstructured.Unstructured {
	spec := Fields{"type": taskType, "ownerEtcdReference": Fields{"name": etcd}}
	for key, value := range more {
		spec[key] = value
	}
	return NewObject("EtcdOperatorTask", t.Namespace, name, spec)
}

// Refresh reads an object as the administrator.
func (s *Scene) Refresh(ctx context.Context, o client.Object) error {
	return s.Admin.Get(ctx, client.ObjectKeyFromObject(o), o)
}

// text returns a field of an object that is a text.
func text(o *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}

// State returns the state of a task.
func State(task *unstructured.Unstructured) string { return text(task, "status", "state") }

// Ended reports whether a task has ended.
func Ended(task *unstructured.Unstructured) bool {
	switch State(task) {
	case "Succeeded", "Failed", "Rejected":
		return true
	}
	return false
}

// LastError returns the code and the description of the newest error of a status.
func LastError(o *unstructured.Unstructured) (code, description string) {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "lastErrors")
	for _, one := range all {
		if e, ok := one.(Fields); ok {
			code, _ = e["code"].(string)
			description, _ = e["description"].(string)
			return code, description
		}
	}
	return "", ""
}

// Condition returns the status, the reason and the message of a condition.
func Condition(o *unstructured.Unstructured, conditionType string) (status, reason, message string) {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, one := range all {
		if c, ok := one.(Fields); ok && c["type"] == conditionType {
			status, _ = c["status"].(string)
			reason, _ = c["reason"].(string)
			message, _ = c["message"].(string)
		}
	}
	return status, reason, message
}

// End waits for the end of a task, and says what it was.
func (s *Scene) End(ctx context.Context, task *unstructured.Unstructured, limit time.Duration) (said string, over bool, err error) {
	over, err = Within(ctx, limit, func(ctx context.Context) (bool, error) {
		err := s.Refresh(ctx, task)
		return Ended(task), err
	})
	code, description := LastError(task)
	_, _, message := Condition(task, "Progressing")
	switch {
	case err != nil:
		return "", false, err
	case !over:
		return fmt.Sprintf("%q after %s: %s", State(task), limit, message), false, nil
	case code != "":
		return fmt.Sprintf("%s, %s: %s", State(task), code, description), true, nil
	}
	return State(task), true, nil
}

// AwaitReady waits until all members of an Etcd are ready.
func (s *Scene) AwaitReady(ctx context.Context, etcd *unstructured.Unstructured) error {
	err := Until(ctx, Patience, func(ctx context.Context) (bool, error) {
		if err := s.Refresh(ctx, etcd); err != nil {
			return false, err
		}
		ready, _, _ := Condition(etcd, "AllMembersReady")
		return ready == "True", nil
	})
	if err != nil {
		return fmt.Errorf("waiting for Etcd %s/%s: %w", etcd.GetNamespace(), etcd.GetName(), err)
	}
	return nil
}

// Change patches an object as a user.
func Change(ctx context.Context, c client.Client, o *unstructured.Unstructured, patch string) error {
	return c.Patch(ctx, o.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch)))
}
