// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/cgroup"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/poll"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/process"
)

// killAll kills every process of the cluster, by force and at once: all state is removed, so there is nothing to save,
// and a component that outlives the others would only restart them.
func killAll(ctx context.Context) error {
	var processes []process.Identity
	err := poll.Until(ctx, func() (bool, error) {
		var err error
		// Listed each time: a process that dies may leave a child behind.
		processes, err = remaining()
		if err != nil {
			return false, err
		}
		for _, p := range processes {
			if err := p.Signal(syscall.SIGKILL); err != nil {
				return false, err
			}
		}
		return len(processes) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("killing processes: %w; these remain: %s", err, describe(processes))
	}
	return nil
}

// remaining returns the living processes of the cluster: those that are recorded, marked, or in the pods' cgroup.
func remaining() ([]process.Identity, error) {
	recorded, err := process.Manager{Records: layout.Records}.Running()
	if err != nil {
		return nil, err
	}
	var found []process.Identity
	for _, p := range recorded {
		found = append(found, p.Identity)
	}
	marked, err := process.Marked()
	if err != nil {
		return nil, err
	}
	contained, err := cgroup.Processes()
	if err != nil {
		return nil, err
	}
	for _, identity := range append(marked, contained...) {
		if identity.PID != os.Getpid() && !slices.Contains(found, identity) {
			found = append(found, identity)
		}
	}
	return found, nil
}

func describe(processes []process.Identity) string {
	var descriptions []string
	for _, p := range processes {
		descriptions = append(descriptions, process.Describe(p))
	}
	return strings.Join(descriptions, ", ")
}
