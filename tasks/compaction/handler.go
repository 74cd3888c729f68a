// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package compaction implements the task type OnDemandCompaction: a Job of the agent combines the newest full snapshot in the store and the
// deltas after it into one full snapshot. It needs no member of the cluster. The Job has no access to the API server, so the task records
// the new full snapshot in the lease.
package compaction

import (
	"context"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	"github.com/etcd-foreman/etcd-foreman/internal/job/storeaccess"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// Deadline of a task of this type.
	Deadline = 4 * time.Hour

	defaultTimeout = time.Hour
	minTimeout     = time.Second
)

// Config is spec.config of an OnDemandCompaction.
type Config struct {
	// Timeout after which the Job is stopped. Default 1h.
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// Default implements taskconfig.Config.
func (c *Config) Default() { c.Timeout = &metav1.Duration{Duration: defaultTimeout} }

// Validate implements taskconfig.Config.
func (c *Config) Validate() error {
	if c.Timeout == nil || c.Timeout.Duration < minTimeout || c.Timeout.Duration > Deadline {
		return fmt.Errorf("timeout has to be between %s and %s", minTimeout, Deadline)
	}
	return nil
}

// Handler carries out OnDemandCompactions.
type Handler struct {
	tasks.Jobs
	tasks.NeverSuperseded[Config]
	// SkipLease: the agents of another operator own the lease of full snapshots, so it is not written.
	SkipLease bool
}

// WorkKey implements tasks.Methods. Two compactions are the same work (DEP-05).
func (h *Handler) WorkKey(context.Context, tasks.Typed[Config]) (string, error) {
	return "compaction", nil
}

// Admit implements tasks.Methods: there has to be a store for which the agent has a driver.
func (h *Handler) Admit(_ context.Context, task tasks.Typed[Config]) (tasks.Verdict, error) {
	store := task.Etcd.BackupStore()
	switch {
	case store == nil:
		return tasks.Rejected(v1alpha1.ErrNoBackup, "Etcd %s has no spec.backup.store", task.Etcd.Name), nil
	case task.Etcd.SourceStays():
		// It may be the store of the source cluster, to which that cluster's agents write.
		return tasks.Rejected(v1alpha1.ErrSourceCluster, "Etcd %s joins the cluster of spec.etcd.bootstrapWithExistingCluster, which takes the backups until that is removed: create the task again then", task.Etcd.Name), nil
	}
	if err := storeaccess.Validate(*store, task.Etcd.Namespace); err != nil {
		return tasks.Rejected(v1alpha1.ErrNoBackup, "spec.backup: %v", err), nil
	}
	return tasks.Verdict{Outcome: tasks.Continue, Message: "backups are configured"}, nil
}

// Execute implements tasks.Methods.
func (h *Handler) Execute(ctx context.Context, task tasks.Typed[Config]) (tasks.Verdict, error) {
	v, err := h.Jobs.Execute(ctx, task.Task, func() (*batchv1.Job, error) { return h.job(ctx, task) })
	if err != nil || v.Outcome != tasks.Done {
		return v, err
	}
	return h.record(ctx, task.Task, v)
}

// Perform implements tasks.Methods.
func (h *Handler) Perform(ctx context.Context, task tasks.Task, step tasks.Step) error {
	if r, ok := step.Detail.(recording); ok {
		return h.carryOut(ctx, r)
	}
	return h.Jobs.Perform(ctx, task, step)
}

func (h *Handler) job(ctx context.Context, task tasks.Typed[Config]) (*batchv1.Job, error) {
	stores, err := storeaccess.Own(task.Etcd)
	if err != nil {
		return nil, err
	}
	args := []string{"compact", "--compression=" + component.SnapshotCompression(task.Etcd)}
	if task.Etcd.Signing() != nil {
		recorded, err := h.Recorded(ctx, task.Etcd)
		if err != nil {
			return nil, err
		}
		args = append(args, recorded...)
	}
	return job.Build(job.Spec{
		Owner: job.OfTask(task.Object), Component: v1alpha1.ComponentCompactionJob,
		Image: h.ImageFor(task.Etcd), Args: args,
		Stores: stores, WorkDir: true, WorkLimit: job.WorkLimit(task.Etcd), Database: task.Etcd, Timeout: task.Config.Timeout.Duration,
		Resources: ptr.Deref(task.Etcd.Spec.Backup.SnapshotCompaction, v1alpha1.SnapshotCompactionSpec{}).Resources,
	})
}
