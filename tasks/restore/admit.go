// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/job/storeaccess"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/tasks/newcluster"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Admit implements tasks.Methods. A preview needs a backup store. To replace data, the recorded cluster must serve, too.
func (h *Handler) Admit(ctx context.Context, task tasks.Typed[Config]) (tasks.Verdict, error) {
	etcd, err := tasks.LiveEtcd(ctx, h.Live, task.Task)
	if err != nil {
		return tasks.Verdict{}, err
	}
	if why, err := h.refused(ctx, task.Config, etcd); err != nil || why != nil {
		return tasks.Rejected(v1alpha1.ErrInvalidConfig, "spec.config: %v", why), err
	}
	switch store := etcd.BackupStore(); {
	case store == nil:
		return tasks.Rejected(v1alpha1.ErrNoBackup, "Etcd %s has no spec.backup.store", etcd.Name), nil
	case storeaccess.Validate(*store, etcd.Namespace) != nil:
		return tasks.Rejected(v1alpha1.ErrNoBackup, "spec.backup: %v", storeaccess.Validate(*store, etcd.Namespace)), nil
	case etcd.Status.ClusterID == "":
		return tasks.Rejected(v1alpha1.ErrNeverServed, "Etcd %s has never had a quorum, so there is nothing to go back from", etcd.Name), nil
	case !task.Config.replaces():
		return tasks.Verdict{Outcome: tasks.Continue, Message: "a Job previews the restore, and nothing is changed"}, nil
	case etcd.Source() != nil:
		return tasks.Rejected(v1alpha1.ErrSourceCluster, "Etcd %s still shares a cluster with members of its source cluster: create the task again once the last member of that has left", etcd.Name), nil
	case etcd.Spec.Replicas == 0:
		return tasks.Rejected(v1alpha1.ErrHibernated, "Etcd %s is hibernated, with spec.replicas 0: wake it up first", etcd.Name), nil
	}
	if why, err := tasks.Obstacle(ctx, h.Client, h.Live, etcd, true); err != nil || why != "" {
		return tasks.Rejected(v1alpha1.ErrForeignObject, "%s", why), err
	}
	if _, why, err := h.undone(ctx, task, etcd); err != nil || why != "" {
		return tasks.Rejected(v1alpha1.ErrRestoreRefused, "%s", why), err
	}
	v, err := tasks.AdmitWithQuorum(ctx, h.Observer, h.Live, etcd)
	if err != nil || v.Outcome != tasks.Continue {
		return v, err
	}
	snapshot, err := h.Observer.Observe(ctx, h.Live, etcd)
	switch {
	case err != nil:
		return tasks.Unobserved(tasks.Reject, err)
	case snapshot.StatefulSet.OfDruid:
		return tasks.Rejected(v1alpha1.ErrForeignObject, "StatefulSet %s has the pods of etcd-druid, and their agents cannot restore at the operator's word: let a rollout replace them first", snapshot.StatefulSet.Name), nil
	case h.agentOutdated(snapshot, etcd):
		return tasks.Rejected(v1alpha1.ErrRestoreRefused, "not all members have the operator's version of the agent (%s), and an older one may not know all that a restore takes: %s. Then create the task again", h.ImageFor(etcd), h.bringsAgents(snapshot, etcd)), nil
	case keepsRunning(snapshot) != "":
		return tasks.Rejected(v1alpha1.ErrRestoreRefused, "%s", keepsRunning(snapshot)), nil
	case newcluster.ID(snapshot.Cluster.ID) != etcd.Status.ClusterID:
		return tasks.Rejected(v1alpha1.ErrClusterID, "the members serve as cluster %s, and the status of the Etcd records cluster %s: see status.lastErrors of Etcd %s", newcluster.ID(snapshot.Cluster.ID), etcd.Status.ClusterID, etcd.Name), nil
	}
	return v, nil
}

// agentOutdated reports whether a pod, or the template of the next one, has another version of the agent than the Job of the preview.
func (h *Handler) agentOutdated(s *cluster.Snapshot, etcd *v1alpha1.Etcd) bool {
	return s.StatefulSet.AgentImage != h.ImageFor(etcd) ||
		slices.ContainsFunc(s.Ordinals, func(o cluster.Ordinal) bool { return o.Pod != nil && o.Pod.AgentOutdated })
}

// bringsAgents says what brings all members the agent of the Job. A rollout alone does not while the template has another one: an operator
// that was upgraded changes it with the next change of the spec, or on request.
func (h *Handler) bringsAgents(s *cluster.Snapshot, etcd *v1alpha1.Etcd) string {
	if s.StatefulSet.AgentImage != h.ImageFor(etcd) {
		return fmt.Sprintf("have it applied (kubectl annotate etcd %s -n %s %s=%s), and let the rollout end that follows", etcd.Name, etcd.Namespace, v1alpha1.AnnotationOperation, v1alpha1.OperationReconcile)
	}
	return fmt.Sprintf("let the rollout end that brings it (kubectl etcdtask watch %s -n %s)", etcd.Name, etcd.Namespace)
}

// refused returns why the task may not restore from the store in its config; nil if it may.
func (h *Handler) refused(ctx context.Context, c Config, etcd *v1alpha1.Etcd) (why, err error) {
	own := etcd.BackupStore()
	if own == nil || c.From == nil {
		return nil, nil
	}
	// The cache has exactly the namespaces that the operator may list.
	neighbors := &v1alpha1.EtcdList{}
	if err := h.Client.List(ctx, neighbors); err != nil {
		return nil, fmt.Errorf("listing the Etcds: %w", err)
	}
	return h.Rules.Restore(etcd, neighbors.Items, *c.source(*own)), nil
}

// undone returns the Restore that a task undoes, and why that cannot be undone now. They are nil if the task is no undo, and empty if the
// undo is possible.
func (h *Handler) undone(ctx context.Context, task tasks.Typed[Config], etcd *v1alpha1.Etcd) (u *Undone, why string, err error) {
	if task.Config.Undo == "" {
		return nil, "", nil
	}
	name := task.Config.Undo
	t, err := lookup.Get[v1alpha1.EtcdOperatorTask](ctx, h.Live, "task", client.ObjectKey{Namespace: task.Object.Namespace, Name: name})
	if err != nil {
		return nil, "", coded.Error(v1alpha1.ErrObserve, err)
	} else if t == nil {
		return &Undone{TaskName: name}, fmt.Sprintf("task %s does not exist: only the task tells what it has replaced, and how to go back", name), nil
	}
	switch {
	case t.Spec.Type != v1alpha1.Restore || t.EtcdKey() != client.ObjectKeyFromObject(etcd) || etcdtasks.Foreign(t, etcd) != "":
		return &Undone{TaskName: name}, fmt.Sprintf("task %s is not a Restore of Etcd %s", name, etcd.Name), nil
	case !hasReplaced(t, etcd) || t.Status.Recovery.Restore == nil:
		return &Undone{TaskName: name}, fmt.Sprintf("task %s has replaced no data: there is nothing to undo", name), nil
	}
	r := t.Status.Recovery
	u = &Undone{Task: string(t.UID), TaskName: t.Name, Member: cmp.Or(r.Restore.KeptBy, r.Member), FinalSnapshot: r.Restore.FinalSnapshot,
		ClusterID: r.PreviousClusterID, EarlierClusterIDs: r.EarlierClusterIDs}
	why, err = h.replacedSince(ctx, etcd, t)
	return u, why, err
}
