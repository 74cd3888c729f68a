// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"slices"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/firststart"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/hibernation"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// learn turns a member into a learner.
func learn(s *cluster.Snapshot, ordinal int) {
	s.Ordinals[ordinal].Role, s.Ordinals[ordinal].Class = v1alpha1.RoleLearner, v1alpha1.ClassUnready
	s.Cluster.Voters = slices.DeleteFunc(s.Cluster.Voters, func(v cluster.Voter) bool { return v.Ordinal == ordinal })
}

func TestDecide(t *testing.T) {
	held := func(guard v1alpha1.GuardName) *v1alpha1.Hold { return &v1alpha1.Hold{Guard: guard, Message: "because"} }
	for _, tc := range []struct {
		name   string
		in     input
		want   int32
		reason string
		why    string // part of it
	}{
		{"first start", input{wanted: 3}, 3, "", ""},
		{"unchanged", input{wanted: 3, have: ptr.To[int32](3), size: 3}, 3, "", ""},
		{"hibernate", input{wanted: 0, have: ptr.To[int32](3), size: 3}, 0, "", ""},
		{"wake up", input{wanted: 3, have: ptr.To[int32](0), size: 3}, 3, "", ""},
		{"wake up, larger", input{wanted: 5, have: ptr.To[int32](0), size: 3}, 3, v1alpha1.ReasonScalingOut, "has 3 members, and the spec asks for 5: they change one at a time"},
		{"wake up, smaller", input{wanted: 1, have: ptr.To[int32](0), size: 3}, 3, v1alpha1.ReasonScalingIn, "has 3 members, and the spec asks for 1"},
		{"the StatefulSet is gone", input{wanted: 5, size: 3}, 3, v1alpha1.ReasonScalingOut, "has 3 members"},
		{"smaller", input{wanted: 1, have: ptr.To[int32](3), size: 3}, 3, v1alpha1.ReasonScalingIn, "has 3 members"},
		{"half-way", input{wanted: 3, have: ptr.To[int32](2), size: 1}, 2, v1alpha1.ReasonScalingOut, "has 2 members"},
		{"scaled down by hand", input{wanted: 3, have: ptr.To[int32](1), size: 3, listed: 3}, 3, v1alpha1.ReasonScalingOut, "the StatefulSet was scaled to 1, and the cluster has 3 members: the operator scales it back"},
		{"scaled down by hand while it is to shrink", input{wanted: 1, have: ptr.To[int32](1), size: 3, listed: 3}, 3, v1alpha1.ReasonScalingOut, "scaled to 1, and the cluster has 3"},
		{"scaled down by hand while it is to hibernate", input{wanted: 0, have: ptr.To[int32](1), size: 3, listed: 3}, 0, "", ""},
		{"scaled down by hand while another member stands in", input{wanted: 1, have: ptr.To[int32](1), size: 2, listed: 2, surges: true}, 2, v1alpha1.ReasonScalingOut, "scaled to 1, and the cluster has 2"},
		{"scaled up by hand", input{wanted: 3, have: ptr.To[int32](4), size: 3, listed: 3}, 4, v1alpha1.ReasonScalingIn, "has 4 members"},
		{"scaled to nothing by hand", input{wanted: 3, have: ptr.To[int32](0), size: 3, listed: 3}, 3, "", ""},
		{"a member has left", input{wanted: 3, have: ptr.To[int32](4), size: 5, listed: 4}, 4, v1alpha1.ReasonScalingIn, "has 4 members"},
		{"larger, and blocked", input{wanted: 5, have: ptr.To[int32](3), size: 3, heldBy: held("OthersServing")}, 3, v1alpha1.ReasonScalingHeld, "asks for 5; OthersServing: because"},
		{"smaller, without consent", input{wanted: 1, have: ptr.To[int32](3), size: 3, heldBy: held("SingleAgreed")}, 3, v1alpha1.ReasonSingleMemberNotAllowed, "annotate the Etcd with druid.gardener.cloud/allow-single-member=true, or set spec.replicas to 3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			got := decide(tc.in)
			g.Expect(got.Replicas).To(Equal(tc.want), got.Why)
			g.Expect(got.Reason).To(Equal(tc.reason))
			g.Expect(got.Why).To(ContainSubstring(tc.why))
			g.Expect(got.Why == "").To(Equal(tc.why == ""), got.Why)
		})
	}
}

// A StatefulSet that someone has scaled down gets back the pods of all members that are listed or, while no quorum says who is, of all that
// the cluster has been seen to have: no task scales it back then. The pod of a member that has left stays away.
func TestScaledByHand(t *testing.T) {
	lost := func(replicas int) *cluster.Snapshot {
		s := clustertest.Healthy(3)
		s.Ordinals, s.Cluster.LeaderKnown = s.Ordinals[:replicas], false
		return s
	}
	lists := func(replicas, voters int) *cluster.Snapshot {
		s := clustertest.Healthy(voters)
		s.Ordinals = s.Ordinals[:replicas]
		return s
	}
	changing := func(replicas *int32) []v1alpha1.EtcdOperatorTask {
		task := v1alpha1.EtcdOperatorTask{Spec: v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.MembershipChange}}
		task.Status.State, task.Status.Membership = v1alpha1.TaskStateInProgress, &v1alpha1.MembershipStatus{Replicas: replicas}
		return []v1alpha1.EtcdOperatorTask{task}
	}
	for name, tc := range map[string]struct {
		seen     int32
		snapshot *cluster.Snapshot
		tasks    []v1alpha1.EtcdOperatorTask
		want     int32
	}{
		"no quorum is left":                          {3, lost(1), nil, 3},
		"nothing was observed":                       {3, nil, nil, 3},
		"a quorum is left":                           {3, lists(2, 3), nil, 3},
		"a quorum is left, and the status is late":   {2, lists(2, 3), nil, 3},
		"while members change":                       {3, lost(1), changing(nil), 3},
		"while members change, and one has left":     {3, lost(1), changing(ptr.To[int32](2)), 2},
		"the last has left, and the status is late":  {3, lists(2, 2), nil, 2},
		"has left, and no quorum says so any more":   {3, lost(2), changing(ptr.To[int32](2)), 2},
		"one is to join, and its pod was taken away": {3, lists(3, 3), changing(ptr.To[int32](5)), 3},
		"it has never served":                        {0, lost(1), nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "etcd-main"}, Spec: v1alpha1.EtcdSpec{Replicas: 3}}
			etcd.Status.ClusterSize = tc.seen
			replicas := int32(1)
			if tc.snapshot != nil {
				replicas = int32(tc.snapshot.Replicas())
			}
			got := size(&state.State{Etcd: etcd, StatefulSet: setOf(replicas), Snapshot: tc.snapshot, Tasks: tc.tasks}, firststart.View{}, hibernation.WakeUp{}, "")
			NewWithT(t).Expect(got.Replicas).To(Equal(tc.want), got.Why)
		})
	}
}

// Where no task changes the members yet, the condition says what comes before.
func TestScaledWhileNoTaskChangesMembers(t *testing.T) {
	recovering := v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Name: "recover"}, Spec: v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.QuorumLossRecovery}}
	recovering.Status.State, recovering.Status.Recovery = v1alpha1.TaskStateInProgress, &v1alpha1.RecoveryStatus{Phase: v1alpha1.RecoveryGrowing, Source: v1alpha1.RecoverFromData}
	for name, c := range map[string]struct {
		wanted   int32
		tasks    []v1alpha1.EtcdOperatorTask
		recorded *v1alpha1.ClusterRecovery
		// told: a MembershipChange that has ended, or was deleted, had announced something in this cluster; empty if none had.
		told string
		why  string
	}{
		"a recovery grows":         {1, []v1alpha1.EtcdOperatorTask{recovering}, &v1alpha1.ClusterRecovery{}, "", "the cluster has 3 members, and the spec asks for 1; NothingElseActs: task recover starts the cluster as a new one: members change after that"},
		"a recovery was deleted":   {5, nil, &v1alpha1.ClusterRecovery{}, "", "the cluster has 3 members, and the spec asks for 5; NothingElseActs: the cluster was recovered or has woken up, and its members join it: members change after that"},
		"enough have joined":       {1, nil, &v1alpha1.ClusterRecovery{}, "", "the cluster has 3 members, and the spec asks for 1: they change one at a time"},
		"a change has announced":   {5, nil, &v1alpha1.ClusterRecovery{}, "cafe", "the cluster has 3 members, and the spec asks for 5: they change one at a time"},
		"one had before":           {5, nil, &v1alpha1.ClusterRecovery{PreviousClusterID: "beef"}, "beef", "the cluster has 3 members, and the spec asks for 5; NothingElseActs: the cluster was recovered or has woken up, and its members join it: members change after that"},
		"nothing acts beside them": {5, nil, nil, "", "the cluster has 3 members, and the spec asks for 5: they change one at a time"},
	} {
		g := NewWithT(t)
		etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "etcd-main", UID: "etcd"}, Spec: v1alpha1.EtcdSpec{Replicas: c.wanted}}
		etcd.Status.ClusterSize, etcd.Status.Recovery, etcd.Status.ClusterID = 3, c.recorded, "cafe"
		s := clustertest.Healthy(3)
		s.Cluster.Voters = s.Cluster.Voters[:1]
		api := apitest.API()
		if c.told != "" {
			text, err := member.Members{Etcd: "etcd", ClusterID: c.told, Generation: 1}.Encode()
			g.Expect(err).NotTo(HaveOccurred())
			config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "etcd-main-config", OwnerReferences: apitest.ControlledBy(etcd), Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}}}
			config.Data = map[string]string{member.KeyMembers: text}
			g.Expect(api.Create(t.Context(), config)).To(Succeed())
		}
		scaler := Scaler{Access: state.Access{Client: api}}
		_, got, err := scaler.Begin(t.Context(), &state.State{Etcd: etcd, StatefulSet: setOf(3), Snapshot: s, Tasks: c.tasks}, firststart.View{}, hibernation.WakeUp{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got.Why).To(Equal(c.why), name)
		g.Expect(got.Reason == v1alpha1.ReasonScalingHeld).To(Equal(strings.Contains(c.why, "NothingElseActs")), name)
	}
}

// A cluster is started with as many members as it may have: those of the StatefulSet, and those that are listed.
func TestClusterSizeShrinksLast(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "etcd-main"}}
	g.Expect(Seen(0, etcd, clustertest.Healthy(3))).To(Equal(int32(3)))
	g.Expect(Seen(5, etcd, clustertest.Healthy(3))).To(Equal(int32(3)), "it has shrunk")
	s := clustertest.Healthy(3)
	learn(s, 1)
	g.Expect(Seen(0, etcd, s)).To(Equal(int32(3)), "member 1 is being replaced")
	learn(s, 2)
	g.Expect(Seen(0, etcd, s)).To(Equal(int32(3)), "the StatefulSet has three")
	s = clustertest.Healthy(3)
	s.Ordinals = s.Ordinals[:1]
	g.Expect(Seen(1, etcd, s)).To(Equal(int32(3)), "someone scaled the StatefulSet down, or the cache is late")
	s.Cluster.Voters = append(s.Cluster.Voters[:1], cluster.Voter{ID: 9, Name: "far", Ordinal: -1})
	g.Expect(Seen(3, etcd, s)).To(Equal(int32(3)), "whose voters there are is not known")
	s.Cluster.Voters[1] = cluster.Voter{ID: 9, Name: "9", Ordinal: -1, PeerURLs: []string{"http://etcd-main-4.etcd-main-peer..svc:2380"}}
	g.Expect(Seen(3, etcd, s)).To(Equal(int32(3)), "one that has not started has its ID for a name")
}

func TestScaled(t *testing.T) {
	seen, operation := int32(3), metav1.Condition{}
	scaledOf := func(wanted int32, s *cluster.Snapshot, size Size) metav1.Condition {
		all := size.Conditions(&v1alpha1.Etcd{Spec: v1alpha1.EtcdSpec{Replicas: wanted}}, seen, s)
		operation = all[1]
		return all[0]
	}
	g := NewWithT(t)
	g.Expect(scaledOf(3, clustertest.Healthy(3), Size{}).Status).To(Equal(metav1.ConditionTrue))
	g.Expect(operation).To(And(HaveField("Type", v1alpha1.ConditionScaleOperationComplete), HaveField("Status", metav1.ConditionTrue), HaveField("Reason", v1alpha1.ReasonNoScaleOperation)))
	c := scaledOf(3, clustertest.Healthy(1), Size{2, v1alpha1.ReasonScalingOut, "1 of 3", v1alpha1.ReasonScalingOut})
	g.Expect(c.Message).To(Equal("1 of 3."))
	g.Expect(operation).To(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonScalingOut), HaveField("Message", "1 of 3.")))
	g.Expect(scaledOf(1, clustertest.Healthy(3), Size{}).Reason).To(Equal(v1alpha1.ReasonScalingIn))
	g.Expect(operation.Reason).To(Equal(v1alpha1.ReasonScalingIn))
	scaledOf(1, clustertest.Healthy(3), Size{3, v1alpha1.ReasonSingleMemberNotAllowed, "why", v1alpha1.ReasonScalingIn})
	g.Expect(operation).To(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonScalingIn)), "its reasons are etcd-druid's")
	scaledOf(1, clustertest.Healthy(2), Size{2, v1alpha1.ReasonSurging, "why", ""})
	g.Expect(operation.Status).To(Equal(metav1.ConditionTrue), "a surge changes no size")
	s := clustertest.Healthy(3)
	learn(s, 2)
	g.Expect(scaledOf(3, s, Size{}).Message).To(Equal("2 of 3 members have joined."))
	seen = 0
	g.Expect(scaledOf(3, clustertest.Healthy(3), Size{}).Status).To(Equal(metav1.ConditionUnknown), "it has not served")
}

// A learner that the spec has no room for shows in the list alone: it has no vote and no pod.
func TestScaledBesideALearnerThatIsLeft(t *testing.T) {
	peer := func(host string) []string { return []string{"http://" + host + ":2380"} }
	for name, c := range map[string]struct {
		learner cluster.Learner
		size    Size
		message string
	}{
		"it has never started":      {cluster.Learner{ID: 9, PeerURLs: peer("main-1.main-peer.ns.svc")}, Size{}, "main-1 is listed as a learner, and the spec asks for 1."},
		"it has started":            {cluster.Learner{ID: 9, Name: "main-4"}, Size{}, "main-4 is listed as a learner, and the spec asks for 1."},
		"it is the member to be":    {cluster.Learner{ID: 9, Name: "main-0"}, Size{}, ""},
		"it is foreign":             {cluster.Learner{ID: 9, PeerURLs: peer("main-1.main-peer.other.svc")}, Size{}, ""},
		"a member joins for a move": {cluster.Learner{ID: 9, Name: "main-1"}, Size{2, v1alpha1.ReasonSurging, "a further member stands in", ""}, "A further member stands in."},
	} {
		etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}, Spec: v1alpha1.EtcdSpec{Replicas: 1}}
		s := clustertest.Healthy(1)
		s.Cluster.Learners = []cluster.Learner{c.learner}
		g, got := NewWithT(t), c.size.Conditions(etcd, 1, s)[0]
		if c.message == "" {
			g.Expect(got.Status).To(Equal(metav1.ConditionTrue), name)
			continue
		}
		g.Expect(got).To(And(HaveField("Status", metav1.ConditionFalse), HaveField("Message", c.message)), name)
	}
}

// After a cut-over, the cluster has the members that its spec asks for only once those of the source have left: who stops them may
// take the quorum away.
func TestScaledOnceTheSourceHasLeft(t *testing.T) {
	source := &v1alpha1.BootstrapWithExistingCluster{}
	beside := func(sources int) *cluster.Snapshot {
		s := clustertest.Healthy(3)
		for i := range sources {
			s.Cluster.Voters = append(s.Cluster.Voters, cluster.Voter{ID: uint64(100 + i), Ordinal: -1, Serving: true})
		}
		return s
	}
	unreachable := clustertest.Healthy(3)
	unreachable.Cluster.Voters = nil
	for name, c := range map[string]struct {
		s           *cluster.Snapshot
		stays, left bool
		message     string
	}{
		"before the cut-over":             {s: beside(3), stays: true},
		"none has left":                   {s: beside(3), message: "3 of 6 voters belong to the source cluster, and have yet to leave."},
		"one is left":                     {s: beside(1), message: "1 of 4 voters belong to the source cluster, and have yet to leave."},
		"no member answers":               {s: unreachable, message: "Members of the source cluster may have yet to leave: no member answers."},
		"all have left":                   {s: beside(0)},
		"and it is recorded":              {s: beside(0), left: true},
		"recorded, and no member answers": {s: unreachable, left: true},
	} {
		etcd := &v1alpha1.Etcd{Spec: v1alpha1.EtcdSpec{Replicas: 3}}
		etcd.Status.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingClusterStatus{Source: source}
		if c.stays {
			etcd.Spec.Etcd.BootstrapWithExistingCluster = source
		}
		if c.left {
			etcd.Status.BootstrapWithExistingCluster.Source = nil
		}
		g, all := NewWithT(t), Size{}.Conditions(etcd, 3, c.s)
		if c.message == "" {
			g.Expect(all[0].Status).To(Equal(metav1.ConditionTrue), name)
			continue
		}
		g.Expect(all[0]).To(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonScalingIn), HaveField("Message", c.message)), name)
		g.Expect(all[1].Status).To(Equal(metav1.ConditionFalse), name)
	}
}

// A cluster that is not held, nor kept from hibernating, has the replicas of its spec. One that hibernated without its
// volumes has none until the status records its restore.
func TestReleased(t *testing.T) {
	g := NewWithT(t)
	deletes := v1alpha1.PersistentVolumeClaimRetentionPolicy{WhenScaled: v1alpha1.VolumesDeleted}
	etcd := &v1alpha1.Etcd{Spec: v1alpha1.EtcdSpec{PersistentVolumeClaimRetentionPolicy: &deletes}}
	g.Expect(released(etcd, setOf(3))).To(Equal(int32(3)), "there is no backup to wake up from")
	g.Expect(released(etcd, setOf(0))).To(BeZero())
	g.Expect(released(etcd, nil)).To(BeZero())
	etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "backups"}}
	g.Expect(released(etcd, setOf(3))).To(BeZero())

	etcd.Spec.Replicas = 3
	g.Expect(released(etcd, setOf(0))).To(Equal(int32(3)))
	etcd.Status.Hibernation = &v1alpha1.Hibernation{ClusterID: "cafe"}
	g.Expect(released(etcd, setOf(0))).To(BeZero(), "the restore is not recorded yet")
	etcd.Status.Recovery = &v1alpha1.ClusterRecovery{PreviousClusterID: "cafe"}
	g.Expect(released(etcd, setOf(0))).To(Equal(int32(3)))

	// It is recovered from a member that joined while no operator watched.
	etcd.Name, etcd.Status.ClusterSize = "main", 3
	for member, want := range map[string]int32{"main-0": 3, "main-2": 3, "main-3": 4, "main-4": 5, "main-5": 6, "main-6": 3} {
		etcd.Status.Recovery.Member = member
		g.Expect(released(etcd, setOf(0))).To(Equal(want), member)
	}
	etcd.Status.ClusterSize = 0
	g.Expect(released(etcd, setOf(0))).To(Equal(int32(3)), "it has not been seen")
}

// Members that have joined a source are not stopped before they have left it, nor those that a source has yet to leave: they may be part
// of its quorum. The task that has them leave, and no other, takes the last replica.
func TestMembersBesideASourceAreNotStopped(t *testing.T) {
	g := NewWithT(t)
	source := &v1alpha1.BootstrapWithExistingCluster{}
	joins, left := &v1alpha1.Etcd{}, &v1alpha1.Etcd{}
	joins.Spec.Etcd.BootstrapWithExistingCluster = source
	leave := joins.DeepCopy()
	leave.Spec.Etcd.BootstrapWithExistingCluster, leave.Status.BootstrapWithExistingCluster = nil, &v1alpha1.BootstrapWithExistingClusterStatus{Source: source}
	left.Status.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingClusterStatus{}
	task := v1alpha1.EtcdOperatorTask{Spec: v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.MembershipChange}}
	task.Status.State, task.Status.Membership = v1alpha1.TaskStateInProgress, &v1alpha1.MembershipStatus{Replicas: ptr.To[int32](0)}
	for _, c := range []struct {
		etcd     *v1alpha1.Etcd
		replicas int32
		why      string
		follows  bool
	}{
		{joins, 3, "The members leave the cluster that they have joined, one at a time", true},
		{leave, 3, "The cluster is kept running until the members of the source cluster have left: set spec.replicas back", false},
		{left, 0, "", false},
	} {
		got := size(&state.State{Etcd: c.etcd, StatefulSet: setOf(3)}, firststart.View{}, hibernation.WakeUp{}, "")
		g.Expect(got.Replicas).To(Equal(c.replicas))
		g.Expect(got.Why).To(Equal(c.why))
		g.Expect(recorded(c.etcd, setOf(1), []v1alpha1.EtcdOperatorTask{task}) != nil).To(Equal(c.follows))
	}
	joins.Spec.Replicas = 3
	g.Expect(recorded(joins, setOf(1), []v1alpha1.EtcdOperatorTask{task})).To(BeNil())
}
