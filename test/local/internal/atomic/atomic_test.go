// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package atomic

import (
	"os"
	"path/filepath"
	"testing"
)

// A program that watches a file sees a change only when there is one.
func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	var before os.FileInfo
	for i, test := range []struct {
		content string
		same    bool
	}{{"one", false}, {"one", true}, {"two", false}} {
		if err := WriteFile(path, []byte(test.content), 0o600); err != nil {
			t.Fatal(err)
		}
		after, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if os.SameFile(before, after) != test.same || after.Mode() != 0o600 {
			t.Errorf("%d: same file: %t, mode %v", i, !test.same, after.Mode())
		}
		before = after
	}
}
