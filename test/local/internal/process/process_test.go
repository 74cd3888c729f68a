// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/poll"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
)

// A later process with the same number must never be taken for the first.
func TestRecycledNumberIsAnotherProcess(t *testing.T) {
	self, err := Identify(os.Getpid())
	if err != nil {
		t.Skipf("no /proc here: %v", err)
	}
	if !self.Alive() {
		t.Error("this process is not alive")
	}
	earlier, otherBoot := self, self
	earlier.StartTime--
	otherBoot.Boot = "another"
	for name, impostor := range map[string]Identity{"started at another time": earlier, "of another boot": otherBoot} {
		if impostor.Alive() {
			t.Errorf("%s: alive", name)
		}
		// Would end this test if it were sent.
		if err := impostor.Signal(syscall.SIGKILL); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A process whose parent does not wait for it stays a zombie, and there is nothing to kill.
func TestZombieIsNotAlive(t *testing.T) {
	cmd := exec.Command("/bin/true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	ctx, cancel := context.WithTimeout(t.Context(), machine.Patience())
	defer cancel()
	err := poll.Until(ctx, func() (bool, error) {
		_, err := Identify(cmd.Process.Pid)
		return errors.Is(err, os.ErrNotExist), nil
	})
	if err != nil {
		t.Errorf("it is alive: %v", err)
	}
}

func newManager(t *testing.T) Manager {
	t.Helper()
	if _, err := Identify(os.Getpid()); err != nil {
		t.Skipf("no /proc here: %v", err)
	}
	dir := t.TempDir()
	m := Manager{Records: filepath.Join(dir, "records"), Logs: filepath.Join(dir, "logs")}
	t.Cleanup(func() {
		running, err := m.Running()
		if err != nil {
			t.Error(err)
		}
		for _, p := range running {
			if err := p.Identity.Signal(syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	})
	return m
}

func TestEnsureStartsOnceAndRestartsWhatChanged(t *testing.T) {
	m := newManager(t)
	input := filepath.Join(t.TempDir(), "input")
	write := func(content string) {
		if err := os.WriteFile(input, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	spec := Spec{Name: "sleep", Args: []string{"/bin/sleep", "100"}, Inputs: []string{input}}
	ensure := func(wantStarted bool) Process {
		t.Helper()
		p, started, err := m.Ensure(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		if started != wantStarted {
			t.Errorf("started: %t, want %t", started, wantStarted)
		}
		return p
	}
	first := ensure(true)
	if again := ensure(false); again.Identity != first.Identity {
		t.Errorf("got %v, want %v", again.Identity, first.Identity)
	}
	write("two")
	second := ensure(true)
	if first.Identity.Alive() {
		t.Error("the outdated process still runs")
	}
	if err := second.Identity.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := WaitGone(t.Context(), second.Identity); err != nil {
		t.Fatal(err)
	}
	ensure(true)
}

func TestMarkedFindsWhatWasStartedAndItsChildren(t *testing.T) {
	m := newManager(t)
	p, _, err := m.Ensure(t.Context(), Spec{Name: "parent", Args: []string{"/bin/sh", "-c", "sleep 4711 & wait"}})
	if err != nil {
		t.Fatal(err)
	}
	var marked []Identity
	child := func() int {
		return slices.IndexFunc(marked, func(i Identity) bool { return strings.Contains(Describe(i), "(sleep 4711)") })
	}
	ctx, cancel := context.WithTimeout(t.Context(), machine.Patience())
	defer cancel()
	err = poll.Until(ctx, func() (bool, error) {
		marked, err = Marked()
		return child() >= 0, err
	})
	if err != nil {
		t.Fatalf("the child is not found: %v", err)
	}
	if !slices.Contains(marked, p.Identity) {
		t.Errorf("%v is not among %v", p.Identity, marked)
	}
	if err := marked[child()].Signal(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if self, err := Identify(os.Getpid()); err != nil || slices.Contains(marked, self) {
		t.Errorf("%v is not marked, but found; %v", self, err)
	}
}

func TestWaitReadyShowsTheLogOfADeadProcess(t *testing.T) {
	m, die := newManager(t), filepath.Join(t.TempDir(), "die")
	p, _, err := m.Ensure(t.Context(), Spec{Name: "doomed", Args: []string{"/bin/sh", "-c", "echo cannot bind; until [ -e " + die + " ]; do sleep 0.01; done; exit 1"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(die, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), machine.Patience())
	defer cancel()
	err = p.WaitReady(ctx, func(context.Context) error { return errors.New("not yet") })
	if err == nil || !strings.Contains(err.Error(), "doomed: it died") || !strings.Contains(err.Error(), "cannot bind") || !strings.Contains(err.Error(), p.Log) {
		t.Errorf("got error %v", err)
	}
}

func TestLastLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for content, want := range map[string]string{"": "", "a\n": "a", "a\nb\nc\n": "b c", "\n\n": ""} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := lastLines(path, 2)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: got %q, %v", content, got, err)
		}
	}
}
