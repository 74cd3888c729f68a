// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/background"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/policy"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/tasks/newcluster"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// pollInterval is how often a running request is checked.
	pollInterval = time.Second
	// requestSnapshot is the operation of a step that requests a snapshot.
	requestSnapshot = "RequestSnapshot"
	// retryInterval is the time between a failed request and the next one.
	retryInterval = 5 * time.Second
)

// Handler carries out Restores.
type Handler struct {
	tasks.Jobs
	tasks.NeverSuperseded[Config]
	Observer observe.Interface
	// Agent returns a client of the agents of an Etcd. Any agent forwards a request to the leading one. The client must not use the client
	// Service, which selects no member during a restore.
	Agent func(context.Context, *v1alpha1.Etcd) (api.Client, error)
	// Rules are what the operator's configuration allows.
	Rules policy.Rules

	// Stays of the tasks. The Etcd controller asks them before it stops the members.
	Stays *Stays

	calls background.Requests[backup.Snapshot]
}

// WorkKey implements tasks.Methods: two Restores are the same work if they have the same config.
func (h *Handler) WorkKey(_ context.Context, task tasks.Typed[Config]) (string, error) {
	key, err := json.Marshal(task.Config)
	if err != nil {
		return "", fmt.Errorf("encoding the config of task %s: %w", task.Object.Name, err)
	}
	return string(key), nil
}

// Execute implements tasks.Methods.
func (h *Handler) Execute(ctx context.Context, task tasks.Typed[Config]) (tasks.Verdict, error) {
	var err error
	if task.Etcd, err = tasks.LiveEtcd(ctx, h.Live, task.Task); err != nil {
		return tasks.Verdict{}, err
	}
	if task.Object.Status.Recovery == nil {
		return h.begin(ctx, task)
	}
	snapshot, err := h.Observer.Observe(ctx, h.Live, task.Etcd)
	if err != nil {
		return newcluster.Unobserved(task.Object, err)
	}
	in, err := h.input(ctx, task, snapshot)
	if err != nil {
		return tasks.Verdict{}, err
	}
	d := decide(in, h.Clock.Now())
	if in.Recorded.Phase == v1alpha1.RecoveryFencing || in.AwaitsController(d.Recovery.Phase) {
		if in.Obstacle, err = tasks.Obstacle(ctx, h.Client, h.Live, task.Etcd, true); err != nil {
			return tasks.Verdict{}, err
		}
		d = decide(in, h.Clock.Now())
	}
	return verdict(in, d, h.Clock.Now()), nil
}

// begin previews the restore, and begins it unless the members could not be stopped: clients are not kept away for nothing.
func (h *Handler) begin(ctx context.Context, task tasks.Typed[Config]) (tasks.Verdict, error) {
	v, err := h.preview(ctx, task)
	if err != nil || v.Recovery == nil {
		return v, err
	}
	if why, err := tasks.Obstacle(ctx, h.Client, h.Live, task.Etcd, true); err != nil || why != "" {
		return tasks.Failed(v1alpha1.ErrForeignObject, "%s"+nothingChanged, why), err
	}
	return v, nil
}

// input gathers what a decision rests on, by live reads.
func (h *Handler) input(ctx context.Context, task tasks.Typed[Config], s *cluster.Snapshot) (in Input, err error) {
	etcd, recorded := task.Etcd, *task.Object.Status.Recovery
	in = Input{
		Input:     newcluster.Input{Snapshot: s, Task: task.Object.UID, Recorded: recorded, Hibernates: etcd.Spec.Replicas == 0},
		ClusterID: etcd.Status.ClusterID, Members: newcluster.Members(etcd), MaxWrites: -1,
	}
	if r := etcd.Status.Recovery; r != nil {
		in.Configured = r.TaskUID == task.Object.UID
	}
	in.Call, in.Since = h.call(task.Object, s)
	if task.Config.Confirm != "" {
		if _, in.Known, err = parseConfirmation(task.Config.Confirm); err != nil {
			return in, err
		}
		in.MaxWrites = *task.Config.MaxWritesSince
	}
	if recorded.Source == "" {
		if in.Undone, in.NotUndoable, err = h.undone(ctx, task, etcd); err != nil {
			return in, err
		}
	}
	switch recorded.Phase {
	case v1alpha1.RecoveryFencing:
		in.Fenced, err = h.fenced(ctx, task.Object.UID, etcd)
	case v1alpha1.RecoverySurveying:
		if in.Volumes, err = h.volumes().Look(ctx, task.Task, s); err != nil {
			return in, err
		}
		if in.Undone != nil {
			in.KeptFor = in.Undone.Task
		}
		in.Leased, err = h.leased(ctx, etcd)
	}
	return in, err
}

// call returns the request for the snapshot of the phase, and since when the present stay in that phase lasts. The request is nil if none
// was made during the stay, or if its snapshot no longer counts.
func (h *Handler) call(task *v1alpha1.EtcdOperatorTask, seen *cluster.Snapshot) (*background.Request[backup.Snapshot], time.Time) {
	now := h.Clock.Now()
	present, unbroken := h.Stays.next(task, now)
	switch present.phase {
	case v1alpha1.RecoverySaving, v1alpha1.RecoveryReopening:
		call, known := h.calls.Of(task.UID)
		if known && unbroken && h.Stays.counts(task, call, seen, now) {
			return &call, present.since
		} else if known {
			present.since = now
		}
	}
	h.calls.Forget(task.UID)
	return nil, present.since
}

// fenced reports whether the client Service selects no member because of a task.
func (h *Handler) fenced(ctx context.Context, by types.UID, etcd *v1alpha1.Etcd) (bool, error) {
	service, err := lookup.Get[corev1.Service](ctx, h.Live, "Service", client.ObjectKey{Namespace: etcd.Namespace, Name: etcd.ClientServiceName()})
	if err != nil || service == nil {
		// Without the Service, clients cannot reach the members, but the Etcd controller creates it again, perhaps without the fence.
		return false, coded.Error(v1alpha1.ErrObserve, err)
	}
	return service.Spec.Selector[v1alpha1.LabelFencedBy] == string(by), nil
}

// leased returns the highest revision that the Leases of snapshots know: a snapshot's, or that at which a cluster has begun.
func (h *Handler) leased(ctx context.Context, etcd *v1alpha1.Etcd) (int64, error) {
	leases, err := observe.ReadSnapshotLeases(ctx, h.Live, etcd)
	if err != nil {
		return 0, coded.Error(v1alpha1.ErrObserve, err)
	}
	return max(newcluster.RecordedBegan(leases.Full), snapshots(leases)), nil
}

// newestRecorded returns the revision of the newest snapshot that the Leases record.
func (h *Handler) newestRecorded(ctx context.Context, etcd *v1alpha1.Etcd) (int64, error) {
	leases, err := observe.ReadSnapshotLeases(ctx, h.Live, etcd)
	return snapshots(leases), coded.Error(v1alpha1.ErrObserve, err)
}

// snapshots returns the revision of the newest snapshot that Leases record; 0 if they record none.
func snapshots(leases observe.SnapshotLeases) (revision int64) {
	for _, lease := range []*coordinationv1.Lease{leases.Full, leases.Delta} {
		if lease == nil {
			continue
		}
		if r, err := backup.ParseRecord(ptr.Deref(lease.Spec.HolderIdentity, ""), ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time); err == nil {
			revision = max(revision, r.Revision)
		}
	}
	return revision
}

// Perform implements tasks.Methods.
func (h *Handler) Perform(ctx context.Context, task tasks.Task, step tasks.Step) error {
	switch detail := step.Detail.(type) {
	case newcluster.Survey:
		return h.volumes().Perform(ctx, task, detail)
	case request:
		return coded.Error(v1alpha1.ErrSnapshot, h.ask(ctx, task, detail))
	case hold:
		h.hold(ctx, task, detail)
		return nil
	}
	return h.Jobs.Perform(ctx, task, step)
}

// Cleanup implements tasks.Methods. The Etcd controller removes the fence and scales the StatefulSet up by itself, once the task has ended
// or is gone.
func (h *Handler) Cleanup(ctx context.Context, task tasks.Task) error {
	h.calls.Forget(task.Object.UID)
	h.Stays.of.Forget(task.Object.UID)
	if err := h.Jobs.Cleanup(ctx, task); err != nil {
		return err
	}
	return h.volumes().Cleanup(ctx, task)
}

func (h *Handler) volumes() newcluster.Volumes {
	return newcluster.Volumes{Client: h.Client, Live: h.Live, Clock: h.Clock, Image: h.Image}
}

// verdict translates a decision for the task engine. It is pure.
func verdict(in Input, d Decision, now time.Time) tasks.Verdict {
	v := in.Verdict(d.Decision, now)
	v.Reason = v1alpha1.ReasonRestoring
	if d.Ask {
		v.Step = &tasks.Step{
			Operation: requestSnapshot, Reason: d.Message, RecheckAfter: pollInterval,
			Detail: request{final: in.Recorded.Phase == v1alpha1.RecoverySaving, name: d.Message, atLeast: in.Snapshot.Cluster.Revision},
		}
		if in.Call != nil {
			v.Step.RecheckAfter = retryInterval
		}
	}
	return v
}
