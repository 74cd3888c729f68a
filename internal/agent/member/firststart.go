// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// FirstStart permits members without data to begin the cluster of an Etcd: the operator has checked that no volume holds data, which the
// new cluster would hide.
type FirstStart struct {
	// Etcd is the UID of the Etcd that has the permission. A later Etcd of the same name needs its own.
	Etcd string `json:"etcd"`
	// Claims are the UIDs of the claims that were found empty in a Round of surveys; empty if no claim existed. Only the operator reads them.
	Claims []string `json:"claims,omitempty"`
	Round  string   `json:"round,omitempty"`
}

// ParseFirstStart parses the value of KeyFirstStart. It returns nil, which permits nothing, if the value is empty or unreadable.
func ParseFirstStart(value string) *FirstStart {
	f := &FirstStart{}
	if err := yaml.Unmarshal([]byte(value), f); err != nil || f.Etcd == "" {
		return nil
	}
	return f
}

// Encode returns the value of KeyFirstStart.
func (f FirstStart) Encode() (string, error) {
	value, err := yaml.Marshal(f)
	if err != nil {
		return "", fmt.Errorf("encoding the permission for a first start: %w", err)
	}
	return string(value), nil
}
