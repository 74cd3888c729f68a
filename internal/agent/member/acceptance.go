// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"bytes"
	"fmt"

	"sigs.k8s.io/yaml"
)

// Acceptance is what the author of an Etcd whose snapshots are signed or encrypted lets a restore use nevertheless.
type Acceptance struct {
	// UnsignedUntil is the time, in RFC 3339, until which snapshots need no signature; empty for none.
	UnsignedUntil string `json:"unsignedUntil,omitempty"`
	// PlainUntil is the time, in RFC 3339, until which snapshots need not be encrypted; empty for none.
	PlainUntil string `json:"plainUntil,omitempty"`
	// Revision at which the snapshots may end although a later one is recorded; 0 for none.
	Revision int64 `json:"revision,omitempty"`
}

// parseAcceptance parses the value of KeyAccept; nil if it is empty. Fields that a later operator may add are ignored: less is accepted then,
// and members that restore nothing start.
func parseAcceptance(value []byte) (*Acceptance, error) {
	if len(bytes.TrimSpace(value)) == 0 {
		return nil, nil
	}
	a := &Acceptance{}
	if err := yaml.Unmarshal(value, a); err != nil {
		return nil, fmt.Errorf("reading %s of the shared configuration: %w", KeyAccept, err)
	}
	return a, nil
}

// Encode returns the value of KeyAccept; empty for nothing.
func (a Acceptance) Encode() (string, error) {
	if a == (Acceptance{}) {
		return "", nil
	}
	value, err := yaml.Marshal(a)
	if err != nil {
		return "", fmt.Errorf("encoding what a restore may use: %w", err)
	}
	return string(value), nil
}
