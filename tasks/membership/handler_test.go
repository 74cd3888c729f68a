// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/memberconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/members"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/internal/membership"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// trial is a handler before a cluster that says what the test wants.
type trial struct {
	*WithT
	t       *testing.T
	api     client.WithWatch
	clock   *clocktesting.FakePassiveClock
	handler *Handler
	task    tasks.Typed[Config]
	// cached and live are what is observed by the cache, and by the API server.
	cached, live *cluster.Snapshot
	// list is what a linearizable read of the member list says, asked what was asked of etcd, and fails its answer.
	list  []etcdclient.Member
	asked []string
	fails error
	// refuse are the endpoints of members that consider others disconnected.
	refuse []string
	// read is what the agents have read.
	read map[int]cluster.Read
	// observing and confirming fail with these.
	observing, confirming error
	// dialing fails with this, and open is how many connections are not closed.
	dialing error
	open    int
}

// newTrial is a healthy cluster of n members, led by main-0, whose Etcd asks for others.
func newTrial(t *testing.T, n int, wanted int32) *trial {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}, Spec: v1alpha1.EtcdSpec{Replicas: wanted}}
	etcd.Status.ClusterID, etcd.Status.ClusterSize = "cafe", int32(n)
	config := &corev1.ConfigMap{ObjectMeta: apitest.Own(etcd, "main-config")}
	config.Data = map[string]string{member.KeyBootstrap: "initial-cluster: main-0=http://a,main-1=http://b,main-2=http://c,main-3=http://d"}
	exact := noon.Add(time.Nanosecond) // no status is as exact as a clock
	r := &trial{WithT: NewWithT(t), t: t, clock: clocktesting.NewFakePassiveClock(exact), read: map[int]cluster.Read{}}
	r.api = apitest.API(etcd, apitest.StatefulSet(etcd, int32(n)), config)
	r.task = tasks.Typed[Config]{Task: tasks.Task{Etcd: etcd, Object: &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "task", UID: "task"}}}}
	r.task.Object.Spec = v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.MembershipChange, OwnerEtcdReference: v1alpha1.EtcdReference{Name: "main"}}
	s := &cluster.Snapshot{At: noon, StatefulSet: cluster.StatefulSet{Name: "main", Observed: true}, Cluster: cluster.Cluster{Reachable: true, LeaderKnown: true, Leader: 1, Term: 2}}
	for i := range n {
		name := fmt.Sprintf("main-%d", i)
		s.Ordinals = append(s.Ordinals, cluster.Ordinal{
			Name: name, Member: name, Class: v1alpha1.ClassParticipating, Role: v1alpha1.RoleFollower, MemberID: uint64(i + 1), Answers: true, Serving: true,
			Pod: &cluster.Pod{UID: types.UID(name), ResourceVersion: "1", Ready: true, Endpoint: "http://" + name + ":2379", EtcdStarted: noon},
		})
		r.list = append(r.list, etcdclient.Member{ID: uint64(i + 1), Name: name})
		s.Cluster.Voters = append(s.Cluster.Voters, cluster.Voter{ID: uint64(i + 1), Name: name, Ordinal: i, Serving: true})
		r.Expect(r.api.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}})).To(Succeed())
	}
	s.Ordinals[0].Role = v1alpha1.RoleLeader
	r.cached, r.live = s, s
	t.Cleanup(func() { r.Expect(r.open).To(BeZero(), "connections are closed") })
	r.start()
	return r
}

// start starts another operator, which remembers nothing.
func (r *trial) start() { r.handler = r.with(r.api) }

func (r *trial) with(api client.WithWatch) *Handler {
	access := state.Access{Client: api, API: api, Locker: &lock.Locks{}, Clock: r.clock}
	return &Handler{
		Client: api, Live: api, Clock: r.clock, Rule: replacer.Operator{}, Writer: memberconfig.Writer{Access: access},
		Reader: members.Reader{Observer: r, Dialer: r, Credentials: &certificates.Credentials{Reader: api, Clock: r.clock}, Clock: r.clock, Client: api},
	}
}

func (r *trial) Observe(context.Context, client.Reader, *v1alpha1.Etcd) (*cluster.Snapshot, error) {
	r.cached.At = r.clock.Now()
	return r.cached, r.observing
}

func (r *trial) Confirm(context.Context, client.Reader, *v1alpha1.Etcd, *cluster.Snapshot) (*cluster.Snapshot, error) {
	r.live.At = r.clock.Now()
	return r.live, r.confirming
}

func (r *trial) Reads(_ context.Context, _ client.Reader, _ *v1alpha1.Etcd, s *cluster.Snapshot) error {
	for i, read := range r.read {
		s.Ordinals[i].Read = read
	}
	return nil
}

func (r *trial) Dial(endpoint string, _ *tls.Config) (etcdclient.Client, error) {
	if r.dialing != nil {
		return nil, r.dialing
	}
	r.open++
	return asking{trial: r, endpoint: endpoint}, nil
}

// asking is a client that notes what is asked.
type asking struct {
	etcdclient.Client
	trial    *trial
	endpoint string
}

func (a asking) ConfirmedMembers(context.Context) ([]etcdclient.Member, error) {
	return a.trial.list, nil
}

func (a asking) note(ctx context.Context, format string, args ...any) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	a.trial.asked = append(a.trial.asked, fmt.Sprintf(format, args...)+" at "+a.endpoint)
	if slices.Contains(a.trial.refuse, a.endpoint) {
		return rpctypes.ErrUnhealthy
	}
	return a.trial.fails
}

func (a asking) AddLearner(ctx context.Context, urls []string) error {
	return a.note(ctx, "add %v", urls)
}

func (a asking) PromoteLearner(ctx context.Context, id uint64) error {
	return a.note(ctx, "promote %x", id)
}

func (a asking) RemoveMember(ctx context.Context, id uint64) error {
	return a.note(ctx, "remove %x", id)
}

func (a asking) MoveLeader(ctx context.Context, to uint64) error { return a.note(ctx, "lead %x", to) }

func (a asking) Close() error {
	a.trial.open--
	return nil
}

// asStored returns a status as the API server stores it.
func asStored(t *testing.T, m *v1alpha1.MembershipStatus) *v1alpha1.MembershipStatus {
	stored := &v1alpha1.MembershipStatus{}
	data, err := json.Marshal(m)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(json.Unmarshal(data, stored)).To(Succeed())
	return stored
}

// next executes the task after a while, records what was said, and carries the step out.
func (r *trial) next(after time.Duration) tasks.Verdict {
	r.t.Helper()
	r.clock.SetTime(r.clock.Now().Add(after))
	v, err := r.handler.Execute(r.t.Context(), r.task)
	r.Expect(err).NotTo(HaveOccurred())
	r.task.Object.Status.Membership = asStored(r.t, v.Membership)
	if v.Step != nil {
		err := r.handler.Perform(r.t.Context(), r.task.Task, *v.Step)
		r.Expect(err != nil).To(Equal(r.fails != nil), "%v", err)
	}
	return v
}

// settle executes the task for so long that members have settled.
func (r *trial) settle() (v tasks.Verdict) {
	for range 8 {
		if v = r.next(time.Second); v.Step != nil {
			return v
		}
	}
	return v
}

// waiting adds a pod whose agent waits for the member to be listed.
func (r *trial) waiting() {
	name := fmt.Sprintf("main-%d", len(r.live.Ordinals))
	r.live.Ordinals = append(r.live.Ordinals, cluster.Ordinal{Name: name, Member: name, Class: v1alpha1.ClassDead, Pod: &cluster.Pod{
		UID: types.UID(name), Refusal: &cluster.Refusal{Reason: v1alpha1.ReasonNotListed, Volume: cluster.Volume{Store: cluster.StoreFree}},
	}})
	r.Expect(r.api.Create(r.t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}})).To(Succeed())
}

// joining is waiting, of every pod that is missing, beside an only member that reads at once that another one joins.
func (r *trial) joining() {
	r.t.Helper()
	r.waiting()
	for len(r.live.Ordinals) < int(r.task.Etcd.Spec.Replicas) {
		r.waiting()
	}
	r.Expect(r.settle().Step.Operation).To(Equal("AnnounceJoin"))
	r.reads()
}

// reads has the agent of main-0 read what its ConfigMap says.
func (r *trial) reads() { r.read[0] = cluster.Read{Etcd: "etcd", Generation: r.told().Generation} }

// The StatefulSet is scaled by what is recorded, once; then the member is added by its peer URL, at the leader.
func TestGrows(t *testing.T) {
	r := newTrial(t, 1, 3)
	r.read[0] = cluster.Read{Etcd: "etcd"}
	v := r.next(0)
	r.Expect(v.Step.Operation).To(Equal("ScaleUp"))
	r.Expect(v.Membership.Replicas).To(HaveValue(Equal(int32(2))))
	v = r.next(time.Second)
	r.Expect(v.Step).To(BeNil(), "the controller of the Etcd carries it out")
	r.Expect(v.Message).To(HavePrefix("waiting until StatefulSet main has 2 replicas: "))
	r.Expect(v.RequeueAfter).To(Equal(pollInterval))
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}}
	r.Expect(r.api.Create(t.Context(), budget)).To(Succeed())
	v = r.next(time.Second)
	r.Expect(v.Message).NotTo(ContainSubstring("PodDisruptionBudget"), "nothing was foreign a second ago, and to ask reads every object")
	r.Expect(v.RequeueAfter).To(Equal(pollInterval))
	v = r.next(tasks.RecheckObstacle - time.Second)
	r.Expect(v.Message).To(MatchRegexp("^waiting until StatefulSet main has 2 replicas: .*[^.][.] PodDisruptionBudget ns/main has no controller: give the Etcd another name, or delete"))
	r.Expect(v.RequeueAfter).To(Equal(tasks.RecheckObstacle))
	r.Expect(r.api.Delete(t.Context(), budget)).To(Succeed())
	r.Expect(r.next(time.Second).Message).NotTo(ContainSubstring("PodDisruptionBudget"), "what was found is not said once it is gone")
	r.Expect(v.Membership.Steps).To(HaveLen(1))

	r.waiting()
	v = r.next(time.Second)
	r.Expect(v.Step.Operation).To(Equal("ScaleUp"), "before the first joins")
	r.Expect(v.Membership.Replicas).To(HaveValue(Equal(int32(3))))
	r.waiting()
	v = r.next(time.Second)
	r.Expect(v.Step.Operation).To(Equal("AnnounceJoin"))
	r.Expect(v.Membership.Replicas).To(BeNil())
	v = r.next(time.Second)
	r.Expect(v.Message).To(HavePrefix("JoinAnnounced: the agent of main-0 has not read yet"))
	for range 60 {
		r.Expect(r.next(time.Second).Step).To(BeNil(), "main-0 may still restore a backup on its own")
	}
	r.reads()
	r.Expect(r.next(time.Second).Step.Operation).To(Equal("AddLearner"))
	r.Expect(r.asked).To(Equal([]string{"add [http://main-1.main-peer.ns.svc:2380] at http://main-0:2379"}))
	r.Expect(r.task.Object.Status.Membership.Request).To(HaveField("Before", int32(1)))
	r.Expect(r.told()).To(Equal(&member.Members{Etcd: "etcd", ClusterID: "cafe", Generation: 2, Joining: map[string]string{"main-1": "main-1"}}), "agents change nothing themselves from now on")
}

// What the only member has read of a newcomer counts for one pod of that: the list may have been another one before the next came.
func TestNewcomerInAnotherPod(t *testing.T) {
	r := newTrial(t, 1, 3)
	r.joining()
	r.live.Ordinals[1].Pod.UID = "another"
	r.Expect(r.api.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main-1"}})).To(Succeed())
	r.Expect(r.api.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main-1", UID: "another"}})).To(Succeed())
	r.Expect(r.next(time.Second).Step.Operation).To(Equal("AnnounceJoin"))
	r.Expect(r.told().Joining).To(Equal(map[string]string{"main-1": "another"}))
	r.Expect(r.next(time.Second).Message).To(HavePrefix("JoinAnnounced: "))
	r.reads()
	r.Expect(r.settle().Step.Operation).To(Equal("AddLearner"))
}

// A newcomer whose pod is deleted, by a rollout or a person, is announced again once there is its next pod, and not until then.
func TestNewcomerWhosePodEnds(t *testing.T) {
	r := newTrial(t, 1, 3)
	r.joining()
	before := r.told()
	r.live.Ordinals[1].Class = v1alpha1.ClassTerminating
	for range 20 {
		v := r.next(time.Second)
		r.Expect(v.Step).To(BeNil())
		r.Expect(v.Message).To(HavePrefix("StoreFree: the pod of ordinal 1 is being deleted"))
	}
	r.Expect(r.told()).To(Equal(before))

	// So it is if it was deleted before anything was announced.
	r = newTrial(t, 1, 3)
	r.waiting()
	r.waiting()
	r.live.Ordinals[1].Class = v1alpha1.ClassTerminating
	for range 20 {
		r.Expect(r.next(time.Second).Step).To(BeNil())
	}
	r.live.Ordinals[1].Class, r.live.Ordinals[1].Pod.UID = v1alpha1.ClassDead, "another"
	r.Expect(r.api.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main-1"}})).To(Succeed())
	r.Expect(r.api.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main-1", UID: "another"}})).To(Succeed())
	r.Expect(r.next(time.Second).Step.Operation).To(Equal("AnnounceJoin"))
	r.Expect(r.told().Joining).To(Equal(map[string]string{"main-1": "another"}))
}

// An answer that is lost leaves open what became of the request: nothing follows until the list shows it, or until it can no longer
// take effect, also for the next operator, which counts from when it begins.
func TestLostAnswer(t *testing.T) {
	begin := func() *trial {
		r := newTrial(t, 1, 3)
		r.joining()
		r.fails = errors.New("the answer was lost")
		r.Expect(r.settle().Step.Operation).To(Equal("AddLearner"))
		r.fails = nil
		v := r.next(time.Second)
		r.Expect(v.Message).To(Equal("ChangeObserved: AddLearner was requested for main-1, and the member list does not show the result yet"))
		return r
	}
	r := begin()
	r.list = append(r.list, etcdclient.Member{ID: 9, Learner: true, PeerURLs: []string{"http://main-1.main-peer.ns.svc:2380"}})
	r.Expect(r.next(time.Second).Message).To(HavePrefix("MembersSettled: main-1"))
	r.Expect(r.asked).To(HaveLen(1))

	r = begin()
	for range 10 {
		r.next(time.Second)
	}
	r.start()
	for range 12 {
		r.Expect(r.next(time.Second).Step).To(BeNil(), "another operator knows no better")
	}
	r.Expect(r.asked).To(HaveLen(1))
	r.Expect(r.settle().Step.Operation).To(Equal("AddLearner"))
	r.Expect(r.asked).To(HaveLen(2))
}

// What etcd refuses does not take effect later.
func TestRefusal(t *testing.T) {
	r := newTrial(t, 1, 3)
	r.joining()
	r.fails = rpctypes.ErrUnhealthy
	r.Expect(r.settle().Step.Operation).To(Equal("AddLearner"))
	r.Expect(r.next(time.Second).Step.Operation).To(Equal("AddLearner"))
	r.Expect(r.task.Object.Status.Membership.Steps).To(HaveLen(2), "the same again is one step")
}

// What etcd has acknowledged is waited for, too: the next decision is not made on a list without it.
func TestAcknowledged(t *testing.T) {
	r := newTrial(t, 1, 3)
	r.joining()
	r.Expect(r.settle().Step.Operation).To(Equal("AddLearner"))
	r.Expect(r.next(time.Second).Message).To(HavePrefix("ChangeObserved: AddLearner was requested for main-1"))
}

// A member that considers others disconnected refuses to add one until a connection breaks. Another voter is asked then, but not after an
// answer that was lost.
func TestAnotherIsAsked(t *testing.T) {
	begin := func() *trial {
		r := newTrial(t, 3, 5)
		r.waiting()
		r.waiting()
		return r
	}
	r := begin()
	r.refuse = []string{"http://main-0:2379", "http://main-1:2379"}
	r.Expect(r.settle().Step.Operation).To(Equal("AddLearner"))
	r.Expect(r.asked).To(HaveExactElements(HaveSuffix("at http://main-0:2379"), HaveSuffix("at http://main-1:2379"), HaveSuffix("at http://main-2:2379")))

	r = begin()
	r.fails = errors.New("the answer was lost")
	r.Expect(r.settle().Step.Operation).To(Equal("AddLearner"))
	r.Expect(r.asked).To(HaveLen(1))
}

// Nothing is done on what a cache says.
func TestDecidedLive(t *testing.T) {
	r := newTrial(t, 3, 5)
	r.waiting()
	live := *r.live
	live.Ordinals = append([]cluster.Ordinal(nil), r.live.Ordinals...)
	live.Ordinals[1].Serving = false
	r.live = &live
	r.Expect(r.settle().Step).To(BeNil())
	r.Expect(r.task.Object.Status.Membership.Steps).To(BeEmpty())
	r.Expect(r.asked).To(BeEmpty())

	r = newTrial(t, 3, 5)
	late := r.task.Etcd.DeepCopy()
	late.Spec.Replicas = 3
	r.Expect(r.api.Update(t.Context(), late)).To(Succeed())
	r.Expect(r.next(0).Outcome).To(Equal(tasks.Done), "the live spec asks for no more")
}

// told is what the members are told.
func (r *trial) told() *member.Members {
	config := &corev1.ConfigMap{}
	r.Expect(r.api.Get(r.t.Context(), client.ObjectKey{Namespace: "ns", Name: "main-config"}, config)).To(Succeed())
	m, err := member.ParseMembers(config.Data[member.KeyMembers])
	r.Expect(err).NotTo(HaveOccurred())
	return m
}

// A member that leaves is told before, in a generation that was never used; its agent confirms; leadership goes first.
func TestShrinks(t *testing.T) {
	r := newTrial(t, 5, 3)
	r.read[2] = cluster.Read{Etcd: "etcd", Generation: 41}
	r.live.Cluster.Leader, r.live.Ordinals[0].Role, r.live.Ordinals[4].Role = 5, v1alpha1.RoleFollower, v1alpha1.RoleLeader
	r.Expect(r.next(0).Step.Operation).To(Equal("Announce"))
	r.Expect(r.told()).To(Equal(&member.Members{Etcd: "etcd", ClusterID: "cafe", Generation: 42, Leaving: []string{"main-4"}}))
	r.Expect(r.next(time.Second).Step.Operation).To(Equal("Announce"))
	r.Expect(r.told()).To(Equal(&member.Members{Etcd: "etcd", ClusterID: "cafe", Generation: 43, Leaving: []string{"main-4", "main-3"}}))
	pod := &corev1.Pod{}
	r.Expect(r.api.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "main-3"}, pod)).To(Succeed())
	r.Expect(pod.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationMembersTold, "43"))

	r.Expect(r.next(time.Second).Step.Operation).To(Equal("MoveLeader"))
	r.Expect(r.asked).To(Equal([]string{"lead 1 at http://main-4:2379"}))
	r.live.Cluster.Leader, r.live.Ordinals[0].Role, r.live.Ordinals[4].Role = 1, v1alpha1.RoleLeader, v1alpha1.RoleFollower
	r.read[4] = cluster.Read{Etcd: "etcd", Generation: 42, Leaving: true}
	r.read[3] = cluster.Read{Etcd: "etcd", Generation: 43, Leaving: true}
	r.Expect(r.settle().Message).To(HavePrefix("RemovalAnnounced: the agent of main-4 has not read yet"))
	r.read[4] = cluster.Read{Etcd: "etcd", Generation: 43, Leaving: true}
	r.Expect(r.next(time.Second).Step.Operation).To(Equal("RemoveMember"))
	r.Expect(r.asked).To(ContainElement("remove 5 at http://main-0:2379"))
}

// Beside a rollout, no voter that serves leaves an odd number, which the list of the observation says: where no member has returned one, a list that is
// read later does not make up for it.
func TestAnObservationWithoutAList(t *testing.T) {
	r := newTrial(t, 5, 3)
	r.next(0)
	r.next(time.Second)
	r.read[4] = cluster.Read{Etcd: "etcd", Generation: r.told().Generation, Leaving: true}
	r.read[3] = r.read[4]
	r.Expect(r.api.Create(t.Context(), &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r"},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.QuorumAwareRollout, OwnerEtcdReference: v1alpha1.EtcdReference{Name: "main"}},
		Status:     v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStateInProgress},
	})).To(Succeed())
	r.Expect(r.settle().Message).To(HavePrefix("NothingElseActs: rollout r is in progress"))
	r.live.Cluster.Voters = nil
	r.Expect(r.next(time.Second).Message).To(HavePrefix("ListKnown: "))
	r.Expect(r.asked).To(BeEmpty())
}

// To one member only if a person agrees.
func TestToOneMember(t *testing.T) {
	r := newTrial(t, 3, 1)
	r.Expect(r.settle().Message).To(HavePrefix("SingleAgreed: one member would remain"))
	r.task.Config.SingleMember = true
	r.Expect(r.next(time.Second).Step.Operation).To(Equal("Announce"))
	r = newTrial(t, 3, 1)
	metav1.SetMetaDataAnnotation(&r.task.Etcd.ObjectMeta, v1alpha1.AnnotationAllowSingleMember, "false")
	r.Expect(r.api.Update(t.Context(), r.task.Etcd)).To(Succeed())
	r.Expect(r.settle().Message).To(And(HavePrefix("SingleAgreed: one member would remain"), HaveSuffix(`allow-single-member=true (it has the value "false")`)))
	metav1.SetMetaDataAnnotation(&r.task.Etcd.ObjectMeta, v1alpha1.AnnotationAllowSingleMember, "true")
	r.Expect(r.api.Update(t.Context(), r.task.Etcd)).To(Succeed())
	r.Expect(r.settle().Step.Operation).To(Equal("Announce"))
}

// scaledAway has an earlier task that has removed a member and scaled its pod away.
func (r *trial) scaledAway(pod string) {
	r.Expect(r.api.Create(r.t.Context(), &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "before"},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.MembershipChange, OwnerEtcdReference: v1alpha1.EtcdReference{Name: "main"}},
		Status:     v1alpha1.EtcdOperatorTaskStatus{Membership: &v1alpha1.MembershipStatus{Steps: []v1alpha1.MembershipStep{{Action: "RemoveMember", Pod: pod}, {Action: "ScaleDown", Pod: pod}}}},
	})).To(Succeed())
}

// Only a claim of the Etcd's own is deleted, as it was observed, and only as the policy says.
func TestDeletesClaims(t *testing.T) {
	others := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "other", UID: "other", Controller: ptr.To(true)}}
	for name, foreign := range map[string]bool{"its own": false, "a foreign one": true} {
		r := newTrial(t, 3, 3)
		claim := apitest.Claim(r.task.Etcd, 3)
		if foreign {
			claim.OwnerReferences = others
		}
		r.Expect(r.api.Create(t.Context(), claim)).To(Succeed())
		r.Expect(r.next(0).Outcome).To(Equal(tasks.Done), "claims are kept: "+name)
		r.task.Etcd.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.PersistentVolumeClaimRetentionPolicy{WhenScaled: v1alpha1.VolumesDeleted}
		r.Expect(r.api.Update(t.Context(), r.task.Etcd)).To(Succeed())
		v := r.next(0)
		r.Expect(v.Outcome).To(Equal(tasks.Done), "no agent has looked at it: "+name)
		r.Expect(v.Message).To(ContainSubstring("main-main-3 stay"))
		r.scaledAway("main-3")
		v, err := r.handler.Execute(t.Context(), r.task)
		r.Expect(err).NotTo(HaveOccurred())
		if foreign {
			r.Expect(v.Outcome).To(Equal(tasks.Done), "it keeps nothing else from ending")
			r.Expect(v.Message).To(ContainSubstring("main-main-3 stay"))
			continue
		}
		r.Expect(v.Step.Operation).To(Equal("DeleteClaim"))
		observed := v.Step.Detail.(detail).in.Claims[3]
		observed.OwnerReferences = others
		r.Expect(coded.Of(r.handler.Perform(t.Context(), r.task.Task, *v.Step), "")).To(Equal(v1alpha1.ErrForeignObject))
		observed.OwnerReferences = claim.OwnerReferences
		r.Expect(r.handler.Perform(t.Context(), r.task.Task, *v.Step)).To(Succeed())
		r.Expect(r.api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim)).NotTo(Succeed())
	}
}

// surging is a single member whose pod a rollout needs to be replaced, with claims that exist.
func surging(t *testing.T, claims ...string) *trial {
	r := newTrial(t, 1, 1)
	r.task.Etcd.Spec.SurgePolicy = v1alpha1.SurgeSingleMember
	r.Expect(r.api.Update(t.Context(), r.task.Etcd)).To(Succeed())
	rollout := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "rollout", UID: "rollout"}}
	rollout.Spec = v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.QuorumAwareRollout, OwnerEtcdReference: v1alpha1.EtcdReference{Name: "main"}}
	rollout.Status = v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStateInProgress, Rollout: &v1alpha1.RolloutStatus{Relieve: "main-0"}}
	r.Expect(r.api.Create(t.Context(), rollout)).To(Succeed())
	for _, name := range claims {
		r.claim(name)
	}
	return r
}

// claim makes a claim as the StatefulSet controller does.
func (r *trial) claim(name string) {
	r.Expect(r.api.Create(r.t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: "main"},
	}})).To(Succeed())
}

// mark is what a claim says of its being temporary.
func (r *trial) mark(name string) string {
	claim := &corev1.PersistentVolumeClaim{}
	r.Expect(r.api.Get(r.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, claim)).To(Succeed())
	return claim.Annotations[v1alpha1.AnnotationTemporary]
}

// The second member is on a claim that is marked as temporary before it joins, and loses the mark if the member is to stay.
func TestSurges(t *testing.T) {
	r := surging(t, "main-main-0")
	v := r.next(0)
	r.Expect(v.Step.Operation).To(Equal("ScaleUp"))
	r.Expect(v.Membership.NewClaim).To(Equal("main-main-1"))
	r.claim("main-main-1")
	r.Expect(r.next(time.Second).Membership.NewClaim).To(Equal("main-main-1"))
	r.joining()
	r.Expect(r.settle().Step.Operation).To(Equal("AddLearner"))
	r.Expect(r.mark("main-main-1")).To(Equal("main-main-1"))
	r.Expect(r.mark("main-main-0")).To(BeEmpty())

	r.list = append(r.list, etcdclient.Member{ID: 2, Name: "main-1"})
	o := &r.live.Ordinals[1]
	o.Class, o.Role, o.MemberID, o.Answers, o.Serving, o.Pod.Refusal = v1alpha1.ClassParticipating, v1alpha1.RoleFollower, 2, true, true, nil
	r.task.Etcd.Spec.Replicas = 3
	r.Expect(r.api.Update(t.Context(), r.task.Etcd)).To(Succeed())
	r.Expect(r.settle().Step.Operation).To(Equal("ScaleUp"))
	r.Expect(r.mark("main-main-1")).To(BeEmpty(), "its member is to stay")
}

// A claim that a member has left behind is not made temporary, and no member is started on one of someone else.
func TestSurgesOnAClaimThatExists(t *testing.T) {
	r := surging(t, "main-main-0", "main-main-1")
	v := r.next(0)
	r.Expect(v.Step.Operation).To(Equal("ScaleUp"))
	r.Expect(v.Membership.NewClaim).To(BeEmpty())
	r.joining()
	r.Expect(r.settle().Step.Operation).To(Equal("AddLearner"))
	r.Expect(r.mark("main-main-1")).To(BeEmpty())

	r = surging(t, "main-main-0")
	r.Expect(r.api.Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main-main-1", UID: "foreign"}})).To(Succeed())
	r.Expect(r.next(0).Message).To(HavePrefix("StoreFree: PersistentVolumeClaim ns/main-main-1 has neither the labels"))
}

func TestAdmit(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.Etcd)
		config Config
		code   v1alpha1.ErrorCode
	}{
		"as it is":     {func(*v1alpha1.Etcd) {}, Config{Size: 3}, ""},
		"another size": {func(*v1alpha1.Etcd) {}, Config{Size: 5}, v1alpha1.ErrSuperseded},
		"hibernates":   {func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 }, Config{}, v1alpha1.ErrSuperseded},
		"leaves a source": {func(e *v1alpha1.Etcd) {
			e.Spec.Replicas, e.Spec.Etcd.BootstrapWithExistingCluster = 0, &v1alpha1.BootstrapWithExistingCluster{}
		}, Config{}, ""},
		"has never served": {func(e *v1alpha1.Etcd) { e.Status.ClusterID = "" }, Config{}, v1alpha1.ErrNeverServed},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, 3, 3)
			r.task.Config = c.config
			etcd := r.task.Etcd.DeepCopy()
			c.change(etcd)
			r.Expect(r.api.Update(t.Context(), etcd)).To(Succeed())
			v, err := r.handler.Admit(t.Context(), r.task)
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(v.Code).To(Equal(c.code), v.Message)
			r.task.Etcd = etcd
			by, err := r.handler.Superseded(t.Context(), r.task)
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(by != "").To(Equal(c.code == v1alpha1.ErrSuperseded))
		})
	}
	r := newTrial(t, 3, 3)
	r.Expect(r.api.Delete(t.Context(), &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}})).To(Succeed())
	v, err := r.handler.Admit(t.Context(), r.task)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(v.Code).To(Equal(v1alpha1.ErrStatefulSetNotFound))
}

func TestConfig(t *testing.T) {
	g := NewWithT(t)
	for size, valid := range map[int32]bool{0: true, 1: true, 2: false, 3: true, 4: false, 5: true, 7: false, -1: false} {
		g.Expect((&Config{Size: size}).Validate() == nil).To(Equal(valid), "%d", size)
	}
}

// An operator that was paused does nothing when it wakes.
func TestPausedOperator(t *testing.T) {
	r := newTrial(t, 1, 3)
	r.joining()
	var v tasks.Verdict
	for v.Step == nil {
		r.clock.SetTime(r.clock.Now().Add(time.Second))
		var err error
		v, err = r.handler.Execute(t.Context(), r.task)
		r.Expect(err).NotTo(HaveOccurred())
	}
	r.clock.SetTime(r.clock.Now().Add(time.Minute))
	r.Expect(r.handler.Perform(t.Context(), r.task.Task, *v.Step)).To(MatchError(context.DeadlineExceeded))
	r.Expect(r.asked).To(BeEmpty())
}

// The API names the guard by which the queue knows that a request may still take effect.
func TestTheGuardOfTheAPI(t *testing.T) {
	if v1alpha1.GuardChangeObserved != v1alpha1.GuardName(membership.GuardChangeObserved) {
		t.Errorf("%s is not %s", v1alpha1.GuardChangeObserved, membership.GuardChangeObserved)
	}
}

// A task that runs ends when the spec asks for another number, also if only the API server shows that: the next one turns round at once.
func TestARunningTaskIsSuperseded(t *testing.T) {
	for name, cached := range map[string]int32{"the cache shows it": 3, "the cache lags": 5} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, 3, 3)
			r.task.Etcd = r.task.Etcd.DeepCopy()
			r.task.Etcd.Spec.Replicas, r.task.Config.Size = cached, 5
			v, err := r.handler.Execute(t.Context(), r.task)
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(v.Step).To(BeNil())
			r.Expect(v.Code).To(Equal(v1alpha1.ErrSuperseded))
		})
	}
}

// Once the Etcd is deleted, no member is added any more, also if only the API server shows that: the finalizer lets it go when the list is
// free of them.
func TestATaskOfADeletedEtcdIsSuperseded(t *testing.T) {
	r := newTrial(t, 1, 3)
	r.waiting()
	deleted := r.task.Etcd.DeepCopy()
	deleted.Finalizers = []string{v1alpha1.FinalizerLeaveSource}
	r.Expect(r.api.Update(t.Context(), deleted)).To(Succeed())
	r.Expect(r.api.Delete(t.Context(), deleted)).To(Succeed())
	for range 10 {
		r.clock.SetTime(r.clock.Now().Add(time.Second))
		v, err := r.handler.Execute(t.Context(), r.task)
		r.Expect(err).NotTo(HaveOccurred())
		r.Expect(v.Step).To(BeNil())
		if v.Code != "" {
			r.Expect(v.Code).To(Equal(v1alpha1.ErrSuperseded))
			r.Expect(v.Message).To(ContainSubstring("Etcd main is being deleted"))
			return
		}
	}
	t.Error("the task goes on")
}
