// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
)

// Refusal is why the agent keeps the member of a pod from starting. The agent writes it into the termination message of its
// container, and the operator reads it there.
type Refusal struct {
	// Reason is a reason of the condition DataVolumesReady.
	Reason string
	// Message is a sentence for people.
	Message string
	// Volume is what the agent says of the member's volume; the zero value if it says nothing.
	Volume Volume
}

// Error implements error.
func (r *Refusal) Error() string { return r.Reason + ": " + r.Message }

// maxMessage bounds the message in a termination message, in bytes, so that what follows it is not cut off: the kubelet keeps 4 KiB.
const maxMessage = 3 << 10

// TerminationMessage returns the text that ParseRefusal reads. The last line is for programs; earlier operators show it.
func (r *Refusal) TerminationMessage() string {
	text := r.Error()
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + " ..."
	}
	if r.Volume == (Volume{}) {
		return text
	}
	volume, _ := json.Marshal(r.Volume) // strings can always be encoded
	return text + volumePrefix + string(volume)
}

// ParseRefusal parses a termination message; nil if it is not that of a refusal but, for example, the end of a log.
func ParseRefusal(text string) *Refusal {
	reason, rest, found := strings.Cut(strings.TrimSpace(text), ": ")
	if !found || !v1alpha1.IsDataVolumeReason(reason) {
		return nil
	}
	message, volume := cutVolume(rest)
	return &Refusal{reason, message, volume}
}
