// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Marked returns every living process with the marker in its environment.
func Marked() ([]Identity, error) {
	var marked []Identity
	err := each(func(pid int) {
		environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil || !hasMarker(environment) {
			return // gone, or a kernel thread
		}
		if identity, err := Identify(pid); err == nil {
			marked = append(marked, identity)
		}
	})
	return marked, err
}

// hasMarker tells whether an environment, NUL-separated, holds the marker.
func hasMarker(environment []byte) bool {
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		if string(variable) == Marker {
			return true
		}
	}
	return false
}

// Describe returns the command line of a process, for a message.
func Describe(identity Identity) string {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", identity.PID))
	if err != nil || len(content) == 0 {
		return strconv.Itoa(identity.PID)
	}
	words := strings.ReplaceAll(strings.TrimRight(string(content), "\x00"), "\x00", " ")
	const enough = 100
	if len(words) > enough {
		words = words[:enough] + "..."
	}
	return fmt.Sprintf("%d (%s)", identity.PID, words)
}

// Named returns the living processes with a name, as the kernel has it, for
// which the control group satisfies a condition.
func Named(name string, inCgroup func(cgroups string) bool) ([]Identity, error) {
	var named []Identity
	err := each(func(pid int) {
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err != nil || strings.TrimSpace(string(comm)) != name {
			return // gone, or another
		}
		cgroups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err != nil || !inCgroup(string(cgroups)) {
			return
		}
		if identity, err := Identify(pid); err == nil {
			named = append(named, identity)
		}
	})
	return named, err
}

// each calls visit for every process of the machine.
func each(visit func(pid int)) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("listing processes: %w", err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if errors.Is(err, strconv.ErrSyntax) {
			continue
		}
		visit(pid)
	}
	return nil
}
