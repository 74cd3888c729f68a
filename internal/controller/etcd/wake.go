// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/component"
	"github.com/etcd-foreman/etcd-foreman/internal/member"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// waking is what is known of a cluster that is to wake up.
type waking struct {
	// jobs: a Job by which it was put to sleep is still there. It may read a volume, or write a snapshot.
	jobs bool
	// record of its sleep without volumes; nil when it has kept them.
	record *v1alpha1.Hibernation
	// left are the names of the claims of the record that still exist.
	left []string
	// recorded is what the members are to be told, and told that they have been.
	recorded *v1alpha1.ClusterRecovery
	told     bool
}

// wakingDecision is what comes before the members are started.
type wakingDecision struct {
	// why they are not started yet; empty when they may be.
	why string
	// cleanUp: Jobs have to be removed, and the claims of the record deleted.
	cleanUp bool
	// begin: the cluster may begin anew, and the members are to be told so.
	begin bool
}

// decideWaking decides whether the members of a cluster that sleeps may be started. It is pure.
//
// What was given up is deleted first, to the last claim: so whoever is late with deleting one, by its UID, deletes none
// that a member uses.
func decideWaking(w waking) wakingDecision {
	switch {
	case w.jobs:
		return wakingDecision{why: "the Jobs by which the cluster was put to sleep end first", cleanUp: true}
	case w.record == nil:
		return wakingDecision{}
	case len(w.left) > 0:
		return wakingDecision{why: "what was given up is deleted first: " + strings.Join(w.left, ", "), cleanUp: true}
	case !wakesFrom(w.recorded, w.record):
		return wakingDecision{why: "it is recorded first that the cluster begins anew", begin: true}
	case !w.told:
		return wakingDecision{why: "the members are told first that the cluster begins anew", begin: true}
	}
	return wakingDecision{begin: true}
}

// wakesFrom tells whether what members are told is how a cluster begins anew that slept without volumes: as its record
// says, or as a task that has recovered it since.
func wakesFrom(recorded *v1alpha1.ClusterRecovery, record *v1alpha1.Hibernation) bool {
	return recorded != nil && recorded.PreviousClusterID == record.ClusterID
}

// awakening is what the members of a cluster are told that wakes up without volumes: the first of them restores the final
// snapshot, and the others join it as learners.
func awakening(etcd *v1alpha1.Etcd, record *v1alpha1.Hibernation) *v1alpha1.ClusterRecovery {
	return &v1alpha1.ClusterRecovery{
		TaskUID: record.ID, Member: etcd.MemberName(component.PodName(etcd.Name, 0)), Source: v1alpha1.RecoverFromBackup,
		PreviousClusterID: record.ClusterID, Revision: record.Revision,
	}
}

// wake looks whether a cluster that sleeps, and is to wake up, may be started, and prepares it. It comes before the spec
// is applied.
func (r *Reconciler) wake(ctx context.Context, p *pass) error {
	etcd := p.etcd
	record := etcd.Status.Hibernation
	if etcd.Spec.Replicas == 0 || p.held || etcd.Status.ClusterID == "" {
		return nil
	}
	if p.set != nil && ptr.Deref(p.set.Spec.Replicas, 1) > 0 {
		p.awakening(record, "")
		return nil
	}
	w := waking{record: record, recorded: etcd.Status.Recovery}
	var claims []v1alpha1.HibernatedClaim
	var err error
	if w.jobs, err = r.jobsLeft(ctx, etcd); err != nil {
		return err
	}
	if record != nil {
		if claims, err = identities(ctx, r.APIReader, etcd, etcd.Status.ClusterSize); err != nil {
			return err
		}
		claims, _ = leftOver(record, claims)
		w.left = names(claims)
		if w.told, err = r.told(ctx, etcd); err != nil {
			return err
		}
	}
	d := decideWaking(w)
	if d.cleanUp {
		if err := r.cleanUp(ctx, p, claims); err != nil {
			return err
		}
	}
	p.asleep, p.begins = d.why, d.begin
	p.awakening(record, d.why)
	return nil
}

// cleanUp removes what is left of a sleep, once all objects are shown to be the Etcd's own.
func (r *Reconciler) cleanUp(ctx context.Context, p *pass, claims []v1alpha1.HibernatedClaim) error {
	if owned, err := r.owns(ctx, p); err != nil || !owned {
		return err
	}
	if err := r.removeJobs(ctx, p.etcd); err != nil {
		return err
	}
	return r.deleteClaims(ctx, p.etcd, claims)
}

// awakening says how far a cluster is that wakes up without volumes.
func (p *pass) awakening(record *v1alpha1.Hibernation, why string) {
	if record == nil {
		return
	}
	message := fmt.Sprintf("The cluster wakes up from snapshot %s, at revision %d.", record.Snapshot, record.Revision)
	if why != "" {
		message = fmt.Sprintf("The cluster is to wake up from snapshot %s, at revision %d: %s.", record.Snapshot, record.Revision, why)
	}
	p.hibernation = record
	p.further = append(p.further, condition(v1alpha1.ConditionHibernated, metav1.ConditionFalse, v1alpha1.ReasonWakingUp, message))
}

// told reports whether the members have been told how their cluster begins anew.
func (r *Reconciler) told(ctx context.Context, etcd *v1alpha1.Etcd) (bool, error) {
	wanted, err := instruction(etcd.Status.Recovery)
	if err != nil {
		return false, err
	}
	config := &corev1.ConfigMap{}
	key := types.NamespacedName{Namespace: etcd.Namespace, Name: component.ConfigMapName(etcd.Name)}
	if err := r.APIReader.Get(ctx, key, config); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return false, nil
		}
		return false, fmt.Errorf("reading ConfigMap %s: %w", key, err)
	}
	return wanted != "" && config.Data[member.KeyRecovery] == wanted, nil
}
