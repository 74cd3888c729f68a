// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/background"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Config is spec.config of an OnDemandMaintenance. DEP-05 has the operations below maintenanceType in its types, but not in its example.
// Either form is accepted, but not both at once.
type Config struct {
	Operations
	// MaintenanceType is nil after the config has been decoded.
	MaintenanceType *Operations `json:"maintenanceType,omitempty"`
}

// Operations are what to do. At least one of the two has to be true.
type Operations struct {
	// EtcdCompaction removes everything older than the current revision from the key space.
	EtcdCompaction bool `json:"etcdCompaction,omitempty"`
	// EtcdDefragmentation rewrites the database of each member without its free pages.
	EtcdDefragmentation bool `json:"etcdDefragmentation,omitempty"`
}

// Default implements taskconfig.Config.
func (c *Config) Default() {}

// Validate implements taskconfig.Config.
func (c *Config) Validate() error {
	if c.MaintenanceType != nil {
		if c.Operations != (Operations{}) {
			return errors.New("etcdCompaction and etcdDefragmentation stand either beneath maintenanceType or without it, not both")
		}
		c.Operations, c.MaintenanceType = *c.MaintenanceType, nil
	}
	if c.Operations == (Operations{}) {
		return errors.New("at least one of etcdCompaction and etcdDefragmentation has to be true")
	}
	return nil
}

// Deadline of a task of this type. It suffices for five databases of the largest size that etcd recommends on a slow disk.
const Deadline = 2 * time.Hour

// pollInterval is how often the members are observed: etcd sends no events.
const pollInterval = 500 * time.Millisecond

// Handler carries out OnDemandMaintenances.
type Handler struct {
	tasks.NeverSuperseded[Config]
	// Live reads from the API server.
	Live     client.Reader
	Observer observe.Interface
	Dialer   etcdclient.Dialer
	// Credentials for members that listen for clients with TLS.
	Credentials *certificates.Credentials

	calls background.Requests[struct{}]
}

// WorkKey implements tasks.Methods: tasks with the same operations are the same work (DEP-05).
func (h *Handler) WorkKey(_ context.Context, task tasks.Typed[Config]) (string, error) {
	return fmt.Sprintf("%+v", task.Config.Operations), nil
}

// Admit implements tasks.Methods: there has to be a quorum (DEP-05).
func (h *Handler) Admit(ctx context.Context, task tasks.Typed[Config]) (tasks.Verdict, error) {
	return tasks.AdmitWithQuorum(ctx, h.Observer, h.Live, task.Etcd)
}

// Execute implements tasks.Methods.
func (h *Handler) Execute(ctx context.Context, task tasks.Typed[Config]) (tasks.Verdict, error) {
	uid := task.Object.UID
	call, known := h.calls.Of(uid)
	switch {
	case known && call.Running:
		return tasks.Verdict{Outcome: tasks.Continue, Reason: v1alpha1.ReasonRunning, Message: "under way: " + call.Name, RequeueAfter: pollInterval}, nil
	case known && call.Err != nil && !record(task.Object.Status.Result).isLastTry(call.Name):
		// The next observation shows how it ended.
		h.calls.Forget(uid)
		return tasks.Verdict{}, coded.Error(v1alpha1.ErrMaintenance, call.Err)
	}
	in, err := h.gather(ctx, task)
	if err != nil {
		return tasks.Unobserved(tasks.Fail, err)
	}
	if in.Completed = call.Name; call.Err != nil {
		in.Completed, in.Failed, in.Failure = "", call.Name, call.Err
	}
	return verdict(in, decide(in)), nil
}

// verdict translates a decision for the task engine.
func verdict(in Input, d Decision) tasks.Verdict {
	v := tasks.Verdict{
		Outcome: d.Outcome, Code: d.Code, Reason: v1alpha1.ReasonHeld, Message: d.Message, RequeueAfter: pollInterval,
		Result: d.Result, Progress: d.Progress,
	}
	if d.Step != nil {
		v.Reason = v1alpha1.ReasonRunning
		v.Step = &tasks.Step{Operation: string(d.Step.Action), Reason: d.Step.Reason, Detail: detail{*d.Step, in}, RecheckAfter: pollInterval}
	}
	return v
}

// gather collects the input of a decision from the API server and the members, not from the cache.
func (h *Handler) gather(ctx context.Context, task tasks.Typed[Config]) (Input, error) {
	snapshot, err := h.Observer.Observe(ctx, h.Live, task.Etcd)
	if err != nil {
		return Input{}, err
	}
	in := Input{Config: task.Config.Operations, Snapshot: snapshot, Recorded: task.Object.Status.Result}
	in.Databases = h.databases(ctx, task.Etcd, snapshot)
	if leader := snapshot.Leader(); leader >= 0 {
		if in.Alarms, err = h.alarms(ctx, task.Etcd, snapshot.Ordinals[leader]); err == nil {
			in.AlarmsKnown = true
		}
	}
	return in, nil
}

// Cleanup implements tasks.Methods. etcd finishes a defragmentation that it has begun; nothing is left to undo.
func (h *Handler) Cleanup(_ context.Context, task tasks.Task) error {
	h.calls.Forget(task.Object.UID)
	return nil
}
