// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	"github.com/etcd-foreman/etcd-foreman/internal/survey"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// retryFinalSnapshot is the least time between the beginnings of two final snapshots of which the first has failed.
const retryFinalSnapshot = time.Minute

// sleep is what is known of a cluster that is to sleep.
type sleep struct {
	// awake is why it is kept awake; empty when it is not.
	awake string
	// pods are how many are left. stopped: none is, and none can be started, as the API server says.
	pods    int32
	stopped bool
	// deletes: its volumes are to be deleted, by its spec.
	deletes bool
	// obstacle is why no final snapshot can be taken of it; empty when one can.
	obstacle string
	// jobs: there are Jobs, and it is to keep its volumes.
	jobs bool
	// record is the sleep without volumes that has begun; nil when it has not.
	record *v1alpha1.Hibernation
	// claims that exist, once there is a record; and of a cluster that has never served.
	claims []v1alpha1.HibernatedClaim
	// clusterID of the cluster in hex, and its size.
	clusterID string
	size      int
	// round tells this sleep, and this spec, from others: what was done for another does not count.
	round string
	// volumes as they were surveyed, and the Job that takes the final snapshot, while there is no record.
	volumes []survey.Volume
	final   finalJob
}

// finalJob is the Job that takes the final snapshot.
type finalJob struct {
	// uid is empty when there is none. foreign says that there is one which is somebody else's.
	uid     types.UID
	foreign string
	// subject is what it was made for.
	subject string
	created time.Time
	state   job.State
}

// sleepStep is what is done next.
type sleepStep int

const (
	// rest: nothing, or what goes on has to end first.
	rest sleepStep = iota
	// surveyVolumes creates, or removes, the Jobs that look at volumes.
	surveyVolumes
	// takeSnapshot creates the Job that takes the final snapshot.
	takeSnapshot
	// dropSnapshot removes it, for another to be created.
	dropSnapshot
	// deleteClaims deletes those of the record, and removes the Jobs, whose pods would keep them.
	deleteClaims
	// removeJobs removes the Jobs.
	removeJobs
)

// sleepDecision is what becomes of a cluster that is to sleep.
type sleepDecision struct {
	step sleepStep
	// source is the volume that the final snapshot is taken of.
	source survey.Volume
	// record from now on.
	record    *v1alpha1.Hibernation
	condition metav1.Condition
}

// decideSleep decides what becomes of a cluster that is to sleep. It is pure.
//
// Volumes are deleted by a record alone: the names and UIDs of claims, written down when the final snapshot of all that
// is on them was verified, and never changed. Until then the cluster can be woken with its volumes; from then on it
// wakes up from that snapshot.
func decideSleep(s sleep, now time.Time) sleepDecision {
	switch {
	case s.awake != "":
		return s.say(rest, v1alpha1.ReasonNoFinalSnapshot, "%s", s.awake)
	case s.pods > 0:
		return s.say(rest, v1alpha1.ReasonHibernating, "%d pods are left.", s.pods)
	case s.record != nil:
		return s.release()
	case !s.deletes && s.jobs:
		return s.say(removeJobs, v1alpha1.ReasonHibernating, "No member runs, and the volumes are kept; the Jobs that were to look at them are removed.")
	case !s.deletes:
		return s.asleep("The cluster sleeps, and its volumes are kept.")
	case s.clusterID == "" && len(s.claims) == 0:
		return s.asleep("The cluster sleeps, and has no volumes yet.")
	case s.obstacle != "":
		return s.keep(rest, "%s", s.obstacle)
	case !s.stopped:
		return s.say(rest, v1alpha1.ReasonHibernating, "No pod is left; waiting until the newest spec is applied, and the StatefulSet controller has seen it.")
	}
	return s.secure(now)
}

// secure brings all that is on the volumes into the final snapshot, and then makes the record.
func (s sleep) secure(now time.Time) sleepDecision {
	if waits, act := survey.Pending(s.volumes); len(waits) > 0 {
		step := rest
		if act {
			step = surveyVolumes
		}
		if slices.ContainsFunc(s.volumes, func(v survey.Volume) bool { return v.State == survey.Unread || v.State == survey.Foreign }) {
			return s.keep(step, "%s", strings.Join(waits, "; "))
		}
		return s.say(step, v1alpha1.ReasonHibernating, "No member runs, and it is looked at what is on the volumes: %s.", strings.Join(waits, "; "))
	}
	for _, v := range s.volumes {
		// Nobody has said that this may be deleted.
		if v.State == survey.Seen && v.Survey.ClusterID != "" && v.Survey.ClusterID != s.clusterID {
			return s.keep(rest, "claim %s has data of another cluster, %s, and this is cluster %s", v.Claim, v.Survey.ClusterID, s.clusterID)
		}
	}
	usable, others := survey.Sift(s.volumes, s.clusterID)
	if !survey.AreQuorum(usable, s.size) {
		return s.keep(rest, "there are no data of a quorum, so nobody knows whether they are all that was acknowledged: %s; wake the cluster up, and bring its quorum back", strings.Join(others, "; "))
	}
	source := usable[0]
	d := s.snapshot(source, now)
	d.source = source
	return d
}

// snapshot takes the final snapshot of the most advanced member of a quorum, which has all that was acknowledged.
func (s sleep) snapshot(source survey.Volume, now time.Time) sleepDecision {
	f := s.final
	switch {
	case f.foreign != "":
		return s.keep(rest, "%s", f.foreign)
	case f.uid == "":
		return s.say(takeSnapshot, v1alpha1.ReasonHibernating, "No member runs; the final snapshot is to be taken of %s, the most advanced member.", source.Member)
	case f.subject != s.subject(source):
		return s.say(dropSnapshot, v1alpha1.ReasonHibernating, "No member runs; a Job that was to take an earlier final snapshot is removed.")
	case f.state.Running:
		return s.say(rest, v1alpha1.ReasonHibernating, "No member runs; the final snapshot is taken of %s: %s.", source.Member, f.state.Message)
	}
	record, err := s.conclude(source, now)
	switch {
	case err == nil:
		d := s.say(rest, v1alpha1.ReasonHibernating, "No member runs, and snapshot %s, at revision %d, has all that is on the volumes: these are deleted.", record.Snapshot, record.Revision)
		d.record = record
		return d
	case now.Sub(f.created) < retryFinalSnapshot:
		return s.keep(rest, "the final snapshot could not be taken, and is tried again: %v", err)
	}
	return s.keep(dropSnapshot, "the final snapshot could not be taken, and is tried again: %v", err)
}

// subject is what the Job that takes the final snapshot is made for: the volume of a member, as it was surveyed.
func (s sleep) subject(source survey.Volume) string {
	return fmt.Sprintf("%s/%s/%d/%d", s.round, source.UID, source.Survey.LastTerm, source.Survey.LastIndex)
}

// conclude makes the record, by what the Job has told of a snapshot that it has read back from the store.
func (s sleep) conclude(source survey.Volume, now time.Time) (*v1alpha1.Hibernation, error) {
	if s.final.state.Code != "" {
		return nil, errors.New(s.final.state.Message)
	}
	var told struct{ Snapshot, Revision string }
	if err := json.Unmarshal(s.final.state.Result, &told); err != nil || told.Snapshot == "" {
		return nil, errors.New("its Job told nothing that can be read")
	}
	revision, err := strconv.ParseInt(told.Revision, 10, 64)
	if err != nil || revision < source.Survey.Revision || revision < 1 {
		return nil, fmt.Errorf("snapshot %s is at revision %q, and %s has revision %d", told.Snapshot, told.Revision, source.Member, source.Survey.Revision)
	}
	record := &v1alpha1.Hibernation{
		ID: s.final.uid, Since: metav1.Time{Time: now}, Snapshot: told.Snapshot, Revision: revision, ClusterID: s.clusterID,
	}
	for _, v := range s.volumes {
		if v.State == survey.Seen {
			record.Claims = append(record.Claims, v1alpha1.HibernatedClaim{Name: v.Claim, UID: v.UID})
		}
	}
	return record, nil
}

// release deletes the claims of the record.
func (s sleep) release() sleepDecision {
	left, others := leftOver(s.record, s.claims)
	switch {
	case len(left) > 0 && !s.stopped:
		return s.say(rest, v1alpha1.ReasonHibernating, "No pod is left; waiting until the newest spec is applied, and the StatefulSet controller has seen it.")
	case len(left) > 0:
		return s.say(deleteClaims, v1alpha1.ReasonHibernating, "No member runs, and snapshot %s, at revision %d, has all that is on the volumes: these are deleted: %s.",
			s.record.Snapshot, s.record.Revision, strings.Join(names(left), ", "))
	case len(others) > 0:
		return s.keep(rest, "the cluster was stopped while it woke up from snapshot %s, and may have been written to: wake it up, and put it to sleep once it is ready", s.record.Snapshot)
	}
	return s.asleep(fmt.Sprintf("The cluster sleeps without volumes, and wakes up from snapshot %s, at revision %d.", s.record.Snapshot, s.record.Revision))
}

// leftOver are the claims of a record that exist, and those that exist and are not of the record.
func leftOver(record *v1alpha1.Hibernation, claims []v1alpha1.HibernatedClaim) (left, others []v1alpha1.HibernatedClaim) {
	recorded := map[v1alpha1.HibernatedClaim]bool{}
	for _, c := range record.Claims {
		recorded[c] = true
	}
	for _, c := range claims {
		if recorded[c] {
			left = append(left, c)
		} else {
			others = append(others, c)
		}
	}
	return left, others
}

func names(claims []v1alpha1.HibernatedClaim) (names []string) {
	for _, c := range claims {
		names = append(names, c.Name)
	}
	return names
}

func (s sleep) say(step sleepStep, reason, format string, args ...any) sleepDecision {
	return sleepDecision{step: step, record: s.record, condition: condition(v1alpha1.ConditionHibernated, metav1.ConditionFalse, reason, fmt.Sprintf(format, args...))}
}

// keep says why volumes are kept that the spec would have deleted.
func (s sleep) keep(step sleepStep, format string, args ...any) sleepDecision {
	return s.say(step, v1alpha1.ReasonNoFinalSnapshot, "No member runs, and the volumes are kept: %s.", fmt.Sprintf(format, args...))
}

func (s sleep) asleep(message string) sleepDecision {
	return sleepDecision{record: s.record, condition: condition(v1alpha1.ConditionHibernated, metav1.ConditionTrue, v1alpha1.ReasonHibernated, message)}
}
