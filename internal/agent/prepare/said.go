// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package prepare

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
)

// said is a file with what this pod's earlier runs have said of the volume. Only a run that ends is heard, since the kubelet passes on its
// termination message. So a run with news ends at once, and one without news waits.
type said string

// tell reports whether what a refusal says of the volume is new, and notes it.
func (s said) tell(r *cluster.Refusal) (fresh bool, err error) {
	if r.Volume == (cluster.Volume{}) {
		return false, nil
	}
	text := fmt.Sprintf("%s: %+v\n", r.Reason, r.Volume)
	before, err := os.ReadFile(string(s))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("reading what was said of the volume: %w", err)
	}
	if string(before) == text {
		return false, nil
	}
	if err := os.WriteFile(string(s), []byte(text), 0o600); err != nil {
		return false, fmt.Errorf("noting what is said of the volume: %w", err)
	}
	return true, nil
}

// forget is for a run that ends with another message, which replaces what was said of the volume: that is said again.
func (s said) forget() error {
	if err := os.Remove(string(s)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting what was said of the volume: %w", err)
	}
	return nil
}
