// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package memberships

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/members"
	"github.com/etcd-foreman/etcd-foreman/internal/membership"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func etcd(changes ...func(*v1alpha1.Etcd)) *v1alpha1.Etcd {
	e := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}, Spec: v1alpha1.EtcdSpec{Replicas: 3}}
	e.Status.ClusterID, e.Status.ClusterSize = "cafe", 3
	for _, of := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionScaled, v1alpha1.ConditionAllMembersReady} {
		e.Status.Conditions.Set(metav1.Condition{Type: of, Status: metav1.ConditionTrue})
	}
	for _, c := range changes {
		c(e)
	}
	return e
}

func not(condition string) func(*v1alpha1.Etcd) {
	return func(e *v1alpha1.Etcd) {
		e.Status.Conditions.Set(metav1.Condition{Type: condition, Status: metav1.ConditionFalse})
	}
}

// surges makes it a cluster of one member that is replaced by way of a second one.
func surges(e *v1alpha1.Etcd) {
	e.Spec.Replicas, e.Spec.SurgePolicy, e.Status.ClusterSize = 1, v1alpha1.SurgeSingleMember, 1
}

// moves has its volumes move to another StorageClass.
func moves(e *v1alpha1.Etcd) {
	e.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionVolumesMoved, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonVolumesMoving})
}

func suspendSpec(e *v1alpha1.Etcd) {
	metav1.SetMetaDataAnnotation(&e.ObjectMeta, v1alpha1.AnnotationSuspendSpecReconcile, "")
}

// relieving is a rollout that waits until another member has taken over.
func relieving(changes ...func(*v1alpha1.EtcdOperatorTask)) []v1alpha1.EtcdOperatorTask {
	t := v1alpha1.EtcdOperatorTask{Spec: v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.QuorumAwareRollout}}
	t.Status = v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStateInProgress, Rollout: &v1alpha1.RolloutStatus{Relieve: "pod"}}
	for _, c := range changes {
		c(&t)
	}
	return []v1alpha1.EtcdOperatorTask{t}
}

// Members of a healthy cluster are not asked.
func TestMayBeDue(t *testing.T) {
	for name, c := range map[string]struct {
		etcd  *v1alpha1.Etcd
		want  bool
		tasks []v1alpha1.EtcdOperatorTask
	}{
		"healthy":          {etcd(), false, nil},
		"another size":     {etcd(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 5 }), true, nil},
		"not scaled":       {etcd(not(v1alpha1.ConditionScaled)), true, nil},
		"a member is away": {etcd(not(v1alpha1.ConditionAllMembersReady)), true, nil},
		"no quorum":        {etcd(not(v1alpha1.ConditionAllMembersReady), not(v1alpha1.ConditionReady)), false, nil},
		"hibernates":       {etcd(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 }), false, nil},
		"leaves a source cluster": {etcd(func(e *v1alpha1.Etcd) {
			e.Spec.Replicas, e.Spec.Etcd.BootstrapWithExistingCluster = 0, &v1alpha1.BootstrapWithExistingCluster{}
		}), true, nil},
		"the sources leave": {etcd(func(e *v1alpha1.Etcd) {
			e.Status.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingClusterStatus{Source: &v1alpha1.BootstrapWithExistingCluster{}}
		}), true, nil},
		"the sources have left": {etcd(func(e *v1alpha1.Etcd) {
			e.Status.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingClusterStatus{}
		}), false, nil},
		"volumes move":     {etcd(moves), true, nil},
		"has never served": {etcd(func(e *v1alpha1.Etcd) { e.Status.ClusterID, e.Status.ClusterSize = "", 0 }), false, nil},
		"suspended": {etcd(func(e *v1alpha1.Etcd) {
			e.Spec.Replicas = 5
			metav1.SetMetaDataAnnotation(&e.ObjectMeta, v1alpha1.AnnotationSuspendSpecReconcile, "")
		}), false, nil},
		"suspended, and a member is away": {etcd(not(v1alpha1.ConditionAllMembersReady), func(e *v1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&e.ObjectMeta, v1alpha1.AnnotationSuspendSpecReconcile, "")
		}), true, nil},
		"a rollout needs relief":          {etcd(surges), true, relieving()},
		"a rollout is suspended":          {etcd(surges), false, relieving(func(t *v1alpha1.EtcdOperatorTask) { t.Spec.Suspend = true })},
		"a rollout has ended":             {etcd(surges), false, relieving(func(t *v1alpha1.EtcdOperatorTask) { t.Status.State = v1alpha1.TaskStateSucceeded })},
		"the spec is suspended":           {etcd(surges, suspendSpec), false, relieving()},
		"half-way, the spec is suspended": {etcd(surges, suspendSpec, func(e *v1alpha1.Etcd) { e.Status.ClusterSize = 2 }), true, relieving()},
		"the Etcd surges no more":         {etcd(surges, func(e *v1alpha1.Etcd) { e.Spec.SurgePolicy = v1alpha1.SurgeNever }), false, relieving()},
		"is being deleted":                {etcd(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 5; e.DeletionTimestamp = &metav1.Time{} }), false, nil},
	} {
		if got := mayBeDue(c.etcd, c.tasks, false, false); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A node that is cordoned matters to the only member of a cluster that asks for that, and while there is a quorum.
func TestMayBeDueOnADrain(t *testing.T) {
	drains := func(e *v1alpha1.Etcd) { surges(e); e.Spec.SurgePolicy = v1alpha1.SurgeSingleMemberAndDrains }
	for name, c := range map[string]struct {
		etcd *v1alpha1.Etcd
		want bool
	}{
		"surges on a drain":     {etcd(drains), true},
		"surges for rollouts":   {etcd(surges), false},
		"has three members":     {etcd(func(e *v1alpha1.Etcd) { e.Spec.SurgePolicy = v1alpha1.SurgeSingleMemberAndDrains }), false},
		"has no quorum":         {etcd(drains, not(v1alpha1.ConditionReady)), false},
		"the spec is suspended": {etcd(drains, suspendSpec), false},
		"it is being deleted":   {etcd(drains, func(e *v1alpha1.Etcd) { e.DeletionTimestamp = &metav1.Time{} }), false},
	} {
		if got := mayBeDue(c.etcd, nil, true, false); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if mayBeDue(etcd(drains), nil, false, false) {
		t.Error("the node takes pods")
	}
}

// A claim that was made for a further member is deleted also if the Etcd was created again since, and asks for nothing.
func TestMayBeDueOfAClaimThatIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		etcd *v1alpha1.Etcd
		want bool
	}{
		"healthy":               {etcd(), true},
		"has no quorum":         {etcd(not(v1alpha1.ConditionReady)), false},
		"hibernates":            {etcd(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 }), false},
		"has never served":      {etcd(func(e *v1alpha1.Etcd) { e.Status.ClusterID = "" }), false},
		"the spec is suspended": {etcd(suspendSpec), false},
		"it is being deleted":   {etcd(func(e *v1alpha1.Etcd) { e.DeletionTimestamp = &metav1.Time{} }), false},
	} {
		if got := mayBeDue(c.etcd, nil, false, true); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A pending template change comes before a change of an odd size, and not before the replacement of a member that lost its data, for
// which it waits.
func TestIsDue(t *testing.T) {
	voters := func(n int, changes ...func(*membership.Member)) (all []membership.Member) {
		for i := range n {
			all = append(all, membership.Member{Owner: membership.Ours, Ordinal: i})
		}
		for _, c := range changes {
			c(&all[n-1])
		}
		return all
	}
	recreation := func(state v1alpha1.TaskState, phase v1alpha1.RecreatePhase) []v1alpha1.EtcdOperatorTask {
		t := v1alpha1.EtcdOperatorTask{Spec: v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.RecreateRollout}}
		t.Status.State, t.Status.Rollout = state, &v1alpha1.RolloutStatus{Phase: phase}
		return []v1alpha1.EtcdOperatorTask{t}
	}
	suspended := recreation(v1alpha1.TaskStateInProgress, "")
	suspended[0].Spec.Suspend = true
	rollout := func(state v1alpha1.TaskState, change func(*v1alpha1.RolloutStatus)) []v1alpha1.EtcdOperatorTask {
		t := v1alpha1.EtcdOperatorTask{Spec: v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.QuorumAwareRollout}}
		t.Status.State, t.Status.Rollout = state, &v1alpha1.RolloutStatus{}
		change(t.Status.Rollout)
		return []v1alpha1.EtcdOperatorTask{t}
	}
	held := func(by v1alpha1.GuardName) func(*v1alpha1.RolloutStatus) {
		return func(r *v1alpha1.RolloutStatus) { r.HeldBy = &v1alpha1.Hold{Guard: by} }
	}
	relieves := func(r *v1alpha1.RolloutStatus) { r.Relieve = "uid" }
	step := membership.Decision{Step: &membership.Step{}}
	further := membership.Decision{Step: &membership.Step{Action: membership.ScaleUp, Ordinal: 3}}
	for name, c := range map[string]struct {
		members  []membership.Member
		size     int
		decision membership.Decision
		outdated int
		want     bool
		tasks    []v1alpha1.EtcdOperatorTask
	}{
		"nothing to do":                        {voters(3), 3, membership.Decision{}, 0, false, nil},
		"blocked before a step":                {voters(3), 5, membership.Decision{Conclusion: membership.Wait}, 0, false, nil},
		"grows":                                {voters(3), 5, step, 0, true, nil},
		"a rollout is due":                     {voters(3), 5, step, 2, false, nil},
		"an even size":                         {voters(4), 5, step, 2, true, nil},
		"a member is lost":                     {voters(3, func(m *membership.Member) { m.Lost = true }), 5, step, 2, true, nil},
		"a learner waits":                      {voters(4, func(m *membership.Member) { m.Learner = true }), 5, step, 2, true, nil},
		"a recreation waits for the size":      {voters(3), 5, step, 3, true, recreation(v1alpha1.TaskStateInProgress, "")},
		"a recreation is queued":               {voters(3), 5, step, 3, false, recreation(v1alpha1.TaskStatePending, "")},
		"a recreation stops the members":       {voters(3), 5, step, 3, false, recreation(v1alpha1.TaskStateInProgress, v1alpha1.RecreateNeedsDeletion)},
		"the size is right":                    {voters(3), 3, step, 2, true, nil},
		"volumes move":                         {voters(3), 3, further, 0, true, nil},
		"volumes move, and a rollout is due":   {voters(3), 3, further, 3, false, nil},
		"so it is with a pod that is there":    {voters(3), 3, membership.Decision{Step: &membership.Step{Action: membership.AddLearner, Ordinal: 3}}, 3, false, nil},
		"a further pod goes":                   {voters(3), 3, membership.Decision{Step: &membership.Step{Action: membership.ScaleDown, Ordinal: 3}}, 3, true, nil},
		"a pod of a member is missing":         {voters(3), 3, membership.Decision{Step: &membership.Step{Action: membership.ScaleUp, Ordinal: 2}}, 3, true, nil},
		"the rollout is queued":                {voters(3), 3, further, 3, false, rollout(v1alpha1.TaskStatePending, held(v1alpha1.GuardVolumeReachable))},
		"the rollout waits for another volume": {voters(3), 3, further, 3, true, rollout(v1alpha1.TaskStateInProgress, held(v1alpha1.GuardVolumeReachable))},
		"the rollout waits for the pod that is there": {voters(3), 3, membership.Decision{Step: &membership.Step{Action: membership.AddLearner, Ordinal: 3}}, 3, true, rollout(v1alpha1.TaskStateInProgress, func(r *v1alpha1.RolloutStatus) {
			r.HeldBy = &v1alpha1.Hold{Guard: v1alpha1.GuardOthersParticipating, Pod: "main-3"}
		})},
		"the rollout waits for a pod that is there, and the size is to change": {voters(1), 3, membership.Decision{Step: &membership.Step{Action: membership.ScaleUp, Ordinal: 2}}, 1, true, rollout(v1alpha1.TaskStateInProgress, func(r *v1alpha1.RolloutStatus) {
			r.HeldBy = &v1alpha1.Hold{Guard: v1alpha1.GuardOthersParticipating, Pod: "main-1"}
			r.BlockedBy = []v1alpha1.BlockedBy{{Guard: v1alpha1.GuardOthersParticipating, Pod: "main-1"}, {Guard: v1alpha1.GuardVersionsCompatible, Pod: "main-1"}}
		})},
		"the rollout waits for a pod that is there, and for the version of another one": {voters(1), 3, membership.Decision{Step: &membership.Step{Action: membership.AddLearner, Ordinal: 1}}, 1, true, rollout(v1alpha1.TaskStateInProgress, func(r *v1alpha1.RolloutStatus) {
			r.HeldBy = &v1alpha1.Hold{Guard: v1alpha1.GuardOthersParticipating, Pod: "main-1"}
			r.BlockedBy = []v1alpha1.BlockedBy{{Guard: v1alpha1.GuardOthersParticipating, Pod: "main-1"}, {Guard: v1alpha1.GuardVersionsCompatible, Pod: "main-2"}}
		})},
		"the rollout waits for the version of a pod that is there": {voters(1), 3, membership.Decision{Step: &membership.Step{Action: membership.AddLearner, Ordinal: 1}}, 2, true, rollout(v1alpha1.TaskStateInProgress, func(r *v1alpha1.RolloutStatus) {
			r.HeldBy = &v1alpha1.Hold{Guard: v1alpha1.GuardVersionsCompatible, Pod: "main-2"}
			r.BlockedBy = []v1alpha1.BlockedBy{{Guard: v1alpha1.GuardVersionsCompatible, Pod: "main-2"}}
		})},
		"the rollout waits for the version of a member": {voters(3), 5, membership.Decision{Step: &membership.Step{Action: membership.AddLearner, Ordinal: 3}}, 2, false, rollout(v1alpha1.TaskStateInProgress, func(r *v1alpha1.RolloutStatus) {
			r.HeldBy = &v1alpha1.Hold{Guard: v1alpha1.GuardVersionsCompatible, Pod: "main-2"}
			r.BlockedBy = []v1alpha1.BlockedBy{{Guard: v1alpha1.GuardVersionsCompatible, Pod: "main-2"}}
		})},
		"the rollout waits until the pod that is there serves": {voters(1), 3, membership.Decision{Step: &membership.Step{Action: membership.ScaleUp, Ordinal: 2}}, 1, true, rollout(v1alpha1.TaskStateInProgress, func(r *v1alpha1.RolloutStatus) {
			r.HeldBy = &v1alpha1.Hold{Guard: v1alpha1.GuardOthersServing, Pod: "main-1"}
		})},
		"the rollout waits for a pod that is there, and refuses its version": {voters(1), 3, membership.Decision{Step: &membership.Step{Action: membership.ScaleUp, Ordinal: 2}}, 1, false, rollout(v1alpha1.TaskStateInProgress, func(r *v1alpha1.RolloutStatus) {
			r.HeldBy = &v1alpha1.Hold{Guard: v1alpha1.GuardOthersParticipating, Pod: "main-1"}
			r.BlockedBy = []v1alpha1.BlockedBy{{Guard: v1alpha1.GuardVersionsCompatible, Pod: "main-0"}}
		})},
		"the rollout waits for another pod": {voters(3), 3, further, 3, false, rollout(v1alpha1.TaskStateInProgress, func(r *v1alpha1.RolloutStatus) {
			r.HeldBy = &v1alpha1.Hold{Guard: v1alpha1.GuardOthersParticipating, Pod: "main-2"}
		})},
		"the rollout refuses the version as well": {voters(3), 3, further, 3, false, rollout(v1alpha1.TaskStateInProgress, func(r *v1alpha1.RolloutStatus) {
			held(v1alpha1.GuardVolumeReachable)(r)
			r.BlockedBy = []v1alpha1.BlockedBy{{Guard: v1alpha1.GuardVolumeReachable}, {Guard: v1alpha1.GuardVersionsCompatible}}
		})},
		"before its snapshot": {voters(3), 3, further, 3, false, rollout(v1alpha1.TaskStateInProgress, func(r *v1alpha1.RolloutStatus) {
			held(v1alpha1.GuardVolumeReachable)(r)
			r.BlockedBy = []v1alpha1.BlockedBy{{Guard: v1alpha1.GuardSnapshotTaken}}
		})},
		"a recreation waits for volumes to move":  {voters(3), 3, further, 3, true, recreation(v1alpha1.TaskStateInProgress, "")},
		"that recreation is queued":               {voters(3), 3, further, 3, false, recreation(v1alpha1.TaskStatePending, "")},
		"it stops the members":                    {voters(3), 3, further, 3, false, recreation(v1alpha1.TaskStateInProgress, v1alpha1.RecreateNeedsDeletion)},
		"it is suspended":                         {voters(3), 3, further, 3, false, suspended},
		"the rollout refuses the version":         {voters(3), 3, further, 3, false, rollout(v1alpha1.TaskStateInProgress, held(v1alpha1.GuardVersionsCompatible))},
		"the rollout goes on":                     {voters(3), 3, further, 3, false, rollout(v1alpha1.TaskStateInProgress, func(*v1alpha1.RolloutStatus) {})},
		"the rollout waits for a second member":   {voters(1), 1, membership.Decision{Step: &membership.Step{Action: membership.ScaleUp, Ordinal: 1}}, 1, true, rollout(v1alpha1.TaskStateInProgress, relieves)},
		"a node is drained, and a rollout is due": {voters(1), 1, membership.Decision{Step: &membership.Step{Action: membership.ScaleUp, Ordinal: 1}}, 1, false, nil},
	} {
		if got := isDue(membership.Input{Members: c.members, Goal: membership.Goal{Size: c.size}}, c.decision, c.outdated, c.tasks); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestNext(t *testing.T) {
	g := NewWithT(t)
	now := time.Unix(1000, 0)
	task, wait := next(etcd(), nil, now)
	g.Expect(wait).To(BeZero())
	g.Expect(task.Name).To(MatchRegexp(`^main-members-3-[a-z0-9]+-1$`))
	g.Expect(task.Spec.Config).To(Equal("size: 3\n"))
	g.Expect(task.Spec.Suspend).To(BeFalse())
	g.Expect(covered([]v1alpha1.EtcdOperatorTask{*task})).To(BeTrue())

	task.Status.State, task.Status.CompletedAt = v1alpha1.TaskStateFailed, &metav1.Time{Time: now}
	g.Expect(covered([]v1alpha1.EtcdOperatorTask{*task})).To(BeFalse())
	second, wait := next(etcd(), []v1alpha1.EtcdOperatorTask{*task}, now)
	g.Expect(wait).To(Equal(10 * time.Second))
	g.Expect(second.Name).To(HaveSuffix("-2"))

	// One that was suspended and superseded is followed by one that is suspended.
	task.Spec.Suspend, task.Status.State = true, v1alpha1.TaskStateRejected
	task.Status.LastErrors = []v1alpha1.LastError{{Code: v1alpha1.ErrSuperseded}}
	third, wait := next(etcd(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 5 }), []v1alpha1.EtcdOperatorTask{*task}, now)
	g.Expect(wait).To(BeZero())
	g.Expect(third.Spec.Suspend).To(BeTrue())
	g.Expect(third.Name).To(HavePrefix("main-members-5-"))
}

// Two of three members are lost for good, a recovery rebuilds the first alone, and the spec asks for one: a task takes the other pods away, whose
// members never join.
func TestARecoveredClusterShrinksWithoutTheOthers(t *testing.T) {
	g := NewWithT(t)
	e := etcd(not(v1alpha1.ConditionScaled), func(e *v1alpha1.Etcd) {
		e.Spec.Replicas, e.Status.Recovery = 1, &v1alpha1.ClusterRecovery{Task: "gone", TaskUID: "gone", Member: "main-0"}
	})
	k := members.Known{Etcd: e, Snapshot: clustertest.Healthy(3), List: []etcdclient.Member{{ID: 1, Name: "main-0"}}}
	k.Snapshot.StatefulSet.Observed, k.Snapshot.Cluster.Leader = true, 1
	k.Snapshot.Cluster.Voters = []cluster.Voter{{ID: 1, Name: "main-0", Serving: true}}
	for i := range k.Snapshot.Ordinals {
		o := &k.Snapshot.Ordinals[i]
		o.Name, o.Member = e.PodName(int32(i)), e.PodName(int32(i))
		if i > 0 {
			*o = cluster.Ordinal{Name: o.Name, Member: o.Member, Class: v1alpha1.ClassDead, Pod: &cluster.Pod{UID: o.Pod.UID}}
		}
	}
	decide := func() (membership.Input, membership.Decision) {
		in := k.Input(members.Request{Goal: members.Goal(e, 0, false), Acting: members.Acting(e, k.Snapshot, nil)})
		return in, membership.Decide(in)
	}
	g.Expect(mayBeDue(e, nil, false, false)).To(BeTrue())
	for _, pod := range []int{2, 1} {
		in, d := decide()
		g.Expect(isDue(in, d, 0, nil)).To(BeTrue(), "%+v", d)
		g.Expect(d.Step).To(HaveValue(And(HaveField("Action", membership.ScaleDown), HaveField("Ordinal", pod))))
		k.Snapshot.Ordinals = k.Snapshot.Ordinals[:pod]
	}
	_, d := decide()
	g.Expect(d.Conclusion).To(Equal(membership.Finished))
}
