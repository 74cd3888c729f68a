// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package kstatus computes the status of an object by the rules of kstatus (sigs.k8s.io/cli-utils/pkg/kstatus), as Flux and
// kpt do for kinds of which they know nothing.
package kstatus

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Status of an object.
type Status string

// The statuses.
const (
	InProgress  Status = "InProgress"
	Failed      Status = "Failed"
	Current     Status = "Current"
	Terminating Status = "Terminating"
)

// Compute returns the status of an object, and why.
func Compute(object any) (Status, string, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return "", "", fmt.Errorf("converting: %w", err)
	}
	u := &unstructured.Unstructured{Object: content}
	var status struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &status); err != nil {
		return "", "", fmt.Errorf("reading the conditions: %w", err)
	}
	if u.GetDeletionTimestamp() != nil {
		return Terminating, "", nil
	}
	observed, found, err := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	if err != nil {
		return "", "", fmt.Errorf("reading the observed generation: %w", err)
	}
	if found && observed != u.GetGeneration() {
		return InProgress, fmt.Sprintf("generation %d, observed %d", u.GetGeneration(), observed), nil
	}
	for _, c := range status.Status.Conditions {
		switch {
		case c.Type == "Reconciling" && c.Status == metav1.ConditionTrue:
			return InProgress, c.Message, nil
		case c.Type == "Stalled" && c.Status == metav1.ConditionTrue:
			return Failed, c.Message, nil
		}
	}
	for _, c := range status.Status.Conditions {
		if c.Type == "Ready" && c.Status != metav1.ConditionTrue {
			return InProgress, c.Message, nil
		}
	}
	return Current, "", nil
}
