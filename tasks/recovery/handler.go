// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/job/survey"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/tasks/newcluster"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Config is spec.config of a QuorumLossRecovery.
type Config struct {
	// Source is Data to rebuild the cluster from surviving data even if the newest backup is ahead of it; if it is empty, the operator
	// chooses.
	Source v1alpha1.RecoverySource `json:"source,omitempty"`
}

// Default implements taskconfig.Config.
func (c *Config) Default() {}

// Validate implements taskconfig.Config.
func (c *Config) Validate() error {
	if c.Source != "" && c.Source != v1alpha1.RecoverFromData {
		return fmt.Errorf("source: %q is not supported: it is %q, or empty", c.Source, v1alpha1.RecoverFromData)
	}
	return nil
}

// Handler carries out QuorumLossRecoveries.
type Handler struct {
	tasks.NeverSuperseded[Config]
	// Client writes to the API server, and Live reads from it: nothing that a decision rests on comes from a cache.
	Client   client.Client
	Live     client.Reader
	Observer observe.Interface
	Clock    clock.PassiveClock
	// Image of the agent for an Etcd that does not name its own.
	Image string

	losses losses
}

// WorkKey implements tasks.Methods: all recoveries of an Etcd are the same work.
func (h *Handler) WorkKey(context.Context, tasks.Typed[Config]) (string, error) {
	return "recover", nil
}

// Admit implements tasks.Methods: the cluster must have several members, have had a quorum, and have none now.
func (h *Handler) Admit(ctx context.Context, task tasks.Typed[Config]) (tasks.Verdict, error) {
	reject := func(code v1alpha1.ErrorCode, format string, args ...any) (tasks.Verdict, error) {
		return tasks.Rejected(code, format, args...), nil
	}
	etcd, err := tasks.LiveEtcd(ctx, h.Live, task.Task)
	if err != nil {
		return tasks.Verdict{}, err
	}
	switch {
	case etcd.Spec.Replicas == 0:
		return reject(v1alpha1.ErrHibernated, "Etcd %s is hibernated, with spec.replicas 0: wake it up", etcd.Name)
	case etcd.SourceStays():
		return reject(v1alpha1.ErrSourceCluster, "Etcd %s joins the cluster of spec.etcd.bootstrapWithExistingCluster, which has the quorum: recover that cluster. If it is lost for good, and the members here had joined, remove bootstrapWithExistingCluster and create the task again", etcd.Name)
	case etcd.Status.ClusterID == "":
		return reject(v1alpha1.ErrNeverServed, "Etcd %s has never had a quorum, so there is nothing to recover: check why its members do not start", etcd.Name)
	}
	if why, err := h.recreating(ctx, etcd); err != nil || why != "" {
		return tasks.Rejected(v1alpha1.ErrQuorumNotLost, "%s", why), err
	}
	snapshot, err := h.Observer.Observe(ctx, h.Live, etcd)
	if err != nil {
		return tasks.Unobserved(tasks.Reject, err)
	}
	if why, err := h.restoring(ctx, etcd, snapshot); err != nil || why != "" {
		return tasks.Rejected(v1alpha1.ErrQuorumNotLost, "%s", why), err
	}
	if snapshot.StatefulSet.OfDruid {
		return reject(v1alpha1.ErrForeignObject, "the pods of StatefulSet %s are etcd-druid's, which do not read how the operator recovers a cluster: recover it with etcd-druid", snapshot.StatefulSet.Name)
	}
	if why, err := tasks.Obstacle(ctx, h.Client, h.Live, etcd, true); err != nil || why != "" {
		return tasks.Rejected(v1alpha1.ErrForeignObject, "%s", why), err
	}
	if alone, err := h.alone(ctx, etcd); err != nil {
		return tasks.Verdict{}, coded.Error(v1alpha1.ErrObserve, err)
	} else if alone {
		return reject(v1alpha1.ErrSingleMember, "Etcd %s has one member, and no other is configured: it restores the newest backup on its own if it has lost its data: check the condition DataVolumesReady", etcd.Name)
	}
	if newcluster.Quorate(snapshot) {
		return reject(v1alpha1.ErrQuorumNotLost, "Etcd %s has not lost its quorum: %s. A member that is down comes back on its own, or is replaced if it has lost its data", etcd.Name, describeQuorum(snapshot))
	}
	if newest, err := h.newestBackup(ctx, etcd); err != nil {
		return tasks.Verdict{}, err
	} else if newest == (Backup{}) && etcd.Status.Recovery == nil && allRefuse(snapshot) {
		return reject(v1alpha1.ErrNothingToRecover, "every member of Etcd %s has lost its data, and no backup is recorded: nothing can be recovered. If a volume can still be found, restore it under the name of its claim; otherwise delete the Etcd and its claims, and create the Etcd again%s", etcd.Name, mayHaveStore)
	}
	fewest, err := h.fewestVoters(ctx, etcd, snapshot)
	if err != nil {
		return tasks.Verdict{}, err
	}
	_, why := quorumLost(snapshot, fewest)
	return tasks.Verdict{Outcome: tasks.Continue, Message: why}, nil
}

// allRefuse reports whether every member refuses to start because its data is lost or damaged.
func allRefuse(s *cluster.Snapshot) bool {
	for _, o := range s.Ordinals {
		if o.Pod == nil || o.Pod.Refusal == nil {
			return false
		}
		if r := o.Pod.Refusal.Reason; r != v1alpha1.ReasonDataLost && r != v1alpha1.ReasonDataDamaged {
			return false
		}
	}
	return len(s.Ordinals) > 0
}

// Execute implements tasks.Methods.
func (h *Handler) Execute(ctx context.Context, task tasks.Typed[Config]) (tasks.Verdict, error) {
	var err error
	if task.Etcd, err = tasks.LiveEtcd(ctx, h.Live, task.Task); err != nil {
		return tasks.Verdict{}, err
	}
	snapshot, err := h.Observer.Observe(ctx, h.Live, task.Etcd)
	if err != nil {
		return newcluster.Unobserved(task.Object, err)
	}
	in := Input{
		Snapshot: snapshot, Task: task.Object.UID, ClusterID: task.Etcd.Status.ClusterID,
		Recorded: ptr.Deref(task.Object.Status.Recovery, v1alpha1.RecoveryStatus{}), Hibernates: task.Etcd.Spec.Replicas == 0,
	}
	if r := task.Etcd.Status.Recovery; r != nil {
		in.Configured = r.TaskUID == task.Object.UID
	}
	switch in.Recorded.Phase {
	case "", v1alpha1.RecoveryConfirming:
		if in.FewestVoters, err = h.fewestVoters(ctx, task.Etcd, snapshot); err != nil {
			return tasks.Verdict{}, err
		}
		lost, _ := quorumLost(snapshot, in.FewestVoters)
		in.LostSince = h.losses.observe(task.Object.UID, task.Object.Generation, snapshot.At, lost)
	case v1alpha1.RecoveryStarting:
		in.StartedSince = h.losses.starting(task.Object.UID, task.Object.Generation, snapshot)
	case v1alpha1.RecoverySurveying:
		if in.Evidence, err = h.evidence(ctx, task.Task, snapshot); err != nil {
			return tasks.Verdict{}, err
		}
		in.PreferData = in.PreferData || task.Config.Source == v1alpha1.RecoverFromData
	}
	d := decide(in, h.Clock.Now())
	if d.Recovery.Phase == v1alpha1.RecoveryStopping && in.Recorded.Phase != v1alpha1.RecoveryStopping {
		if in.Snapshot, err = observe.Hear(ctx, h.Client, h.Live, snapshot); err != nil {
			return tasks.Verdict{}, coded.Error(v1alpha1.ErrObserve, err)
		}
		d = decide(in, h.Clock.Now())
	}
	if in.common().AwaitsController(d.Recovery.Phase) {
		if in.Obstacle, err = tasks.Obstacle(ctx, h.Client, h.Live, task.Etcd, true); err != nil {
			return tasks.Verdict{}, err
		}
		d = decide(in, h.Clock.Now())
	}
	return verdict(in, d, task.Object.Status, h.Clock.Now()), nil
}

// Perform implements tasks.Methods.
func (h *Handler) Perform(ctx context.Context, task tasks.Task, step tasks.Step) error {
	return h.volumes().Perform(ctx, task, step.Detail.(newcluster.Survey))
}

// Cleanup implements tasks.Methods.
func (h *Handler) Cleanup(ctx context.Context, task tasks.Task) error {
	if err := h.volumes().Cleanup(ctx, task); err != nil {
		return err
	}
	h.losses.Forget(task.Object.UID)
	return nil
}

func (h *Handler) volumes() newcluster.Volumes {
	return newcluster.Volumes{Client: h.Client, Live: h.Live, Clock: h.Clock, Beyond: true, Image: h.Image}
}

// verdict translates a decision for the task engine. It is pure.
func verdict(in Input, d Decision, before v1alpha1.EtcdOperatorTaskStatus, now time.Time) tasks.Verdict {
	v := in.common().Verdict(d, now)
	v.Reason = v1alpha1.ReasonRecovering
	switch {
	case d.Code == v1alpha1.ErrNothingToRecover,
		d.Recovery.Phase == v1alpha1.RecoveryStarting && in.Recorded.Phase == v1alpha1.RecoverySurveying:
		v.Result = result(in, d)
	case d.Outcome != tasks.Continue:
		v.Result = maps.Clone(before.Result)
	}
	if served := in.Snapshot.Cluster.ID; served != 0 && d.Outcome != tasks.Continue {
		if v.Result == nil {
			v.Result = map[string]string{}
		}
		v.Result["clusterID"] = newcluster.ID(served)
	}
	return v
}

// result returns status.result: what the survey has found, and what was chosen.
func result(in Input, d Decision) map[string]string {
	found := map[string]string{"previousClusterID": d.Recovery.PreviousClusterID}
	for _, v := range in.Volumes {
		what := "no volume"
		if v.State == survey.Seen {
			if encoded, err := json.Marshal(v.Survey); err == nil {
				what = string(encoded)
			}
		}
		found[v.Member] = what
	}
	if d.Recovery.Source != "" {
		found["member"], found["source"] = d.Recovery.Member, string(d.Recovery.Source)
	}
	if behind := in.behind(in.find()); behind != "" && d.Recovery.Source != v1alpha1.RecoverFromBackup {
		found["backup"] = behind
	}
	return found
}

// story says what the cluster was rebuilt from.
func story(r v1alpha1.RecoveryStatus) string {
	if r.Source == v1alpha1.RecoverFromBackup {
		return fmt.Sprintf("the cluster was rebuilt from the newest backup, on %s; writes after its last delta snapshot are lost", r.Member)
	}
	return fmt.Sprintf("the cluster was rebuilt from the data of %s, including every entry of its log", r.Member)
}
