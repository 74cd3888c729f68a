// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package process starts the programs of the local Kubernetes in the background, and finds and stops exactly those,
// also from another run of this program.
package process

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/prometheus/procfs"
)

// Marker is set in the environment of every process that this package starts. Their children inherit it, so a process
// is found even if it died before its record was written, or was never recorded (a container's shim).
const Marker = "LOCAL_ETCD_FOREMAN=1"

// Identity distinguishes a process from all others, also from a later one that gets the same number.
type Identity struct {
	PID       int    `json:"pid"`
	StartTime uint64 `json:"startTime"` // clock ticks after the boot
	Boot      string `json:"boot"`      // ID of that boot of the machine
}

// Identify returns the identity of a living process. A zombie is not alive.
func Identify(pid int) (Identity, error) {
	identity, _, err := inspect(pid)
	return identity, err
}

// Stopped reports whether the process is stopped by SIGSTOP.
func (i Identity) Stopped() (bool, error) {
	now, state, err := inspect(i.PID)
	if err != nil {
		return false, err
	}
	if now != i {
		return false, fmt.Errorf("process %d ended, another has its number: %w", i.PID, os.ErrNotExist)
	}
	return state == "T", nil
}

// inspect returns the identity and the state of a living process.
func inspect(pid int) (Identity, string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Identity{}, "", fmt.Errorf("reading the boot ID: %w", err)
	}
	stat, err := stat(pid)
	if err != nil {
		return Identity{}, "", fmt.Errorf("reading the state of process %d: %w", pid, err)
	}
	return Identity{PID: pid, StartTime: stat.Starttime, Boot: strings.TrimSpace(string(boot))}, stat.State, nil
}

// stat returns what the kernel reports of a living process.
func stat(pid int) (procfs.ProcStat, error) {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}, err
	}
	stat, err := proc.Stat()
	if err == nil && (stat.State == "Z" || stat.State == "X") {
		err = os.ErrNotExist
	}
	return stat, err
}

// Alive reports whether this very process is still running.
func (i Identity) Alive() bool {
	now, err := Identify(i.PID)
	return err == nil && now == i
}

// Signal sends a signal to this very process. It is no error if the process has ended.
func (i Identity) Signal(signal syscall.Signal) error {
	if !i.Alive() {
		return nil
	}
	if err := syscall.Kill(i.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("sending %v to process %d: %w", signal, i.PID, err)
	}
	return nil
}
