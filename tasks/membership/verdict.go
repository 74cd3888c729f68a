// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/members"
	"github.com/etcd-foreman/etcd-foreman/internal/membership"
	"github.com/etcd-foreman/etcd-foreman/tasks"
)

// input is all that a decision and what is recorded of it rest on.
type input struct {
	members.Known
	membership.Input
	config Config
	// recorded is what the task's status says so far.
	recorded v1alpha1.MembershipStatus
	// obstacle is why the Etcd controller does not scale the StatefulSet (tasks.Obstacle); empty if nothing is known to keep it from that.
	obstacle string
}

const (
	// progressDeadline is how long there may be no progress before the task counts as stalled.
	progressDeadline = 10 * time.Minute
	// recheckAfter a step that shows at once.
	recheckAfter = 100 * time.Millisecond
)

// verdict translates a decision for the task engine. It is pure.
func verdict(in input, d membership.Decision, now time.Time) tasks.Verdict {
	now = now.Truncate(time.Microsecond) // as exact as a status keeps it: a request is recognized by its time
	recorded := record(in, d, now)
	v := tasks.Verdict{
		Outcome: tasks.Continue, Reason: v1alpha1.ReasonRunning, Membership: &recorded,
		Progress: fmt.Sprintf("%d/%d", recorded.Voters, recorded.Size), RequeueAfter: pollInterval,
	}
	switch d.Conclusion {
	case membership.Finished:
		v.Outcome, v.RequeueAfter = tasks.Done, 0
		v.Message = fmt.Sprintf("the cluster has %d voters, and every one of them is a member of the goal", recorded.Voters)
		if kept := in.kept(); len(kept) > 0 {
			v.Message += fmt.Sprintf("; %s stay: a Restore keeps data there, they are not the Etcd's own, or no task has seen a member of this cluster leave them. Delete them once nothing on them is needed", strings.Join(kept, ", "))
		}
	case membership.Wait:
		v.Reason, v.Message = v1alpha1.ReasonHeld, fmt.Sprintf("%s: %s", d.Blocking[0].Guard, d.Blocking[0].Message)
	case membership.Act:
		v.Message = d.Step.Reason
		if in.awaitsController(d) {
			v.Message = fmt.Sprintf("waiting until StatefulSet %s has %d replicas: %s", in.Snapshot.StatefulSet.Name, *scaledTo(d), d.Step.Reason)
			if in.obstacle != "" {
				v.Message, v.RequeueAfter = v.Message+". "+in.obstacle, tasks.RecheckObstacle
			}
			break
		}
		v.Step = &tasks.Step{Operation: string(d.Step.Action), Reason: d.Step.Reason, Detail: detail{in, *d.Step, now}, RecheckAfter: recheckAfter}
	}
	if waitsForCutOver := len(d.Blocking) > 0 && d.Blocking[len(d.Blocking)-1].Guard == membership.GuardSourcesKeepQuorum; !waitsForCutOver {
		v.ProgressDeadline = progressDeadline
	}
	return v
}

// kept returns the claims beyond the goal that stay although the spec asks for their deletion.
func (in input) kept() (claims []string) {
	for i := in.Goal.Size; i < len(in.Ordinals); i++ {
		if o := in.Ordinals[i]; (o.Kept || o.Foreign != "") && (o.Temporary || !in.Goal.KeepClaims) {
			claims = append(claims, in.Etcd.ClaimName(int32(i)))
		}
	}
	return claims
}

// awaitsController reports whether the Etcd controller has yet to scale the StatefulSet as it is recorded.
func (in input) awaitsController(d membership.Decision) bool {
	wanted := scaledTo(d)
	return wanted != nil && in.recorded.Replicas != nil && *in.recorded.Replicas == *wanted
}

// scaledTo returns what the StatefulSet is to be scaled to by a decision; nil if it is not scaled.
func scaledTo(d membership.Decision) *int32 {
	if d.Conclusion != membership.Act {
		return nil
	}
	n := int32(d.Step.Ordinal)
	switch d.Step.Action {
	case membership.ScaleUp:
		n++
	case membership.ScaleDown:
	default:
		return nil
	}
	return &n
}
