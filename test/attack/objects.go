// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var groupVersion = schema.GroupVersion{Group: "druid.gardener.cloud", Version: "v1alpha1"}

// fields of an object.
type fields = map[string]any

func newObject(kind, namespace, name string, spec fields) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: fields{"spec": spec}}
	o.SetGroupVersionKind(groupVersion.WithKind(kind))
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func newList(kind string) *unstructured.UnstructuredList {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(groupVersion.WithKind(kind))
	return l
}

// etcd returns an Etcd of one small member, with more fields of its spec.
func (t *tenant) etcd(name string, more fields) *unstructured.Unstructured {
	spec := fields{
		"replicas": int64(1), "storageCapacity": "1Gi",
		"etcd": fields{"resources": fields{"requests": fields{"cpu": "20m", "memory": "64Mi"}}},
	}
	for key, value := range more {
		spec[key] = value
	}
	return newObject("Etcd", t.namespace, name, spec)
}

// task returns a task of an Etcd.
func (t *tenant) task(name, taskType, etcd string, more fields) *unstructured.Unstructured {
	spec := fields{"type": taskType, "ownerEtcdReference": fields{"name": etcd}}
	for key, value := range more {
		spec[key] = value
	}
	return newObject("EtcdOperatorTask", t.namespace, name, spec)
}

// refresh reads an object as the administrator.
func (s *scene) refresh(ctx context.Context, o client.Object) error {
	return s.admin.Get(ctx, client.ObjectKeyFromObject(o), o)
}

// text returns a field of an object that is a text.
func text(o *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}

func state(task *unstructured.Unstructured) string { return text(task, "status", "state") }

// ended reports whether a task has ended.
func ended(task *unstructured.Unstructured) bool {
	switch state(task) {
	case "Succeeded", "Failed", "Rejected":
		return true
	}
	return false
}

// lastError returns the code and the description of the newest error of a status.
func lastError(o *unstructured.Unstructured) (code, description string) {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "lastErrors")
	for _, one := range all {
		if e, ok := one.(fields); ok {
			code, _ = e["code"].(string)
			description, _ = e["description"].(string)
			return code, description
		}
	}
	return "", ""
}

// condition returns the status, the reason and the message of a condition.
func condition(o *unstructured.Unstructured, conditionType string) (status, reason, message string) {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, one := range all {
		if c, ok := one.(fields); ok && c["type"] == conditionType {
			status, _ = c["status"].(string)
			reason, _ = c["reason"].(string)
			message, _ = c["message"].(string)
		}
	}
	return status, reason, message
}

// end waits for the end of a task, and says what it was.
func (s *scene) end(ctx context.Context, task *unstructured.Unstructured, limit time.Duration) (said string, over bool, err error) {
	over, err = within(ctx, limit, func(ctx context.Context) (bool, error) {
		err := s.refresh(ctx, task)
		return ended(task), err
	})
	code, description := lastError(task)
	_, _, message := condition(task, "Progressing")
	switch {
	case err != nil:
		return "", false, err
	case !over:
		return fmt.Sprintf("%q after %s: %s", state(task), limit, message), false, nil
	case code != "":
		return fmt.Sprintf("%s, %s: %s", state(task), code, description), true, nil
	}
	return state(task), true, nil
}

// awaitReady waits until all members of an Etcd are ready.
func (s *scene) awaitReady(ctx context.Context, etcd *unstructured.Unstructured) error {
	err := until(ctx, patience, func(ctx context.Context) (bool, error) {
		if err := s.refresh(ctx, etcd); err != nil {
			return false, err
		}
		ready, _, _ := condition(etcd, "AllMembersReady")
		return ready == "True", nil
	})
	if err != nil {
		return fmt.Errorf("waiting for Etcd %s/%s: %w", etcd.GetNamespace(), etcd.GetName(), err)
	}
	return nil
}

// refused says how something was refused, or that it was not.
func refused(err error) (string, bool) {
	switch {
	case err == nil:
		return "accepted", false
	case apierrors.IsForbidden(err):
		return "Forbidden", true
	case apierrors.IsInvalid(err):
		return "Invalid", true
	}
	return err.Error(), false
}
