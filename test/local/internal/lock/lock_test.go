// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/test/measure/console"
)

// A run that waits for another says so, and can give up.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	output, err := os.Create(filepath.Join(dir, "output"))
	if err != nil {
		t.Fatal(err)
	}
	c := console.New(output)
	said := func() string {
		content, err := os.ReadFile(output.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	path := filepath.Join(dir, "lock")
	held, err := File(t.Context(), c, path, "build")
	if err != nil || said() != "" {
		t.Fatalf("%v, %q", err, said())
	}
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := File(impatient, c, path, "build"); !errors.Is(err, context.Canceled) || said() != "waiting for another build\n" {
		t.Errorf("%v, %q", err, said())
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := File(impatient, c, path, "build")
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := File(t.Context(), c, filepath.Join(dir, "none", "lock"), "build"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a folder that does not exist: %v", err)
	}
}
