// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package process starts the programs of the local Kubernetes in the background
// and finds and stops exactly those, also from another run of this program. It
// imports the standard library and its siblings atomic and poll only.
package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Marker is set in the environment of every process that this package starts.
// Their children inherit it, so even a process that died before its record was
// written, or one that was never recorded (a container's shim), can be found.
const Marker = "LOCAL_ETCD_FOREMAN=1"

// Identity tells one process from all others, also from a later one that was
// given the same number.
type Identity struct {
	PID       int    `json:"pid"`
	StartTime uint64 `json:"startTime"` // clock ticks after the boot
	Boot      string `json:"boot"`      // ID of that boot of the machine
}

// Identify returns the identity of a living process. A zombie does not live.
func Identify(pid int) (Identity, error) {
	identity, _, err := inspect(pid)
	return identity, err
}

// Stopped tells whether the process is held by SIGSTOP.
func (i Identity) Stopped() (bool, error) {
	now, state, err := inspect(i.PID)
	if err != nil {
		return false, err
	}
	if now != i {
		return false, fmt.Errorf("process %d ended, another has its number: %w", i.PID, os.ErrNotExist)
	}
	return state == 'T', nil
}

// inspect returns the identity and the state of a living process.
func inspect(pid int) (Identity, byte, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Identity{}, 0, fmt.Errorf("reading the boot ID: %w", err)
	}
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Identity{}, 0, fmt.Errorf("reading state of process %d: %w", pid, err)
	}
	state, startTime, err := parseStat(string(content))
	if err != nil {
		return Identity{}, 0, fmt.Errorf("reading state of process %d: %w", pid, err)
	}
	if state == 'Z' || state == 'X' {
		return Identity{}, 0, fmt.Errorf("reading state of process %d: %w", pid, os.ErrNotExist)
	}
	return Identity{PID: pid, StartTime: startTime, Boot: strings.TrimSpace(string(boot))}, state, nil
}

// Alive tells whether this very process still runs.
func (i Identity) Alive() bool {
	now, err := Identify(i.PID)
	return err == nil && now == i
}

// Signal sends a signal to this very process; it is no error if it is gone.
func (i Identity) Signal(signal syscall.Signal) error {
	if !i.Alive() {
		return nil
	}
	if err := syscall.Kill(i.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("sending %v to process %d: %w", signal, i.PID, err)
	}
	return nil
}

// parseStat returns the state and the start time in a /proc/PID/stat.
func parseStat(stat string) (state byte, startTime uint64, err error) {
	// The second field is the name in parentheses, and may itself hold spaces
	// and parentheses; so the fields are counted from the last parenthesis.
	const stateField, startTimeField = 3, 22
	end := strings.LastIndexByte(stat, ')')
	fields := strings.Fields(stat[end+1:])
	if end < 0 || len(fields) <= startTimeField-stateField {
		return 0, 0, fmt.Errorf("unexpected content %q", stat)
	}
	startTime, err = strconv.ParseUint(fields[startTimeField-stateField], 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("unexpected start time: %w", err)
	}
	return fields[0][0], startTime, nil
}
