// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// changing is a task that has recorded what the StatefulSet is to be scaled to.
func changing(replicas int32) *v1alpha1.EtcdOperatorTask {
	return &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "members", UID: "members"},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.MembershipChange, OwnerEtcdReference: v1alpha1.EtcdReference{Name: "main"}},
		Status:     v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStateInProgress, Membership: &v1alpha1.MembershipStatus{Replicas: ptr.To(replicas)}},
	}
}

func listOf(names ...string) func(context.Context, *v1alpha1.Etcd, *cluster.Snapshot) []etcdclient.Member {
	return func(context.Context, *v1alpha1.Etcd, *cluster.Snapshot) (list []etcdclient.Member) {
		for i, name := range names {
			list = append(list, etcdclient.Member{ID: uint64(i + 1), Name: name})
		}
		return list
	}
}

func (s *scaled) follow(api client.WithWatch, st *state.State, list ...string) error {
	objects := &apply.Objects{Writer: apply.Writer{Client: api, Live: api}, Clock: s.clock}
	session, err := objects.Begin(s.t.Context(), st.Etcd, st.StatefulSet, "")
	s.Expect(err).NotTo(HaveOccurred())
	scaler := s.with(api)
	scaler.Members = listOf(list...)
	return scaler.Follow(s.t.Context(), st, session)
}

// The StatefulSet follows what the task records, by one replica, and never without a member list that does not have the member.
func TestFollow(t *testing.T) {
	three := []string{"main-0", "main-1", "main-2"}
	for name, tc := range map[string]struct {
		have, recorded int32
		list           []string
		change         func(*v1alpha1.EtcdOperatorTask)
		want           int32
	}{
		"grows":                          {3, 4, three, nil, 4},
		"grows without a list":           {3, 4, nil, nil, 4},
		"shrinks":                        {4, 3, three, nil, 3},
		"the member is still listed":     {4, 3, append(three, "main-3"), nil, 4},
		"a higher one is listed":         {4, 3, append(three, "main-4"), nil, 4},
		"no list":                        {4, 3, nil, nil, 4},
		"a foreign member is none of it": {4, 3, append(three, "far-3"), nil, 3},
		"two at once":                    {5, 3, three, nil, 5},
		"to zero":                        {1, 0, nil, nil, 1},
		"from zero":                      {0, 1, nil, nil, 0},
		"it is so already":               {3, 3, three, nil, 3},
		"the task has ended":             {4, 3, three, func(t *v1alpha1.EtcdOperatorTask) { t.Status.State = v1alpha1.TaskStateSucceeded }, 4},
		"another type":                   {4, 3, three, func(t *v1alpha1.EtcdOperatorTask) { t.Spec.Type = v1alpha1.OnDemandSnapshot }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			s, task := newScaled(t, tc.have), changing(tc.recorded)
			if tc.change != nil {
				tc.change(task)
			}
			s.Expect(s.api.Create(t.Context(), task)).To(Succeed())
			st := s.state()
			apitest.EachRequestFails(t, s.api, func(api client.WithWatch) error {
				if err := s.follow(api, st, tc.list...); err != nil && !errors.Is(err, state.ErrBehind) {
					return err
				}
				return nil
			})
			err := s.follow(s.api, st, tc.list...)
			s.Expect(err != nil).To(Equal(tc.want != tc.have), "the rest of a reconcile waits for what was scaled, and not for members that leave")
			s.Expect(s.state().StatefulSet.Spec.Replicas).To(HaveValue(Equal(tc.want)))
			s.Expect(apitest.Locked(s.locks, st.Etcd)).To(BeFalse())
		})
	}
}

// While the pods of an adopted StatefulSet are etcd-druid's, it does not follow a task, since a new pod would be one of etcd-druid's. Only
// listed members get their pods back.
func TestFollowBeforeTheConversion(t *testing.T) {
	for name, tc := range map[string]struct {
		have, recorded int32
		applied        bool
		want           int32
	}{
		"a task grows it":        {3, 4, false, 3},
		"a task shrinks it":      {4, 3, false, 4},
		"it was scaled down":     {2, 3, false, 3},
		"its pods are converted": {3, 4, true, 4},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScaled(t, tc.have)
			set := s.state().StatefulSet
			metav1.SetMetaDataLabel(&set.ObjectMeta, v1alpha1.LabelManagedBy, v1alpha1.ManagedByDruid)
			metav1.SetMetaDataAnnotation(&set.ObjectMeta, v1alpha1.AnnotationAdoptedBy, string(s.state().Etcd.UID))
			delete(set.Annotations, v1alpha1.AnnotationAppliedChecksum)
			if tc.applied {
				metav1.SetMetaDataAnnotation(&set.ObjectMeta, v1alpha1.AnnotationAppliedChecksum, "x")
			}
			s.Expect(s.api.Update(t.Context(), set)).To(Succeed())
			s.Expect(s.api.Create(t.Context(), changing(tc.recorded))).To(Succeed())
			st := s.state()
			st.Snapshot = clustertest.Healthy(3)
			st.Snapshot.Ordinals, st.Snapshot.Cluster.LeaderKnown = st.Snapshot.Ordinals[:min(tc.have, 3)], false
			_ = s.follow(s.api, st, "main-0", "main-1", "main-2")
			s.Expect(s.state().StatefulSet.Spec.Replicas).To(HaveValue(Equal(tc.want)))
		})
	}
}

// The condition Scaled of a cluster whose pods wait for their conversion says that, and what to do.
func TestWaiting(t *testing.T) {
	g := NewWithT(t)
	etcd, s := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}, Spec: v1alpha1.EtcdSpec{Replicas: 3}}, clustertest.Healthy(3)
	g.Expect(Waiting(etcd, nil)).To(Equal(Size{}))
	s.StatefulSet.OfDruid = true
	g.Expect(Waiting(etcd, s)).To(Equal(Size{}), "it has its size")
	for replicas, operation := range map[int32]string{5: v1alpha1.ReasonScalingOut, 1: v1alpha1.ReasonScalingIn} {
		etcd.Spec.Replicas = replicas
		all := Waiting(etcd, s).Conditions(etcd, 3, s)
		g.Expect(all[0]).To(And(HaveField("Reason", v1alpha1.ReasonScalingHeld), HaveField("Message", And(HavePrefix("The pods are etcd-druid's"), ContainSubstring("convert the pods")))))
		g.Expect(all[1].Reason).To(Equal(operation))
	}
	s.StatefulSet.OfDruid = false
	g.Expect(Waiting(etcd, s)).To(Equal(Size{}), "the spec is suspended")
}

// A cache that shows what a task recorded before it turned round scales nothing.
func TestFollowOnALateCache(t *testing.T) {
	s := newScaled(t, 4)
	s.Expect(s.api.Create(t.Context(), changing(3))).To(Succeed())
	late := s.state()
	task := &v1alpha1.EtcdOperatorTask{}
	s.Expect(s.api.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "members"}, task)).To(Succeed())
	task.Status.Membership.Replicas = nil
	s.Expect(s.api.Update(t.Context(), task)).To(Succeed())
	s.Expect(s.follow(s.api, late, "main-0")).To(MatchError(state.ErrBehind))
	s.Expect(s.state().StatefulSet.Spec.Replicas).To(HaveValue(Equal(int32(4))))
}

// A StatefulSet that someone has scaled down is scaled back to all members, also without a quorum and while no change of the spec is due, but
// not against what a person or a task wants.
func TestFollowScalesBack(t *testing.T) {
	for name, tc := range map[string]struct {
		have   int32
		change func(*v1alpha1.Etcd)
		tasks  []*v1alpha1.EtcdOperatorTask
		want   int32
	}{
		"to one":                         {1, nil, nil, 3},
		"to two":                         {2, nil, nil, 3},
		"to none: as after a hold":       {0, nil, nil, 0},
		"while members change":           {1, nil, []*v1alpha1.EtcdOperatorTask{changing(3)}, 3},
		"its members have left":          {1, nil, []*v1alpha1.EtcdOperatorTask{changing(1)}, 1},
		"another member stands in":       {2, func(e *v1alpha1.Etcd) { e.Spec.Replicas, e.Spec.SurgePolicy = 1, v1alpha1.SurgeSingleMember }, nil, 3},
		"it is adopted":                  {1, adoption(metav1.ConditionTrue), nil, 3},
		"it is being adopted":            {1, adoption(metav1.ConditionFalse), nil, 1},
		"it is to hibernate":             {1, func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 }, nil, 1},
		"the spec is suspended":          {1, func(e *v1alpha1.Etcd) { e.Annotations = map[string]string{v1alpha1.AnnotationSuspendSpecReconcile: ""} }, nil, 1},
		"it has never served":            {1, func(e *v1alpha1.Etcd) { e.Status.ClusterSize = 0 }, nil, 1},
		"its cluster has fewer members":  {1, func(e *v1alpha1.Etcd) { e.Status.ClusterSize = 1 }, nil, 1},
		"a task is to stop all members":  {1, nil, []*v1alpha1.EtcdOperatorTask{newScaled(t, 3).task()}, 1},
		"a change of members has ended":  {1, nil, []*v1alpha1.EtcdOperatorTask{ended(changing(1))}, 3},
		"more than the cluster has seen": {4, nil, nil, 4},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScaled(t, tc.have)
			if tc.change != nil {
				s.change(tc.change)
			}
			for _, task := range tc.tasks {
				s.Expect(s.api.Create(t.Context(), task)).To(Succeed())
			}
			st := s.state()
			st.Snapshot = clustertest.Healthy(3)
			st.Snapshot.Ordinals, st.Snapshot.Cluster.LeaderKnown = st.Snapshot.Ordinals[:min(tc.have, 3)], false
			apitest.EachRequestFails(t, s.api, func(api client.WithWatch) error {
				if err := s.follow(api, st); err != nil && !errors.Is(err, state.ErrBehind) {
					return err
				}
				return nil
			})
			_ = s.follow(s.api, st)
			s.Expect(s.state().StatefulSet.Spec.Replicas).To(HaveValue(Equal(tc.want)))
			s.Expect(apitest.Locked(s.locks, st.Etcd)).To(BeFalse())
		})
	}
	s := newScaled(t, 1)
	late := s.state()
	set := s.state().StatefulSet
	set.Spec.Replicas = ptr.To[int32](4)
	s.Expect(s.api.Update(t.Context(), set)).To(Succeed())
	s.Expect(s.follow(s.api, late)).To(MatchError(state.ErrBehind))
	s.Expect(s.state().StatefulSet.Spec.Replicas).To(HaveValue(Equal(int32(4))), "the cache is late")
}

// Beside a source, voters of the Etcd's names at other peer URLs are those of a second Etcd of its name: they need no pod here. One that may be
// the Etcd's own keeps its pod all the more: no replica is removed while its name is listed, whatever its URLs.
func TestFollowBesideASecondEtcdOfTheName(t *testing.T) {
	second := func(urls string) *cluster.Snapshot {
		s := clustertest.Healthy(1)
		s.Cluster.Voters = []cluster.Voter{{ID: 9, Name: "old-0", Ordinal: -1, Serving: true, PeerURLs: []string{"http://old-0:2380"}}}
		for i := range 3 {
			name := "main-" + strconv.Itoa(i)
			s.Cluster.Voters = append(s.Cluster.Voters, cluster.Voter{ID: uint64(10 + i), Name: name, Ordinal: -1, Serving: true, PeerURLs: []string{"http://" + name + urls}})
		}
		s.Cluster.Leader, s.Cluster.LeaderKnown, s.Cluster.Reachable = 9, true, true
		return s
	}
	source := func(e *v1alpha1.Etcd) {
		e.Spec.Etcd.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingCluster{Members: []v1alpha1.BootstrapExistingMember{{Name: "old-0"}}}
	}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.Etcd)
		urls   string
		want   *int32
	}{
		"members of another namespace":      {source, ".main-peer.ns2.svc:2380", nil},
		"the Etcd's own members":            {source, ".main-peer.ns.svc:2380", ptr.To[int32](3)},
		"after the cut-over":                {func(e *v1alpha1.Etcd) { source(e); afterCutOver(e) }, ".main-peer.ns2.svc:2380", nil},
		"without a source, the name is all": {func(*v1alpha1.Etcd) {}, ".main-peer.ns2.svc:2380", ptr.To[int32](3)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScaled(t, 1)
			s.change(func(e *v1alpha1.Etcd) { e.Spec.Replicas, e.Status.ClusterSize = 1, 1; tc.change(e) })
			st := s.state()
			snapshot := second(tc.urls)
			s.Expect(snapshot.Quorate()).To(BeTrue())
			s.Expect(next(st.Etcd, st.StatefulSet, snapshot, nil)).To(Equal(tc.want))
		})
	}
	s := newScaled(t, 4)
	s.change(source)
	s.Expect(s.api.Create(t.Context(), changing(3))).To(Succeed())
	scaler, st := s.with(s.api), s.state()
	scaler.Members = func(context.Context, *v1alpha1.Etcd, *cluster.Snapshot) []etcdclient.Member {
		return []etcdclient.Member{{ID: 1, Name: "main-3", PeerURLs: []string{"http://main-3.main-peer.ns2.svc:2380"}}}
	}
	s.Expect(scaler.hasLeft(t.Context(), st.Etcd, 3)).To(BeFalse())
}

func afterCutOver(e *v1alpha1.Etcd) {
	e.Status.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingClusterStatus{Source: e.Spec.Etcd.BootstrapWithExistingCluster}
	e.Spec.Etcd.BootstrapWithExistingCluster = nil
}

func adoption(is metav1.ConditionStatus) func(*v1alpha1.Etcd) {
	return func(e *v1alpha1.Etcd) {
		e.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionAdopted, Status: is, Reason: "Reason"})
	}
}

func ended(t *v1alpha1.EtcdOperatorTask) *v1alpha1.EtcdOperatorTask {
	t.Status.State = v1alpha1.TaskStateSucceeded
	return t
}

// The Lease of a member goes once nothing counts on the member any more.
func TestRemoveLeases(t *testing.T) {
	s := newScaled(t, 3)
	st := s.state()
	for _, name := range []string{"main-2", "main-3", "main-4", "foreign-3"} {
		lease := &coordinationv1.Lease{ObjectMeta: apitest.Own(st.Etcd, name)}
		lease.Labels[v1alpha1.LabelComponent] = v1alpha1.ComponentMemberLease
		if name == "main-4" {
			lease.OwnerReferences = nil
		}
		s.Expect(s.api.Create(t.Context(), lease)).To(Succeed())
	}
	names := func() (all []string) {
		leases := &coordinationv1.LeaseList{}
		s.Expect(s.api.List(t.Context(), leases)).To(Succeed())
		for _, l := range leases.Items {
			all = append(all, l.Name)
		}
		return all
	}
	for _, change := range []func(*v1alpha1.Etcd){func(e *v1alpha1.Etcd) { e.Spec.Replicas = 5 }, func(e *v1alpha1.Etcd) { e.Status.ClusterSize = 4 }, func(e *v1alpha1.Etcd) { e.Status.ClusterSize = 0 }} {
		kept := s.state()
		change(kept.Etcd)
		s.Expect(s.with(s.api).RemoveLeases(t.Context(), kept)).To(Succeed())
		s.Expect(names()).To(HaveLen(4))
	}
	apitest.EachRequestFails(t, s.api, func(api client.WithWatch) error { return s.with(api).RemoveLeases(t.Context(), st) })
	s.Expect(s.with(s.api).RemoveLeases(t.Context(), st)).To(Succeed())
	s.Expect(names()).To(ConsistOf("main-2", "main-4", "foreign-3"), "a foreign lease stays")
}
