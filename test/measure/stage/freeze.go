// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/node"
)

const (
	// nodeTimeout bounds an action on a process of this machine.
	nodeTimeout = 5 * time.Second
	// unreadyTimeout is how long a readiness probe may take to notice that a member is frozen.
	unreadyTimeout = time.Minute
)

// Freeze stops the etcd process of a member without ending it, as if its machine hung, and waits until its readiness probe
// fails. thaw resumes the process; it works even after the context has ended, and returns no error if the process has
// ended: Kubernetes kills a frozen one when it deletes its pod. It is never nil.
func (c Cluster) Freeze(ctx context.Context, ordinal int, note Note) (thaw func() error, err error) {
	thaw = func() error { return nil }
	pod, err := c.Pod(ctx, ordinal)
	if err != nil {
		return thaw, err
	}
	process, err := find(ctx, string(pod.UID))
	if err != nil {
		return thaw, err
	}
	thaw = func() error { return thawProcess(context.WithoutCancel(ctx), process) }
	if err := process.Freeze(ctx); err != nil {
		return thaw, fmt.Errorf("freezing %s: %w", pod.Name, err)
	}
	note("frozen")
	err = until(ctx, unreadyTimeout, pod.Name+" to be unready", note, func(ctx context.Context) (string, error) {
		pod, err := c.Pod(ctx, ordinal)
		if err != nil || !isReady(pod) {
			return "", err
		}
		return "its readiness probe has not failed three times yet", nil
	})
	return thaw, err
}

// ThawAll resumes every member that a killed run left frozen.
func (c Cluster) ThawAll(ctx context.Context) error {
	set, err := c.StatefulSet(ctx)
	if err != nil {
		return err
	}
	var failures []error
	for i := range int(*set.Spec.Replicas) {
		pod, err := c.Pod(ctx, i)
		if err != nil {
			continue // a missing member is not frozen
		}
		if process, err := find(ctx, string(pod.UID)); err == nil {
			failures = append(failures, thawProcess(ctx, process))
		}
	}
	return errors.Join(failures...)
}

func find(ctx context.Context, podUID string) (node.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	return node.Find(ctx, podUID, node.Etcd)
}

func thawProcess(ctx context.Context, process node.Process) error {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	if err := process.Thaw(ctx); err != nil && process.Alive() {
		return fmt.Errorf("thawing %s: %w", process, err)
	}
	return nil
}
