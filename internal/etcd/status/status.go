// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package status computes the status of an Etcd from what a reconcile has found. It is pure.
package status

import (
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/firststart"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/hibernation"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/scale"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/tls"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/volumes"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Input is what a reconcile has found. If the reconcile did not get as far as a field, it is nil, and the status keeps its present value.
type Input struct {
	*state.State
	// Adoption of the objects from etcd-druid.
	Adoption state.Adoption
	// TLS of the members.
	TLS *tls.Plan
	// Size of the StatefulSet now.
	Size *scale.Size
	// Settled: the cache shows each object as it was applied for the present spec.
	Settled bool
	Volumes *volumes.View
	// FirstStart of a cluster that has not served.
	FirstStart firststart.View
	// WakeUp is nil while a task holds the StatefulSet at zero.
	WakeUp      *hibernation.WakeUp
	Hibernation *hibernation.View
	// Refused is why the operator's configuration does not allow the Etcd; nil if it does.
	Refused error
	// Foreign are the objects that block writes. They are only known if OwnersChecked.
	Foreign       []ownership.Foreign
	OwnersChecked bool
	// ScheduleErr is why spec.etcd.defragmentationSchedule is invalid; nil if it is valid.
	ScheduleErr error
	// Failures of the reconcile to report. Open are the codes of stages that were skipped or have failed, whose earlier errors may be
	// unresolved.
	Failures []Failure
	Open     []v1alpha1.ErrorCode
	// LostFor is how long quorum has been lost.
	LostFor time.Duration
	Now     metav1.Time
}

// Current reports whether the spec was applied, and the StatefulSet controller has seen it.
func (o Input) Current() bool {
	return o.Settled && o.Snapshot != nil && o.Snapshot.StatefulSet.Observed && o.TLS != nil && o.TLS.Arrived(o.Etcd)
}

// Next returns the status that follows from what was found and from the present status.
func Next(o Input) v1alpha1.EtcdStatus {
	if foreign := managedElsewhere(o); len(foreign) > 0 {
		return elsewhere(o, foreign)
	}
	etcd := o.Etcd
	next := *etcd.Status.DeepCopy()
	if o.Current() {
		next.ObservedGeneration = etcd.Generation
	}
	refer(&next, o)
	next.AdvertisedPeerURLs = tls.Record(etcd, o.Snapshot)
	if s := o.Snapshot; s != nil {
		next.Members = members(next.Members, s, o.Now)
		countReplicas(&next, s)
		id, unexplained := lineage(etcd, s)
		next.ClusterID = id
		// Only the size of an explained cluster is recorded; otherwise a single member of another cluster could pass for the whole recorded
		// cluster.
		if s.Quorate() && unexplained == nil && id != "" {
			next.ClusterSize = scale.Seen(next.ClusterSize, etcd, s)
			if n := len(s.Cluster.Voters); n > 0 {
				next.Voters = int32(n)
			}
		}
	}
	next.BootstrapWithExistingCluster = joined(etcd, next.BootstrapWithExistingCluster, o.Snapshot, o.Now)
	if found := o.FirstStart.Found; found != nil && next.ClusterID == "" {
		next.ClusterID, next.ClusterSize = found.ID, max(next.ClusterSize, found.Size)
	}
	next.Hibernation = recordOf(next.Hibernation, next.ClusterID, o)
	next.Recovery = recovery(next.Recovery, next.ClusterID, o)
	for _, c := range conditionsOf(&next, o) {
		set(&next, c, o.Now)
	}
	put(&next, v1alpha1.ConditionAlarmRaised, alarmRaised(next.Conditions.Find(v1alpha1.ConditionAlarmRaised), o), o.Now)
	next.Conditions.Complete()
	removeStale(&next, o)
	ready := next.Conditions.IsTrue(v1alpha1.ConditionAllMembersReady) &&
		!next.Conditions.IsFalse(v1alpha1.ConditionScaled) &&
		next.Conditions.IsTrue(v1alpha1.ConditionAllMembersUpdated)
	next.Ready = &ready
	next.Rollout = currentRollout(&next, o)
	report(etcd, &next, findings(next.Recovery, o), o.Now)
	setProgress(etcd, &next, o.Tasks, o.Now)
	return next
}

// Interrupted returns the status of an Etcd whose reconcile was not completed: the present status with the failures added. While one of them only waits,
// it has been waiting for long, and nothing shows how the members are: their pods may have no owner, and look as if there were none.
func Interrupted(etcd *v1alpha1.Etcd, failures []Failure, now metav1.Time) v1alpha1.EtcdStatus {
	next := *etcd.Status.DeepCopy()
	if len(failures) > 0 {
		report(etcd, &next, keep(next.LastErrors, failures, now), now)
		if i := slices.IndexFunc(failures, func(f Failure) bool { return f.Waits }); i >= 0 {
			for _, c := range alike(conditions.Unknown, v1alpha1.ReasonNotObserved, fmt.Sprintf("The members are not observed: %v.", failures[i].Err), v1alpha1.ConditionReady, v1alpha1.ConditionAllMembersReady) {
				set(&next, c, now)
			}
			next.Ready = ptr.To(false)
		}
		// After a failure, it does not matter whether a rollout is stalled as well.
		setProgress(etcd, &next, nil, now)
	}
	return next
}

// refer sets the selectors and references by which other controllers find the members.
func refer(next *v1alpha1.EtcdStatus, o Input) {
	next.LabelSelector = &metav1.LabelSelector{MatchLabels: component.MemberSelector(o.Etcd.Name, o.PodsManagedBy)}
	next.Selector = metav1.FormatLabelSelector(next.LabelSelector)
	next.Etcd = nil
	if o.StatefulSet != nil {
		next.Etcd = &v1alpha1.CrossVersionObjectReference{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "StatefulSet", Name: o.StatefulSet.Name}
	}
	// An ordinal without a pod does not count.
	with := func(on bool) func(cluster.Ordinal) bool {
		return func(ordinal cluster.Ordinal) bool {
			return ordinal.Pod != nil && on == (ordinal.Pod.PeerTLS == v1alpha1.TLSOn)
		}
	}
	if s := o.Snapshot; s != nil && (slices.ContainsFunc(s.Ordinals, with(false)) || slices.ContainsFunc(s.Ordinals, with(true))) {
		next.PeerURLTLSEnabled = ptr.To(!slices.ContainsFunc(s.Ordinals, with(false)))
	}
}

func set(status *v1alpha1.EtcdStatus, c metav1.Condition, now metav1.Time) {
	// ObservedGeneration is negative until a generation is applied, which the schema of conditions does not allow.
	c.ObservedGeneration, c.LastTransitionTime = max(0, status.ObservedGeneration), now
	status.Conditions.Set(c)
}

// removeStale removes conditions that do not apply to the Etcd.
func removeStale(next *v1alpha1.EtcdStatus, o Input) {
	if o.Etcd.Spec.Replicas > 0 && next.Hibernation == nil {
		next.Conditions.Remove(v1alpha1.ConditionHibernated)
	}
	if o.Volumes != nil && o.Volumes.Moved() == nil {
		next.Conditions.Remove(v1alpha1.ConditionVolumesMoved)
	}
	if o.Adoption.Condition == nil {
		next.Conditions.Remove(v1alpha1.ConditionAdopted)
	}
	if !tls.Wanted(o.Etcd) {
		next.Conditions.Remove(v1alpha1.ConditionTLSReady)
	}
	if !o.Etcd.SourceStays() && next.BootstrapWithExistingCluster == nil {
		next.Conditions.Remove(v1alpha1.ConditionBootstrappedWithExistingCluster)
	}
	if !o.Etcd.HasBackupStore() && !o.Etcd.LacksProvider() {
		next.Conditions.Remove(v1alpha1.ConditionBackupReady)
	}
}

// recordOf returns the record of a hibernation without volumes, which stays unchanged until the restored cluster serves.
func recordOf(recorded *v1alpha1.Hibernation, clusterID string, o Input) *v1alpha1.Hibernation {
	switch {
	case recorded == nil && o.Hibernation != nil:
		return o.Hibernation.Record
	case recorded != nil && recorded.ClusterID != clusterID:
		return nil
	}
	return recorded
}

func countReplicas(status *v1alpha1.EtcdStatus, s *cluster.Snapshot) {
	status.Replicas = int32(s.Replicas())
	status.CurrentReplicas, status.ReadyReplicas, status.UpdatedReplicas = 0, 0, 0
	for _, o := range s.Ordinals {
		if o.Pod == nil {
			continue
		}
		status.CurrentReplicas++
		if o.Pod.AllContainersReady {
			status.ReadyReplicas++
		}
		if o.Pod.At(s.StatefulSet.UpdateRevision) {
			status.UpdatedReplicas++
		}
	}
}
