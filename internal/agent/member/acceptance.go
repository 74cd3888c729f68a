// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"bytes"
	"fmt"

	"sigs.k8s.io/yaml"
)

// Acceptance lists what a restore may use although the snapshots of the Etcd have to be signed or encrypted. The author of the Etcd decides.
type Acceptance struct {
	// UnsignedUntil is the time, in RFC 3339, until which snapshots need no signature; empty for none.
	UnsignedUntil string `json:"unsignedUntil,omitempty"`
	// PlainUntil is the time, in RFC 3339, until which snapshots need not be encrypted; empty for none.
	PlainUntil string `json:"plainUntil,omitempty"`
	// Revision at which the snapshots may end although a later one is recorded; 0 for none.
	Revision int64 `json:"revision,omitempty"`
}

// parseAcceptance parses the value of KeyAccept; nil if it is empty. It ignores unknown fields, which a later operator may add: then less is
// accepted, and members that restore nothing still start.
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
