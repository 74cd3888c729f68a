// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package killed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

const variable = "KILLED_TEST_FOLDER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(variable); dir != "" {
		if err := work(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// work makes a folder and a file in it, and renames both.
func work(dir string) error {
	if err := os.Mkdir(filepath.Join(dir, "a"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "a", "b"), []byte("content"), 0o600); err != nil {
		return err
	}
	return os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "c"))
}

// Each state in between is seen, in order.
func TestAtEachWrite(t *testing.T) {
	dir := t.TempDir()
	var states []string
	kills := AtEachWrite(t, Every{1, 1}, func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), variable+"="+dir), os.Stderr
		return cmd
	}, func(string) {
		state := "nothing"
		for _, path := range []string{"a", "a/b", "c/b"} {
			if content, err := os.ReadFile(filepath.Join(dir, path)); err == nil {
				state = fmt.Sprintf("%s %q", path, content)
			} else if _, err := os.Stat(filepath.Join(dir, path)); err == nil {
				state = path
			}
		}
		states = append(states, state)
		for _, path := range []string{"a", "c"} {
			if err := os.RemoveAll(filepath.Join(dir, path)); err != nil {
				t.Fatal(err)
			}
		}
	})
	want := []string{"nothing", "a", `a/b ""`, `a/b "content"`, `c/b "content"`}
	if kills != len(want)-1 || !slices.Equal(states, want) {
		t.Errorf("%d kills: %q", kills, states)
	}
}
