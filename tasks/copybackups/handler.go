// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package copybackups implements the task type CopyBackups: a Job of the agent copies the snapshots of one store to another. It needs no
// member of the cluster. Snapshots that the target already has are not copied again.
package copybackups

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/schedule"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/policy"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	"github.com/etcd-foreman/etcd-foreman/internal/job/copyjob"
	"github.com/etcd-foreman/etcd-foreman/internal/job/storeaccess"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Deadline of a task of this type.
const Deadline = copyjob.Deadline

// Config is spec.config of a CopyBackups.
type Config struct {
	// SourceStore and TargetStore of the copy. Both need a prefix.
	SourceStore v1alpha1.StoreSpec `json:"sourceStore"`
	TargetStore v1alpha1.StoreSpec `json:"targetStore"`
	// MaxBackupAge is the maximum age, in days, of the backups to copy. Default: no limit.
	MaxBackupAge *uint32 `json:"maxBackupAge,omitempty"`
	// MaxBackups is how many of the newest backups are copied, and how many of the newest scheduled ones. Default: no limit.
	MaxBackups *uint32 `json:"maxBackups,omitempty"`
	// WaitForFinalSnapshot lets the copy wait for a final snapshot in the source. Default: it does not.
	WaitForFinalSnapshot *WaitForFinalSnapshot `json:"waitForFinalSnapshot,omitempty"`
	// AllowUnsigned copies snapshots as they are, without their signatures, for an Etcd whose snapshots are signed. Default: only
	// those with a valid signature are copied, and signed for the target.
	AllowUnsigned bool `json:"allowUnsigned,omitempty"`
}

// WaitForFinalSnapshot says how a copy waits for the final snapshot of a cluster that moves.
type WaitForFinalSnapshot struct {
	Enabled bool `json:"enabled"`
	// Timeout after which the copy begins without one. Default: 5m.
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// defaultFinalTimeout is the default of WaitForFinalSnapshot.Timeout, and maxFinalTimeout leaves time for the copy.
const (
	defaultFinalTimeout = 5 * time.Minute
	maxFinalTimeout     = Deadline / 2
)

// wait returns how long to wait for a final snapshot; 0 to not wait.
func (c Config) wait() time.Duration {
	if c.WaitForFinalSnapshot == nil || !c.WaitForFinalSnapshot.Enabled {
		return 0
	}
	return ptr.Deref(c.WaitForFinalSnapshot.Timeout, metav1.Duration{Duration: defaultFinalTimeout}).Duration
}

// Default implements taskconfig.Config.
func (c *Config) Default() {}

// Validate implements taskconfig.Config.
func (c *Config) Validate() error {
	c.SourceStore, c.TargetStore = copyjob.Place(c.SourceStore), copyjob.Place(c.TargetStore)
	if err := c.copy().Validate(); err != nil {
		return err
	}
	if c.MaxBackups != nil && *c.MaxBackups == 0 {
		return errors.New("maxBackups is 0: leave it out to copy all")
	}
	if w := c.WaitForFinalSnapshot; w != nil && w.Timeout != nil && (w.Timeout.Duration < time.Second || w.Timeout.Duration > maxFinalTimeout) {
		return fmt.Errorf("waitForFinalSnapshot.timeout is %s: it has to be between 1s and %s", w.Timeout.Duration, maxFinalTimeout)
	}
	return nil
}

// Handler carries out CopyBackups tasks.
type Handler struct {
	tasks.Jobs
	tasks.NeverSuperseded[Config]
	// Rules are what the operator's configuration allows.
	Rules policy.Rules
}

// copy returns what to copy.
func (c Config) copy() copyjob.Copy {
	return copyjob.Copy{Source: c.SourceStore, Target: c.TargetStore, MaxBackupAge: c.MaxBackupAge, MaxBackups: c.MaxBackups, Wait: c.wait()}
}

// WorkKey implements tasks.Methods: a copy between the same places, with the same limits, is the same work.
func (h *Handler) WorkKey(_ context.Context, task tasks.Typed[Config]) (string, error) {
	key, err := json.Marshal(task.Config)
	if err != nil {
		return "", fmt.Errorf("encoding spec.config: %w", err)
	}
	return string(key), nil
}

// Admit implements tasks.Methods: the agent has a driver for both stores, their Secrets are in the task's namespace, one of
// them is the Etcd's own, and the target overlaps no live backups.
func (h *Handler) Admit(ctx context.Context, task tasks.Typed[Config]) (tasks.Verdict, error) {
	c := task.Config
	if err := c.copy().ValidateStores(task.Object.Namespace); err != nil {
		return tasks.Rejected(v1alpha1.ErrInvalidConfig, "spec.config.%v", err), nil
	}
	neighbors := &v1alpha1.EtcdList{}
	if err := h.Live.List(ctx, neighbors, client.InNamespace(task.Object.Namespace)); err != nil {
		return tasks.Verdict{}, fmt.Errorf("listing the Etcds of namespace %s: %w", task.Object.Namespace, err)
	}
	if err := h.Rules.Copy(task.Etcd, neighbors.Items, c.SourceStore, c.TargetStore); err != nil {
		return tasks.Rejected(v1alpha1.ErrInvalidConfig, "spec.config: %v", err), nil
	}
	return tasks.Verdict{Outcome: tasks.Continue, Message: "the agent has drivers for both stores"}, nil
}

// turnPoll is how often a task checks whether it is its turn.
const turnPoll = 10 * time.Second

// Execute implements tasks.Methods.
func (h *Handler) Execute(ctx context.Context, task tasks.Typed[Config]) (tasks.Verdict, error) {
	if !h.Begun(task.Task) {
		turn, err := h.turn(ctx, task.Object)
		if err != nil {
			return tasks.Verdict{}, err
		}
		if turn != "" {
			return tasks.Verdict{Outcome: tasks.Continue, Reason: v1alpha1.ReasonQueued, Message: turn, RequeueAfter: turnPoll}, nil
		}
	}
	return h.Jobs.Execute(ctx, task.Task, func() (*batchv1.Job, error) { return h.job(ctx, task) })
}

// turn returns why a task does not run yet, according to the tasks in the cache; empty if it may.
func (h *Handler) turn(ctx context.Context, task *v1alpha1.EtcdOperatorTask) (string, error) {
	list := &v1alpha1.EtcdOperatorTaskList{}
	if err := h.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("listing tasks: %w", err)
	}
	request := func(t *v1alpha1.EtcdOperatorTask) copyjob.Request {
		return copyjob.Request{Namespace: t.Namespace, Name: t.Name, Created: t.CreationTimestamp.Time}
	}
	var all []copyjob.Request
	for i := range list.Items {
		if t := &list.Items[i]; t.Spec.Type == v1alpha1.CopyBackups && t.Status.State == v1alpha1.TaskStateInProgress {
			all = append(all, request(t))
		}
	}
	return copyjob.Wait(request(task), all), nil
}

func (h *Handler) job(ctx context.Context, task tasks.Typed[Config]) (*batchv1.Job, error) {
	c := task.Config
	spec := job.Spec{Owner: job.OfTask(task.Object), Timeout: Deadline, Image: h.ImageFor(task.Etcd)}
	if !c.AllowUnsigned {
		signed, recorded, err := h.signing(ctx, task.Etcd, c)
		if err != nil {
			return nil, err
		}
		spec.Args, spec.Stores = recorded, signed
	}
	what := c.copy()
	// If the source has another schedule, more snapshots are copied, at most twice as many. The status of the Etcd reports an invalid
	// schedule.
	text := component.FullSnapshotSchedule(task.Etcd)
	if _, err := schedule.Parse(text); err == nil {
		what.Schedule = text
	}
	return what.Build(spec)
}

// signing returns what the Job needs to verify and sign snapshots, and its flags for the recorded snapshots of the source; nothing if
// snapshots of the Etcd are not signed.
func (h *Handler) signing(ctx context.Context, etcd *v1alpha1.Etcd, c Config) (access []storeaccess.Access, args []string, err error) {
	keys, err := storeaccess.SigningKeys(etcd, storeaccess.Main, storeaccess.Source)
	if err != nil || keys == nil {
		return nil, nil, err
	}
	if own := etcd.BackupStore(); own.Provider.Canonical() == c.SourceStore.Provider.Canonical() && own.Container == c.SourceStore.Container && own.Prefix == c.SourceStore.Prefix {
		if args, err = h.Recorded(ctx, etcd); err != nil {
			return nil, nil, err
		}
	}
	return []storeaccess.Access{*keys}, args, nil
}
