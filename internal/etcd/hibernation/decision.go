// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package hibernation

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	"github.com/etcd-foreman/etcd-foreman/internal/job/survey"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// retryFinalSnapshot is the least time between the start of a final snapshot that failed and the next one.
const retryFinalSnapshot = time.Minute

// input of the decision on a cluster that is to hibernate.
type input struct {
	// blocked is why it is kept running; empty if it is not.
	blocked string
	// pods is how many are left. stopped: according to the API server there are none, and none can be started.
	pods    int32
	stopped bool
	// deletes: the spec asks for the deletion of its volumes.
	deletes bool
	// obstacle is why no final snapshot can be taken of it; empty if one can.
	obstacle string
	// jobs: there are Jobs of a hibernation without volumes, although it is to keep its volumes.
	jobs bool
	// record of a hibernation without volumes; nil if there is none.
	record *v1alpha1.Hibernation
	// claims that exist. They are only read if there is a record, or if the cluster has never served.
	claims []v1alpha1.HibernatedClaim
	// clusterID of the cluster in hex, and its size.
	clusterID string
	size      int
	// round identifies the generation of the spec: results from another generation do not count.
	round string
	// volumes as they were surveyed, and the Job that takes the final snapshot; only while there is no record.
	volumes []survey.Volume
	final   finalJob
}

// finalJob is the Job that takes the final snapshot.
type finalJob struct {
	// uid is empty if there is none. foreign says who owns it if the Etcd does not.
	uid     types.UID
	foreign string
	// subject is what it was made for.
	subject string
	// retry is how long to wait before another one if this has failed; 0 or less if it is due.
	retry time.Duration
	state job.State
}

// step is the next step.
type step int

const (
	// wait: there is nothing to do, or something in progress has to end first.
	wait step = iota
	// surveyVolumes creates or removes the Jobs that survey volumes.
	surveyVolumes
	// takeSnapshot creates the Job that takes the final snapshot.
	takeSnapshot
	// dropSnapshot removes that Job, so that another one is created.
	dropSnapshot
	// deleteClaims deletes the claims of the record, and removes the Jobs, whose pods would keep them.
	deleteClaims
	// removeJobs removes the Jobs.
	removeJobs
)

// decision on a cluster that is to hibernate.
type decision struct {
	step step
	// source is the volume that the final snapshot is taken from.
	source survey.Volume
	// record is the record from now on.
	record    *v1alpha1.Hibernation
	condition metav1.Condition
}

// decide decides on the next step of a cluster that is to hibernate. It is pure.
//
// Volumes are only deleted by a record: the names and UIDs of claims, written once the final snapshot of everything on them is verified,
// and never changed. Until then the cluster wakes up with its volumes; from then on it wakes up from that snapshot.
func decide(f input, now time.Time) decision {
	switch {
	case f.blocked != "":
		return f.say(wait, v1alpha1.ReasonNoFinalSnapshot, "%s", f.blocked)
	case f.pods > 0:
		return f.say(wait, v1alpha1.ReasonHibernating, "%d pods are left.", f.pods)
	case f.record != nil:
		return f.release()
	case !f.deletes && f.jobs:
		return f.say(removeJobs, v1alpha1.ReasonHibernating, "No member is running, and the volumes are kept; removing the Jobs that were to survey them.")
	case !f.deletes:
		return f.hibernated("The cluster is hibernated; its volumes are kept.")
	case f.clusterID == "" && len(f.claims) == 0:
		return f.hibernated("The cluster is hibernated; it has no volumes yet.")
	case f.obstacle != "":
		return f.keep(wait, "%s", f.obstacle)
	case !f.stopped:
		return f.say(wait, v1alpha1.ReasonHibernating, "No pod is left; waiting until the newest spec is applied and the StatefulSet controller has seen it.")
	}
	return f.secure(now)
}

// secure takes the final snapshot of everything on the volumes, and then makes the record.
func (f input) secure(now time.Time) decision {
	if waits, act := survey.Pending(f.volumes); len(waits) > 0 {
		next := wait
		if act {
			next = surveyVolumes
		}
		if slices.ContainsFunc(f.volumes, func(v survey.Volume) bool { return v.State == survey.Unread || v.State == survey.Foreign }) {
			return f.keep(next, "%s", strings.Join(waits, "; "))
		}
		return f.say(next, v1alpha1.ReasonHibernating, "No member is running; surveying the volumes: %s.", strings.Join(waits, "; "))
	}
	for _, v := range f.volumes {
		// The user has not consented to the deletion of this.
		if f.hasMember(v) && v.State == survey.Seen && v.Survey.ClusterID != "" && v.Survey.ClusterID != f.clusterID {
			return f.keep(wait, "claim %s has data of another cluster, %s; this is cluster %s", v.Claim, v.Survey.ClusterID, f.clusterID)
		}
	}
	usable, others := survey.Sift(f.volumes, f.clusterID)
	if !survey.AreQuorum(usable, f.size) {
		return f.keep(wait, "the volumes do not have the data of a quorum, so acknowledged writes may be missing: %s; wake the cluster up, and restore its quorum", strings.Join(others, "; "))
	}
	source := usable[0]
	d := f.snapshot(source, now)
	d.source = source
	return d
}

// hasMember reports whether a volume belongs to a member. Beyond the size of the cluster, it does if it has data of the cluster: that
// member joined while no operator was running. Otherwise an earlier Etcd may have left the volume.
func (f input) hasMember(v survey.Volume) bool {
	return int(v.Ordinal) < f.size || v.Survey.ClusterID == f.clusterID
}

// snapshot takes the final snapshot from the most advanced member of a quorum, which has every acknowledged write.
func (f input) snapshot(source survey.Volume, now time.Time) decision {
	final := f.final
	switch {
	case final.foreign != "":
		return f.keep(wait, "%s", final.foreign)
	case final.uid == "":
		return f.say(takeSnapshot, v1alpha1.ReasonHibernating, "No member is running; taking the final snapshot of %s, the most advanced member.", source.Member)
	case final.subject != f.subject(source):
		return f.say(dropSnapshot, v1alpha1.ReasonHibernating, "No member is running; removing a Job that was to take an earlier final snapshot.")
	case final.state.Running:
		return f.say(wait, v1alpha1.ReasonHibernating, "No member is running; taking the final snapshot of %s: %s.", source.Member, final.state.Message)
	}
	record, err := f.conclude(source, now)
	switch {
	case err == nil:
		d := f.say(wait, v1alpha1.ReasonHibernating, "No member is running, and snapshot %s, at revision %d, has all that is on the volumes; deleting these.", record.Snapshot, record.Revision)
		d.record = record
		return d
	case final.retry > 0:
		return f.keep(wait, "the final snapshot failed; retrying: %v", err)
	}
	return f.keep(dropSnapshot, "the final snapshot failed; retrying: %v", err)
}

// subject identifies what the Job takes a final snapshot from: the volume of a member, as surveyed.
func (f input) subject(source survey.Volume) string {
	return fmt.Sprintf("%s/%s/%d/%d", f.round, source.UID, source.Survey.LastTerm, source.Survey.LastIndex)
}

// conclude makes the record from the result of the Job, which has read the snapshot back from the store.
func (f input) conclude(source survey.Volume, now time.Time) (*v1alpha1.Hibernation, error) {
	if f.final.state.Code != "" {
		return nil, errors.New(f.final.state.Message)
	}
	var reported struct{ Snapshot, Revision string }
	if err := json.Unmarshal(f.final.state.Result, &reported); err != nil || reported.Snapshot == "" {
		return nil, errors.New("the result of its Job cannot be read")
	}
	revision, err := strconv.ParseInt(reported.Revision, 10, 64)
	if err != nil || revision < source.Survey.Revision || revision < 1 {
		return nil, fmt.Errorf("snapshot %s is at revision %q, and %s has revision %d", reported.Snapshot, reported.Revision, source.Member, source.Survey.Revision)
	}
	record := &v1alpha1.Hibernation{
		ID: f.final.uid, Since: metav1.Time{Time: now}, Snapshot: reported.Snapshot, Revision: revision, ClusterID: f.clusterID,
	}
	for _, v := range f.volumes {
		if v.State == survey.Seen && f.hasMember(v) {
			record.Claims = append(record.Claims, v1alpha1.HibernatedClaim{Name: v.Claim, UID: v.UID})
		}
	}
	return record, nil
}

// release deletes the claims of the record.
func (f input) release() decision {
	left, others := leftOver(f.record, f.claims)
	switch {
	case len(left) > 0 && !f.stopped:
		return f.say(wait, v1alpha1.ReasonHibernating, "No pod is left; waiting until the newest spec is applied and the StatefulSet controller has seen it.")
	case len(left) > 0:
		return f.say(deleteClaims, v1alpha1.ReasonHibernating, "No member is running, and snapshot %s, at revision %d, has all that is on the volumes; deleting claims %s.",
			f.record.Snapshot, f.record.Revision, strings.Join(names(left), ", "))
	case len(others) > 0:
		return f.keep(wait, "the cluster was stopped while it woke up from snapshot %s, and may have been written to: wake it up, and hibernate it once it is ready", f.record.Snapshot)
	}
	return f.hibernated("The cluster is hibernated without volumes, and wakes up from snapshot %s, at revision %d.", f.record.Snapshot, f.record.Revision)
}

// leftOver returns the existing claims that are in a record, and those that are not.
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

func (f input) say(next step, reason, format string, args ...any) decision {
	return decision{step: next, record: f.record, condition: conditions.False(v1alpha1.ConditionHibernated, reason, format, args...)}
}

// keep decides to keep the volumes although the spec asks for their deletion, and says why.
func (f input) keep(next step, format string, args ...any) decision {
	return f.say(next, v1alpha1.ReasonNoFinalSnapshot, "No member is running, and the volumes are kept: %s.", fmt.Sprintf(format, args...))
}

func (f input) hibernated(format string, args ...any) decision {
	return decision{record: f.record, condition: conditions.True(v1alpha1.ConditionHibernated, v1alpha1.ReasonHibernated, format, args...)}
}
