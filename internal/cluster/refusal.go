// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
)

// Refusal is why the agent keeps the member of a pod from starting. The agent writes it into the termination message of its
// container, and the operator reads it there.
type Refusal struct {
	// Reason is one of those of the condition DataVolumesReady.
	Reason string
	// Message is a sentence for people.
	Message string
}

// Error implements error. ParseRefusal reads it.
func (r *Refusal) Error() string { return r.Reason + ": " + r.Message }

// ParseRefusal reads a termination message; nil when it is not that of a refusal, but the end of a log, say.
func ParseRefusal(text string) *Refusal {
	reason, message, found := strings.Cut(strings.TrimSpace(text), ": ")
	if !found || !v1alpha1.IsDataVolumeReason(reason) {
		return nil
	}
	return &Refusal{reason, message}
}
