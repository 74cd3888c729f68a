// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package node bypasses the API server of the local Kubernetes: it finds the processes of pods on this machine, freezes,
// kills and disconnects them. Tests, the demo and the benchmarks break members with it in ways that Kubernetes does not
// notice: a frozen etcd still has its pod, its address and its open connections, as on a machine that hangs.
//
// It needs root, and works only on the machine that the pods run on.
package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/poll"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/process"
)

// Etcd is the name of an etcd process, for Find.
const Etcd = "etcd"

// Process is one process of a pod. Once it has ended, methods fail, even if a restarted container has a new one.
type Process struct {
	identity process.Identity
	podUID   string
}

// Find waits, until the context ends, for a pod to have exactly one process of that name, and returns it. The pod is
// given by its metadata.uid.
func Find(ctx context.Context, podUID, name string) (Process, error) {
	var found []process.Identity
	err := poll.Until(ctx, func() (bool, error) {
		var err error
		found, err = process.Named(name, func(cgroup string) bool { return belongsTo(cgroup, podUID) })
		return len(found) == 1, err
	})
	if err != nil {
		return Process{}, fmt.Errorf("finding process %s of pod %s (%d found): %w", name, podUID, len(found), err)
	}
	return Process{identity: found[0], podUID: podUID}, nil
}

// Program returns the process of a program that the local Kubernetes runs beside its pods, such as its API server or kubelet.
func Program(name string) (Process, error) {
	named, err := process.Named(name, func(cgroup string) bool { return !strings.Contains(cgroup, "/pod") })
	if err != nil {
		return Process{}, fmt.Errorf("finding program %s: %w", name, err)
	}
	marked, err := process.Marked()
	if err != nil {
		return Process{}, fmt.Errorf("finding program %s: %w", name, err)
	}
	for _, p := range named {
		if slices.Contains(marked, p) {
			return Process{identity: p, podUID: "none, program " + name}, nil
		}
	}
	return Process{}, fmt.Errorf("finding program %s: the local Kubernetes runs none of that name", name)
}

// PID returns the number of the process on this machine.
func (p Process) PID() int { return p.identity.PID }

// Alive reports whether the process has not ended. A frozen one is alive.
func (p Process) Alive() bool { return p.identity.Alive() }

// Stopped reports whether the process is frozen.
func (p Process) Stopped() bool {
	stopped, err := p.identity.Stopped()
	return err == nil && stopped
}

// Freeze stops the process without ending it (SIGSTOP), and returns once it is stopped. After an error it is not.
func (p Process) Freeze(ctx context.Context) error {
	err := p.signal(ctx, syscall.SIGSTOP, true)
	if err != nil {
		return errors.Join(err, p.identity.Signal(syscall.SIGCONT))
	}
	return nil
}

// Thaw continues a frozen process (SIGCONT). It is no error if it is not frozen.
func (p Process) Thaw(ctx context.Context) error { return p.signal(ctx, syscall.SIGCONT, false) }

// Kill ends the process without warning (SIGKILL), frozen or not, and returns once it is gone. It is no error if it has
// ended before.
func (p Process) Kill(ctx context.Context) error {
	err := p.identity.Signal(syscall.SIGKILL)
	if err == nil {
		err = poll.Until(ctx, func() (bool, error) { return !p.identity.Alive(), nil })
	}
	if err != nil {
		return fmt.Errorf("killing %s: %w", p, err)
	}
	return nil
}

// Terminate asks the process to end (SIGTERM). It does not wait.
func (p Process) Terminate() error { return p.identity.Signal(syscall.SIGTERM) }

// String names the process in messages.
func (p Process) String() string {
	return fmt.Sprintf("process %d of pod %s", p.identity.PID, p.podUID)
}

// signal sends a signal and waits until the process is stopped, or is not.
func (p Process) signal(ctx context.Context, sig syscall.Signal, stopped bool) error {
	err := p.identity.Signal(sig)
	if err == nil {
		err = poll.Until(ctx, func() (bool, error) {
			now, err := p.identity.Stopped()
			if errors.Is(err, os.ErrNotExist) {
				return false, errors.New("it has ended")
			}
			return now == stopped, err
		})
	}
	if err != nil {
		return fmt.Errorf("sending %v to %s: %w", sig, p, err)
	}
	return nil
}

// belongsTo reports whether a control group is one of a pod. The systemd driver writes the UID with underscores.
func belongsTo(cgroup, podUID string) bool {
	return podUID != "" && strings.Contains(strings.ReplaceAll(cgroup, "_", "-"), "pod"+podUID)
}
