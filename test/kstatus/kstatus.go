// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package kstatus computes the status of a typed object by kstatus, as Flux and kpt do for custom resources.
package kstatus

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// Status of an object.
type Status = status.Status

// The statuses.
const (
	InProgress = status.InProgressStatus
	Failed     = status.FailedStatus
	Current    = status.CurrentStatus
)

// Compute returns the status of an object, and why.
func Compute(object any) (Status, string, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return "", "", fmt.Errorf("converting: %w", err)
	}
	result, err := status.Compute(&unstructured.Unstructured{Object: content})
	if err != nil {
		return "", "", fmt.Errorf("computing the status: %w", err)
	}
	return result.Status, result.Message, nil
}
