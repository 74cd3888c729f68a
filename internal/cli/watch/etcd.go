// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// followEtcd follows the tasks of an Etcd, one after the other, until its newest spec is applied. A task that had already ended
// counts only if nothing is pending: right after a change of the spec, the newest task still belongs to the previous change.
func (c *command) followEtcd(ctx context.Context, cluster *kube.Cluster, ref kube.Ref) error {
	followed, said := false, ""
	for {
		// The Etcd is read before its tasks: if nothing is pending, every task that its spec asked for exists.
		pending, err := c.pending(ctx, cluster, ref.Name)
		if err != nil {
			return err
		}
		if followed && pending == "" {
			return nil
		}
		task, err := cluster.CurrentTask(ctx, ref)
		switch {
		case ctx.Err() != nil:
			return stopped(ctx, "the tasks of Etcd "+ref.Name+" have not been read.")
		case err != nil && pending == "":
			return err
		case err == nil && (!task.Status.State.IsFinal() || pending == ""):
			last, err := c.follow(ctx, cluster, task)
			if err != nil && !superseded(last) || task.Status.State.IsFinal() {
				return err
			}
			followed = true
			continue
		}
		if pending != said {
			text.Print(c.ErrOut, pending)
			said = pending
		}
		select {
		case <-ctx.Done():
			return stopped(ctx, pending)
		case <-c.Clock.After(pendingPeriod):
		}
	}
}

// pending returns what is not applied yet of the spec of an Etcd; empty if nothing is pending, or if the user may not read the Etcd.
func (c *command) pending(ctx context.Context, cluster *kube.Cluster, name string) (string, error) {
	etcd := &v1alpha1.Etcd{}
	switch err := cluster.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: name}, etcd); {
	case kube.IsObjectNotFound(err) || apierrors.IsForbidden(err):
		return "", nil
	case kube.IsOver(ctx):
		return "", stopped(ctx, "Etcd "+name+" has not been read.")
	case err != nil:
		return "", fmt.Errorf("reading Etcd %s/%s: %w", cluster.Namespace, name, err)
	}
	return pendingOf(etcd)
}

// pendingOf returns a sentence about what is not applied yet of the spec of an Etcd; empty if nothing is pending. It returns an
// error if the operator will not apply it.
func pendingOf(etcd *v1alpha1.Etcd) (string, error) {
	status := etcd.Status
	updated := status.Conditions.Find(v1alpha1.ConditionAllMembersUpdated)
	switch {
	case status.ObservedGeneration < etcd.Generation && etcd.SpecSuspended():
		return "", kube.Failure("the newest spec of Etcd %s is not applied: its annotation %s suspends it", etcd.Name, etcd.SuspendedBy())
	case status.ObservedGeneration < etcd.Generation:
		say := fmt.Sprintf("Etcd %s: the operator has not applied the newest spec yet.", etcd.Name)
		if failed := status.Conditions.Find(v1alpha1.ConditionReconciled); failed != nil && failed.Reason == v1alpha1.ReasonReconcileFailed {
			say += " " + failed.Message
		}
		return say, nil
	case status.Rollout != nil || updated != nil && updated.Status == "False":
		say := fmt.Sprintf("Etcd %s: a rollout is pending.", etcd.Name)
		if updated != nil {
			say += " " + updated.Message
		}
		return say, nil
	}
	return "", nil
}

// superseded reports whether a task ended because a later one does its work.
func superseded(t *v1alpha1.EtcdOperatorTask) bool {
	return t != nil && slices.ContainsFunc(t.Status.LastErrors, func(e v1alpha1.LastError) bool { return e.Code == v1alpha1.ErrSuperseded })
}

// stopped returns the error of a wait that ended before the next task existed.
func stopped(ctx context.Context, pending string) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &kube.Error{Code: kube.ExitTimedOut, Err: fmt.Errorf("timed out: %s", pending)}
	}
	return kube.Failure("stopped waiting: %s", pending)
}
