// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// newTask returns a pending task with a creation time in seconds after the epoch and a resourceVersion.
func newTask(name string, second int, resourceVersion string) *v1alpha1.EtcdOperatorTask {
	return &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: resourceVersion, CreationTimestamp: metav1.Time{Time: epoch.Add(time.Duration(second) * time.Second)}},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.OnDemandSnapshot},
		Status:     v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStatePending},
	}
}

func inState(t *v1alpha1.EtcdOperatorTask, state v1alpha1.TaskState) *v1alpha1.EtcdOperatorTask {
	t.Status.State = state
	return t
}

func suspended(t *v1alpha1.EtcdOperatorTask) *v1alpha1.EtcdOperatorTask {
	t.Spec.Suspend = true
	return t
}

func arrived(t *v1alpha1.EtcdOperatorTask, resourceVersion string) *v1alpha1.EtcdOperatorTask {
	t.Status.ArrivalResourceVersion = resourceVersion
	return t
}

func names(q Queue) string {
	var all []string
	for _, t := range q {
		all = append(all, t.Name)
	}
	return strings.Join(all, " ")
}

func TestQueueOrder(t *testing.T) {
	tasks := []*v1alpha1.EtcdOperatorTask{
		newTask("earlier", 0, "900"),
		// Within one second: by the resourceVersion at which each was first seen, as a number. A task that has
		// changed since keeps its place.
		// Their names say the opposite.
		arrived(newTask("z-first", 1, "2000"), "99"),
		newTask("y-second", 1, "100"),
		arrived(newTask("x-third", 1, "101"), "101"),
		newTask("later", 2, "50"),
		inState(newTask("over", 0, "1"), v1alpha1.TaskStateSucceeded),
	}
	for range 20 {
		rand.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
		if got := names(New(tasks)); got != "earlier z-first y-second x-third later" {
			t.Fatalf("the order is %q", got)
		}
	}
}

// A resourceVersion that is no number, of another API server, is still an order: the same on every look.
func TestOrderOfOpaqueResourceVersions(t *testing.T) {
	tasks := []*v1alpha1.EtcdOperatorTask{
		newTask("c", 1, "v9"), newTask("b", 1, "v10"), newTask("a", 1, "v11"), newTask("d", 1, "v11"),
	}
	for range 20 {
		rand.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
		if got := names(New(tasks)); got != "c b a d" {
			t.Fatalf("the order is %q", got)
		}
	}
}

func TestFind(t *testing.T) {
	a, b := newTask("a", 0, "1"), newTask("b", 1, "2")
	a.UID, b.UID = "uid-a", "uid-b"
	q := New([]*v1alpha1.EtcdOperatorTask{a, b})
	for uid, want := range map[types.UID]*v1alpha1.EtcdOperatorTask{"uid-a": a, "uid-b": b, "other": nil} {
		if got := q.Find(uid); got != want {
			t.Errorf("%s is %+v", uid, got)
		}
	}
}

func TestNobodyHasATurnInAnEmptyQueue(t *testing.T) {
	q := New(nil)
	if q.Beside() != nil || q.HasTurn(nil) || q.HasTurn(newTask("a", 0, "1")) || q.Behind(newTask("a", 0, "1")) != 0 {
		t.Error("a task has a turn in an empty queue")
	}
}

func TestHead(t *testing.T) {
	for name, c := range map[string]struct {
		tasks []*v1alpha1.EtcdOperatorTask
		want  string
	}{
		"empty":                           {nil, ""},
		"the first":                       {[]*v1alpha1.EtcdOperatorTask{newTask("a", 0, "1"), newTask("b", 1, "2")}, "a"},
		"a suspended task is skipped":     {[]*v1alpha1.EtcdOperatorTask{suspended(newTask("a", 0, "1")), newTask("b", 1, "2")}, "b"},
		"all suspended":                   {[]*v1alpha1.EtcdOperatorTask{suspended(newTask("a", 0, "1"))}, ""},
		"a running task stays":            {[]*v1alpha1.EtcdOperatorTask{newTask("a", 0, "1"), inState(newTask("b", 1, "2"), v1alpha1.TaskStateInProgress)}, "b"},
		"a running task stays, suspended": {[]*v1alpha1.EtcdOperatorTask{newTask("a", 0, "1"), suspended(inState(newTask("b", 1, "2"), v1alpha1.TaskStateInProgress))}, "b"},
		"a finished task is left out":     {[]*v1alpha1.EtcdOperatorTask{inState(newTask("a", 0, "1"), v1alpha1.TaskStateFailed), newTask("b", 1, "2")}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if head := New(c.tasks).Head(); head != nil {
				got = head.Name
			}
			if got != c.want {
				t.Errorf("the head is %q, want %q", got, c.want)
			}
		})
	}
}

func ofType(t *v1alpha1.EtcdOperatorTask, taskType v1alpha1.TaskType) *v1alpha1.EtcdOperatorTask {
	t.Spec.Type = taskType
	return t
}

// rollout returns a running rollout named r; it does not progress if a reason is given.
func rollout(second int, reason string) *v1alpha1.EtcdOperatorTask {
	t := inState(ofType(newTask("r", second, "1"), v1alpha1.QuorumAwareRollout), v1alpha1.TaskStateInProgress)
	t.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProgressing, Reason: reason}}
	return t
}

func TestPreemption(t *testing.T) {
	recovery := func(name string, second int) *v1alpha1.EtcdOperatorTask {
		return ofType(newTask(name, second, "1"), v1alpha1.QuorumLossRecovery)
	}
	running := func(t *v1alpha1.EtcdOperatorTask) *v1alpha1.EtcdOperatorTask {
		return inState(t, v1alpha1.TaskStateInProgress)
	}
	snapshot, copying := newTask("snapshot", 5, "1"), ofType(newTask("copy", 6, "1"), v1alpha1.CopyBackups)
	maintenance := ofType(newTask("maintenance", 4, "1"), v1alpha1.OnDemandMaintenance)
	pending := inState(rollout(0, v1alpha1.ReasonStalled), v1alpha1.TaskStatePending)
	// admission waits or has been waited for, in a state.
	admission := func(status metav1.ConditionStatus, state v1alpha1.TaskState) *v1alpha1.EtcdOperatorTask {
		t := inState(rollout(0, ""), state)
		t.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAdmitted, Status: status}}
		return t
	}
	stopped := ofType(suspended(rollout(0, v1alpha1.ReasonSuspended)), v1alpha1.RecreateRollout)
	stopped.Status.Rollout = &v1alpha1.RolloutStatus{Phase: v1alpha1.RecreateWaitingTermination}
	waits := admission(metav1.ConditionFalse, v1alpha1.TaskStatePending)
	for name, c := range map[string]struct {
		tasks                   []*v1alpha1.EtcdOperatorTask
		head, beside, preempted string
	}{
		"a recovery preempts a rollout":                       {[]*v1alpha1.EtcdOperatorTask{rollout(0, ""), recovery("rec", 9)}, "rec", "", "r"},
		"a suspended recovery does not":                       {[]*v1alpha1.EtcdOperatorTask{rollout(0, ""), suspended(recovery("rec", 9))}, "r", "", ""},
		"a running recovery stays":                            {[]*v1alpha1.EtcdOperatorTask{rollout(0, ""), suspended(running(recovery("rec", 9)))}, "rec", "", "r"},
		"nothing starts beside one of a newer operator":       {[]*v1alpha1.EtcdOperatorTask{snapshot, running(ofType(newTask("d", 1, "1"), "Dance")), recovery("rec", 9)}, "d", "", ""},
		"what has begun waits for it":                         {[]*v1alpha1.EtcdOperatorTask{rollout(0, v1alpha1.ReasonStalled), running(ofType(newTask("d", 1, "1"), "Dance"))}, "d", "", "r"},
		"but no recovery that has":                            {[]*v1alpha1.EtcdOperatorTask{running(ofType(newTask("d", 0, "1"), "Dance")), running(recovery("rec", 9))}, "rec", "", "d"},
		"one of its types that has not begun is in line":      {[]*v1alpha1.EtcdOperatorTask{newTask("s", 0, "1"), ofType(newTask("d", 1, "1"), "Dance")}, "s", "", ""},
		"the second recovery waits":                           {[]*v1alpha1.EtcdOperatorTask{recovery("other", 1), running(recovery("rec", 9))}, "rec", "", ""},
		"a progressing rollout runs alone":                    {[]*v1alpha1.EtcdOperatorTask{rollout(0, v1alpha1.ReasonHeld), snapshot}, "r", "", ""},
		"a snapshot runs beside a stalled rollout":            {[]*v1alpha1.EtcdOperatorTask{rollout(0, v1alpha1.ReasonStalled), maintenance, snapshot, copying}, "r", "snapshot", ""},
		"but no task that stops members":                      {[]*v1alpha1.EtcdOperatorTask{rollout(0, v1alpha1.ReasonStalled), maintenance}, "r", "", ""},
		"nor a suspended task":                                {[]*v1alpha1.EtcdOperatorTask{rollout(0, v1alpha1.ReasonStalled), suspended(newTask("s", 5, "1"))}, "r", "", ""},
		"a task beside a rollout continues":                   {[]*v1alpha1.EtcdOperatorTask{rollout(0, v1alpha1.ReasonRunning), newTask("s", 1, "1"), running(ofType(newTask("c", 6, "1"), v1alpha1.CopyBackups))}, "r", "c", ""},
		"even if it is older than the rollout":                {[]*v1alpha1.EtcdOperatorTask{running(newTask("s", 0, "1")), rollout(1, v1alpha1.ReasonRunning)}, "r", "s", ""},
		"nothing runs beside maintenance":                     {[]*v1alpha1.EtcdOperatorTask{running(ofType(newTask("m", 0, "1"), v1alpha1.OnDemandMaintenance)), running(newTask("s", 1, "1"))}, "m", "", "s"},
		"nor beside a rollout that has not begun":             {[]*v1alpha1.EtcdOperatorTask{pending, newTask("s", 1, "1")}, "r", "", ""},
		"but beside one that waits for other Etcds":           {[]*v1alpha1.EtcdOperatorTask{waits, maintenance, newTask("s", 1, "1")}, "r", "s", ""},
		"where no suspended task does":                        {[]*v1alpha1.EtcdOperatorTask{waits, suspended(newTask("s", 1, "1"))}, "r", "", ""},
		"beside defragmentations that wait, too":              {[]*v1alpha1.EtcdOperatorTask{ofType(admission(metav1.ConditionFalse, v1alpha1.TaskStatePending), v1alpha1.OnDemandMaintenance), newTask("s", 1, "1")}, "r", "s", ""},
		"one that has waited runs alone":                      {[]*v1alpha1.EtcdOperatorTask{admission(metav1.ConditionFalse, v1alpha1.TaskStateInProgress), newTask("s", 1, "1")}, "r", "", ""},
		"a snapshot runs beside a rollout that is suspended":  {[]*v1alpha1.EtcdOperatorTask{suspended(rollout(0, v1alpha1.ReasonSuspended)), snapshot}, "r", "snapshot", ""},
		"but not beside a recreation, which may hold at zero": {[]*v1alpha1.EtcdOperatorTask{stopped, snapshot, copying}, "r", "", ""},
		"one that may start does, too":                        {[]*v1alpha1.EtcdOperatorTask{admission(metav1.ConditionTrue, v1alpha1.TaskStatePending), newTask("s", 1, "1")}, "r", "", ""},
		"and what runs beside it is waited for":               {[]*v1alpha1.EtcdOperatorTask{waits, running(newTask("s", 1, "1"))}, "s", "", ""},
		"a change of members that began beside maintenance goes first": {[]*v1alpha1.EtcdOperatorTask{
			running(ofType(newTask("m", 0, "1"), v1alpha1.OnDemandMaintenance)), running(ofType(newTask("c", 1, "1"), v1alpha1.MembershipChange)),
		}, "c", "", "m"},
		"and so does a rollout": {[]*v1alpha1.EtcdOperatorTask{
			running(ofType(newTask("m", 0, "1"), v1alpha1.OnDemandMaintenance)), running(ofType(newTask("c", 1, "1"), v1alpha1.QuorumAwareRollout)),
		}, "c", "", "m"},
		"and one that began beside a recreation which waits for it": {[]*v1alpha1.EtcdOperatorTask{
			running(ofType(newTask("r", 0, "1"), v1alpha1.RecreateRollout)), running(ofType(newTask("c", 1, "1"), v1alpha1.MembershipChange)),
		}, "c", "", "r"},
		"a recovery preempts both": {[]*v1alpha1.EtcdOperatorTask{rollout(0, v1alpha1.ReasonStalled), running(newTask("s", 1, "1")), recovery("rec", 9)}, "rec", "", "r s"},
	} {
		t.Run(name, func(t *testing.T) {
			q := New(c.tasks)
			beside := ""
			if b := q.Beside(); b != nil {
				beside = b.Name
			}
			if q.Head().Name != c.head || beside != c.beside || names(q.Preempted()) != c.preempted {
				t.Errorf("the head is %s, beside it %q, preempted %q; want %s, %q, %q", q.Head().Name, beside, names(q.Preempted()), c.head, c.beside, c.preempted)
			}
		})
	}
}

func TestPlaceInLine(t *testing.T) {
	q := New([]*v1alpha1.EtcdOperatorTask{
		newTask("a", 0, "1"), suspended(newTask("b", 1, "2")), newTask("c", 2, "3"), inState(newTask("d", 3, "4"), v1alpha1.TaskStateInProgress), newTask("e", 4, "5"),
	})
	for i, want := range []int{1, 2, 2, 0, 3} {
		if got := q.Behind(q[i]); got != want {
			t.Errorf("%d tasks come before %s, want %d", got, q[i].Name, want)
		}
	}
}

func TestEarlier(t *testing.T) {
	other := newTask("other", 1, "2")
	other.Spec.Type = v1alpha1.CopyBackups
	q := New([]*v1alpha1.EtcdOperatorTask{newTask("a", 0, "1"), other, suspended(newTask("b", 2, "3")), newTask("c", 3, "4"), newTask("d", 4, "5")})
	if got := names(q.Earlier(q[3])); got != "a" {
		t.Errorf("earlier than c: %q", got)
	}
}

// A rollout and a change of members run beside each other while one of them is blocked, since it may be the other that it waits for.
func TestBesideAChangeOfMembers(t *testing.T) {
	pending := func(of v1alpha1.TaskType) *v1alpha1.EtcdOperatorTask { return ofType(newTask("b", 9, "9"), of) }
	members := func(reason string) *v1alpha1.EtcdOperatorTask {
		m := ofType(rollout(0, reason), v1alpha1.MembershipChange)
		m.Status.Membership = &v1alpha1.MembershipStatus{}
		return m
	}
	blocked := func(of *v1alpha1.EtcdOperatorTask) *v1alpha1.EtcdOperatorTask {
		if of.Status.Membership != nil {
			of.Status.Membership.HeldBy = &v1alpha1.Hold{}
		} else {
			of.Status.Rollout = &v1alpha1.RolloutStatus{HeldBy: &v1alpha1.Hold{}}
		}
		return of
	}
	recreation := func(phase v1alpha1.RecreatePhase) *v1alpha1.EtcdOperatorTask {
		r := ofType(rollout(0, ""), v1alpha1.RecreateRollout)
		r.Status.Rollout = &v1alpha1.RolloutStatus{Phase: phase}
		return r
	}
	stalling := func(t *v1alpha1.EtcdOperatorTask) *v1alpha1.EtcdOperatorTask {
		t.Status.Conditions = rollout(0, v1alpha1.ReasonStalled).Status.Conditions
		return t
	}
	resting := func(t *v1alpha1.EtcdOperatorTask) *v1alpha1.EtcdOperatorTask {
		t.Status.Conditions = rollout(0, v1alpha1.ReasonSuspended).Status.Conditions
		return suspended(t)
	}
	resumed := resting(rollout(0, ""))
	resumed.Spec.Suspend = false
	recovery := ofType(rollout(0, ""), v1alpha1.QuorumLossRecovery)
	waiting := inState(rollout(0, ""), v1alpha1.TaskStatePending)
	unanswered := blocked(members(""))
	unanswered.Status.Membership.HeldBy.Guard = v1alpha1.GuardChangeObserved
	waiting.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionFalse}}
	for name, c := range map[string]struct {
		head, other *v1alpha1.EtcdOperatorTask
		beside      bool
	}{
		"a rollout that progresses":                              {rollout(0, ""), pending(v1alpha1.MembershipChange), false},
		"a rollout that is blocked":                              {blocked(rollout(0, "")), pending(v1alpha1.MembershipChange), true},
		"a rollout that is stalled":                              {rollout(0, v1alpha1.ReasonStalled), pending(v1alpha1.MembershipChange), true},
		"a rollout that is blocked, suspended":                   {blocked(rollout(0, "")), suspended(pending(v1alpha1.MembershipChange)), false},
		"once it runs":                                           {rollout(0, ""), inState(pending(v1alpha1.MembershipChange), v1alpha1.TaskStateInProgress), true},
		"a change that progresses":                               {members(""), pending(v1alpha1.QuorumAwareRollout), false},
		"a change that is blocked":                               {blocked(members("")), pending(v1alpha1.QuorumAwareRollout), true},
		"a change whose request may still take effect":           {unanswered, pending(v1alpha1.QuorumAwareRollout), false},
		"a snapshot beside a change that is blocked":             {blocked(members("")), pending(v1alpha1.OnDemandSnapshot), false},
		"a snapshot beside a change that is stalled":             {members(v1alpha1.ReasonStalled), pending(v1alpha1.OnDemandSnapshot), true},
		"a recreation beside a change that is stalled":           {members(v1alpha1.ReasonStalled), pending(v1alpha1.RecreateRollout), false},
		"maintenance beside a change that is blocked":            {blocked(members(v1alpha1.ReasonStalled)), pending(v1alpha1.OnDemandMaintenance), false},
		"a change beside a recreation that stops all":            {recreation(v1alpha1.RecreateNeedsDeletion), pending(v1alpha1.MembershipChange), false},
		"a change beside a recreation that waits for it":         {recreation(""), pending(v1alpha1.MembershipChange), true},
		"a change beside a recreation whose pods start":          {recreation(v1alpha1.RecreateReadyForCreation), pending(v1alpha1.MembershipChange), false},
		"a change beside one of which a member stays away":       {stalling(recreation(v1alpha1.RecreateReadyForCreation)), pending(v1alpha1.MembershipChange), true},
		"a change beside one that does not come to stop all":     {stalling(recreation(v1alpha1.RecreateNeedsDeletion)), pending(v1alpha1.MembershipChange), false},
		"a rollout beside a recreation that waits":               {recreation(""), pending(v1alpha1.QuorumAwareRollout), false},
		"a snapshot beside a recreation that waits":              {recreation(""), pending(v1alpha1.OnDemandSnapshot), false},
		"a change beside a recovery":                             {recovery, pending(v1alpha1.MembershipChange), false},
		"a change beside maintenance that waits for other Etcds": {ofType(waiting, v1alpha1.OnDemandMaintenance), pending(v1alpha1.MembershipChange), true},
		"maintenance beside a change that waits":                 {ofType(waiting.DeepCopy(), v1alpha1.MembershipChange), pending(v1alpha1.OnDemandMaintenance), false},
		"a change beside maintenance that waits for a member":    {ofType(rollout(0, v1alpha1.ReasonHeld), v1alpha1.OnDemandMaintenance), pending(v1alpha1.MembershipChange), true},
		"a change beside maintenance that progresses":            {ofType(rollout(0, v1alpha1.ReasonRunning), v1alpha1.OnDemandMaintenance), pending(v1alpha1.MembershipChange), false},
		"a rollout beside maintenance that waits for a member":   {ofType(rollout(0, v1alpha1.ReasonHeld), v1alpha1.OnDemandMaintenance), pending(v1alpha1.QuorumAwareRollout), true},
		"a rollout beside maintenance that progresses":           {ofType(rollout(0, v1alpha1.ReasonRunning), v1alpha1.OnDemandMaintenance), pending(v1alpha1.QuorumAwareRollout), false},
		"a recreation beside maintenance that waits":             {ofType(rollout(0, v1alpha1.ReasonHeld), v1alpha1.OnDemandMaintenance), pending(v1alpha1.RecreateRollout), false},
		"a rollout beside maintenance that waits for others":     {ofType(waiting.DeepCopy(), v1alpha1.OnDemandMaintenance), pending(v1alpha1.QuorumAwareRollout), false},
		"a snapshot beside a rollout that pauses":                {rollout(0, v1alpha1.ReasonWaitingForWindow), pending(v1alpha1.OnDemandSnapshot), true},
		"a change beside a rollout that pauses":                  {rollout(0, v1alpha1.ReasonWaitingForWindow), pending(v1alpha1.MembershipChange), false},
		"maintenance beside a rollout that pauses":               {rollout(0, v1alpha1.ReasonWaitingForWindow), pending(v1alpha1.OnDemandMaintenance), false},
		"a change beside a rollout that is suspended":            {resting(rollout(0, "")), pending(v1alpha1.MembershipChange), true},
		"and was blocked before":                                 {resting(blocked(rollout(0, ""))), pending(v1alpha1.MembershipChange), true},
		"a change beside a rollout that is about to be":          {suspended(rollout(0, "")), pending(v1alpha1.MembershipChange), false},
		"a change beside a rollout that was resumed":             {resumed, pending(v1alpha1.MembershipChange), false},
		"a change beside a recreation that is suspended":         {resting(recreation(v1alpha1.RecreateNeedsDeletion)), pending(v1alpha1.MembershipChange), false},
		"a snapshot beside a rollout that is suspended":          {resting(rollout(0, "")), pending(v1alpha1.OnDemandSnapshot), true},
		"and was blocked":                                        {resting(blocked(rollout(0, ""))), pending(v1alpha1.OnDemandSnapshot), true},
		"a snapshot beside a change that is suspended":           {resting(members("")), pending(v1alpha1.OnDemandSnapshot), true},
		"and whose request may still take effect":                {resting(unanswered.DeepCopy()), pending(v1alpha1.OnDemandSnapshot), true},
		"a rollout beside a change that is suspended":            {resting(members("")), pending(v1alpha1.QuorumAwareRollout), false},
		"a rollout beside one whose request may take effect":     {resting(unanswered.DeepCopy()), pending(v1alpha1.QuorumAwareRollout), false},
		"maintenance beside a rollout that is suspended":         {resting(rollout(0, "")), pending(v1alpha1.OnDemandMaintenance), false},
		"a snapshot beside a recovery that is suspended":         {resting(recovery.DeepCopy()), pending(v1alpha1.OnDemandSnapshot), false},
		"another change":                                         {blocked(members("")), pending(v1alpha1.MembershipChange), false},
	} {
		q := New([]*v1alpha1.EtcdOperatorTask{c.head, c.other})
		if q.Head() != c.head || (q.Beside() == c.other) != c.beside {
			t.Errorf("%s: %v", name, q.Beside())
		}
	}
}
