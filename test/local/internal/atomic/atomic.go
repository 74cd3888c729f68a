// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package atomic writes files in one step, so that neither a reader nor a run after a crash sees half of one. It imports
// the standard library only.
package atomic

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// WriteFile replaces the content of a file. A file that has that content is not touched: kube-proxy, for one, exits when
// its configuration file is written.
func WriteFile(path string, content []byte, mode os.FileMode) error {
	if before, err := os.ReadFile(path); err == nil && bytes.Equal(before, content) {
		return nil
	}
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	// A leftover of a crash would keep its own mode.
	if err := os.Remove(temporary); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.WriteFile(temporary, content, mode); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
