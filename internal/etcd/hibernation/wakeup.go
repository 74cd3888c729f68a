// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package hibernation

import (
	"context"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/memberconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// waking is the input of the decision on a cluster that is to wake up.
type waking struct {
	// jobs: a Job of the hibernation still exists. It may read a volume, or write a snapshot.
	jobs bool
	// record of the hibernation without volumes; nil if the volumes were kept.
	record *v1alpha1.Hibernation
	// left are the names of the claims of the record that still exist.
	left []string
	// recorded is the recovery in the status; instructed: the members have been instructed to carry it out.
	recorded   *v1alpha1.ClusterRecovery
	instructed bool
}

// wakingDecision is what has to happen before the members are started.
type wakingDecision struct {
	// why they are not started yet; empty if they may be.
	why string
	// cleanUp: Jobs have to be removed, and the claims of the record deleted.
	cleanUp bool
	// restore: the status may record that the cluster is restored, and the members are to be instructed.
	restore bool
}

// decideWaking decides whether the members of a hibernated cluster may be started. It is pure.
//
// All recorded claims are deleted first, so that a late deletion, which is by UID, cannot hit a claim that a member uses.
func decideWaking(w waking) wakingDecision {
	switch {
	case w.jobs:
		return wakingDecision{why: "waiting for the Jobs of the hibernation to end", cleanUp: true}
	case w.record == nil:
		return wakingDecision{}
	case len(w.left) > 0:
		return wakingDecision{why: "waiting for the deletion of the claims that were given up: " + strings.Join(w.left, ", "), cleanUp: true}
	case !RecordsRestore(w.recorded, w.record):
		return wakingDecision{why: "waiting until the status records that the cluster is restored", restore: true}
	case !w.instructed:
		return wakingDecision{why: "waiting until the members are instructed to restore the snapshot", restore: true}
	}
	return wakingDecision{restore: true}
}

// RecordsRestore reports whether the recorded recovery restores a cluster that hibernated without volumes: from the snapshot in its record,
// or as chosen by a task that has recovered it since.
func RecordsRestore(recorded *v1alpha1.ClusterRecovery, record *v1alpha1.Hibernation) bool {
	return recorded.LeavesBehind(record.ClusterID)
}

// RecoveryOf returns the recovery of a cluster that wakes up without volumes: the first member restores the final snapshot, and
// the others join it as learners.
func RecoveryOf(etcd *v1alpha1.Etcd, record *v1alpha1.Hibernation) *v1alpha1.ClusterRecovery {
	return &v1alpha1.ClusterRecovery{
		TaskUID: record.ID, Member: etcd.MemberName(etcd.PodName(0)), Source: v1alpha1.RecoverFromBackup,
		PreviousClusterID: record.ClusterID, Revision: record.Revision,
	}
}

// WakeUp is the progress of a wake-up from hibernation.
type WakeUp struct {
	// Why its members are not started yet; empty if they may be.
	Why string
	// Restores: the status may record that the cluster is restored from its final snapshot.
	Restores bool
}

// WakeUp prepares a hibernated cluster that is to wake up. It is called before the spec is applied.
func (h Hibernator) WakeUp(ctx context.Context, s *state.State, held bool, objects *apply.Session) (WakeUp, error) {
	etcd := s.Etcd
	record := etcd.Status.Hibernation
	if etcd.Spec.Replicas == 0 || held || etcd.Status.ClusterID == "" || state.Awake(s.StatefulSet) {
		return WakeUp{}, nil
	}
	w := waking{record: record, recorded: etcd.Status.Recovery}
	var claims []v1alpha1.HibernatedClaim
	var err error
	if w.jobs, err = job.AnyLeft(ctx, h.API, etcd, h.jobKeys(etcd)); err != nil {
		return WakeUp{}, err
	}
	if record != nil {
		if claims, err = h.identities(ctx, h.API, etcd, membersOf(etcd)); err != nil {
			return WakeUp{}, err
		}
		claims, _ = leftOver(record, claims)
		w.left = names(claims)
		if w.instructed, err = memberconfig.Instructed(ctx, h.API, etcd, s.Manager); err != nil {
			return WakeUp{}, err
		}
	}
	d := decideWaking(w)
	if d.cleanUp {
		if err := h.cleanUp(ctx, etcd, claims, objects); err != nil {
			return WakeUp{}, err
		}
	}
	return WakeUp{Why: d.why, Restores: d.restore}, nil
}

// cleanUp removes the Jobs and claims that a hibernation has left, once all objects are known to be the Etcd's own.
func (h Hibernator) cleanUp(ctx context.Context, etcd *v1alpha1.Etcd, claims []v1alpha1.HibernatedClaim, objects *apply.Session) error {
	if owned, err := objects.Owned(ctx); err != nil || !owned {
		return err
	}
	if err := h.removeJobs(ctx, etcd); err != nil {
		return err
	}
	return h.deleteClaims(ctx, etcd, claims)
}

// Condition returns the condition Hibernated of a cluster that wakes up without volumes; nil for any other.
func (w WakeUp) Condition(etcd *v1alpha1.Etcd) *metav1.Condition {
	record := etcd.Status.Hibernation
	if record == nil || etcd.Spec.Replicas == 0 || etcd.Status.ClusterID == "" {
		return nil
	}
	c := conditions.False(v1alpha1.ConditionHibernated, v1alpha1.ReasonWakingUp, "The cluster wakes up from snapshot %s, at revision %d.", record.Snapshot, record.Revision)
	if w.Why != "" {
		c = conditions.False(v1alpha1.ConditionHibernated, v1alpha1.ReasonWakingUp, "The cluster will wake up from snapshot %s, at revision %d: %s.", record.Snapshot, record.Revision, w.Why)
	}
	return &c
}
