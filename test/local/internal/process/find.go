// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

// Marked returns every living process with the marker in its environment.
func Marked() ([]Identity, error) {
	return find(func(p procfs.Proc) bool {
		environment, err := p.Environ()
		return err == nil && slices.Contains(environment, Marker)
	})
}

// Named returns the living processes with a name, as the kernel has it, and a control group that satisfies a condition.
func Named(name string, inCgroup func(path string) bool) ([]Identity, error) {
	return find(func(p procfs.Proc) bool {
		if comm, err := p.Comm(); err != nil || comm != name {
			return false
		}
		cgroups, err := p.Cgroups()
		return err == nil && slices.ContainsFunc(cgroups, func(c procfs.Cgroup) bool { return inCgroup(c.Path) })
	})
}

// find returns the living processes that match.
func find(matches func(procfs.Proc) bool) ([]Identity, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var found []Identity
	for _, p := range all {
		if !matches(p) {
			continue
		}
		// One that cannot be identified has just ended.
		if identity, err := Identify(p.PID); err == nil {
			found = append(found, identity)
		}
	}
	return found, nil
}

// Describe returns the number and the command line of a process, for a message.
func Describe(identity Identity) string {
	p, err := procfs.NewProc(identity.PID)
	if err != nil {
		return strconv.Itoa(identity.PID)
	}
	words, err := p.CmdLine()
	if err != nil || len(words) == 0 {
		return strconv.Itoa(identity.PID)
	}
	const enough = 100
	line := strings.Join(words, " ")
	if len(line) > enough {
		line = line[:enough] + "..."
	}
	return fmt.Sprintf("%d (%s)", identity.PID, line)
}
