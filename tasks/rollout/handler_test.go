// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

type change func(*cluster.Snapshot)

// observed is a healthy cluster of three at the old revision, led by m-0, with changes.
func observed(at time.Time, changes ...change) *cluster.Snapshot {
	s := &cluster.Snapshot{At: at, StatefulSet: cluster.StatefulSet{Name: "m", Observed: true, OnDelete: true, UpdateRevision: "new", EtcdVersion: "3.6.16"}}
	s.Cluster = cluster.Cluster{Reachable: true, Leader: 1, LeaderKnown: true, Term: 2}
	for i := range 3 {
		name := fmt.Sprintf("m-%d", i)
		s.Ordinals = append(s.Ordinals, cluster.Ordinal{
			Name: name, Class: v1alpha1.ClassParticipating, Role: v1alpha1.RoleFollower, MemberID: uint64(i + 1), Answers: true, Serving: true,
			Pod: &cluster.Pod{UID: types.UID(name), ResourceVersion: "1", Revision: "old", Ready: true, AllContainersReady: true, EtcdStarted: noon.Add(-time.Hour), GracePeriod: 30 * time.Second},
		})
		s.Cluster.Voters = append(s.Cluster.Voters, cluster.Voter{ID: uint64(i + 1), Name: name, Ordinal: i, Serving: true})
	}
	s.Ordinals[0].Role = v1alpha1.RoleLeader
	for _, c := range changes {
		c(s)
	}
	return s
}

func dead(ordinal int) change {
	return func(s *cluster.Snapshot) {
		o := &s.Ordinals[ordinal]
		o.Class, o.Answers, o.Serving, o.Role, o.Pod.Trouble = v1alpha1.ClassDead, false, false, v1alpha1.RoleUnknown, "crashed"
		o.Pod.Ready, o.Pod.AllContainersReady = false, false
		s.Cluster.Voters[ordinal].Serving = false
	}
}

func updated(ordinals ...int) change {
	return func(s *cluster.Snapshot) {
		for _, i := range ordinals {
			s.Ordinals[i].Pod.Revision = "new"
		}
	}
}

func updating(ordinal int) change {
	return func(s *cluster.Snapshot) { s.Ordinals[ordinal].Pod.Updating = true }
}

// witness is an Observer that has been told what to say.
type witness struct {
	// cached is what the cache and the members say, and live what the API server and the members say.
	cached, live *cluster.Snapshot
	failure      error
	// confirmed is how often the API server was asked.
	confirmed int
	// asked is how often it was asked what agents have read, which is read, or fails with reading.
	asked   int
	read    cluster.Read
	reading error
}

func (w *witness) Observe(context.Context, client.Reader, *v1alpha1.Etcd) (*cluster.Snapshot, error) {
	return w.cached, nil
}

func (w *witness) Confirm(context.Context, client.Reader, *v1alpha1.Etcd, *cluster.Snapshot) (*cluster.Snapshot, error) {
	w.confirmed++
	return w.live, w.failure
}

func (w *witness) Reads(_ context.Context, _ client.Reader, _ *v1alpha1.Etcd, s *cluster.Snapshot) error {
	w.asked++
	for i := range s.Ordinals {
		s.Ordinals[i].Read = w.read
	}
	return w.reading
}

// trial is a handler with a witness, whose deletions are recorded.
type trial struct {
	Gomega
	handler *Handler
	witness *witness
	clock   *clocktesting.FakePassiveClock
	task    tasks.Typed[rollout.Config]
	deleted []string
}

func newTrial(t *testing.T, cached, live *cluster.Snapshot) *trial {
	r := &trial{Gomega: NewWithT(t), witness: &witness{cached: cached, live: live}, clock: clocktesting.NewFakePassiveClock(noon)}
	r.task = tasks.Typed[rollout.Config]{Config: rollout.DefaultConfig(), Task: tasks.Task{
		Object: &v1alpha1.EtcdOperatorTask{Status: v1alpha1.EtcdOperatorTaskStatus{Rollout: &v1alpha1.RolloutStatus{TargetRevision: "new"}}},
		Etcd:   &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "etcd"}},
	}}
	r.task.Object.Namespace, r.task.Object.Spec.OwnerEtcdReference.Name = "ns", "m"
	r.handler = &Handler{Observer: r.witness, Clock: r.clock}
	r.handler.Rule, r.handler.Live = replacer.Operator{}, r.live(statefulSet())
	r.handler.Client = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(ctx context.Context, _ client.WithWatch, pod client.Object, _ ...client.DeleteOption) error {
			if ctx.Err() == nil {
				r.deleted = append(r.deleted, pod.GetName())
			}
			return ctx.Err()
		},
	}).Build()
	return r
}

// live is the API server, with the Etcd as the cache has it, and other objects.
func (r *trial) live(objects ...client.Object) client.Client {
	return fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, a client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if etcd, ok := o.(*v1alpha1.Etcd); ok {
				r.task.Etcd.DeepCopyInto(etcd)
				return nil
			}
			return a.Get(ctx, key, o, options...)
		},
	}).Build()
}

// statefulSet is that of the task's Etcd on the API server, with changes.
func statefulSet(changes ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}}}
	s.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd, Name: "m", UID: "etcd", Controller: ptr.To(true)}}
	s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	for _, c := range changes {
		c(s)
	}
	return s
}

// managedBy is a replacer.Rule that objects to StatefulSets of another manager.
type managedBy string

func (m managedBy) Foreign(*v1alpha1.Etcd, string, metav1.Object) *ownership.Foreign { return nil }

func (m managedBy) Objection(_ *v1alpha1.Etcd, set *appsv1.StatefulSet) string {
	if set.Labels[v1alpha1.LabelManagedBy] != string(m) {
		return "it is not managed by " + string(m)
	}
	return ""
}

// Another writer of the StatefulSet takes no lock of this operator: it is read once more right before a removal.
func TestNothingIsRemovedOnceAnotherReplacesPods(t *testing.T) {
	rolling := func(s *appsv1.StatefulSet) {
		s.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
	}
	ofDruid := func(s *appsv1.StatefulSet) { s.Labels[v1alpha1.LabelManagedBy] = v1alpha1.ManagedByDruid }
	for name, c := range map[string]struct {
		rule    replacer.Rule
		live    []func(*appsv1.StatefulSet)
		removed []string
	}{
		"nothing has changed":         {replacer.Operator{}, nil, []string{"m-2"}},
		"the strategy has":            {replacer.Operator{}, []func(*appsv1.StatefulSet){rolling}, nil},
		"etcd-druid manages it":       {replacer.Operator{}, []func(*appsv1.StatefulSet){ofDruid}, nil},
		"another rule allows it":      {managedBy(v1alpha1.ManagedByDruid), []func(*appsv1.StatefulSet){ofDruid}, []string{"m-2"}},
		"another rule no longer does": {managedBy(v1alpha1.ManagedByDruid), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, observed(noon), observed(noon))
			v, err := r.handler.Execute(t.Context(), r.task)
			r.Expect(err).NotTo(HaveOccurred())
			r.handler.Rule, r.handler.Live = c.rule, fake.NewClientBuilder().WithObjects(statefulSet(c.live...)).Build()
			err = r.handler.Perform(t.Context(), r.task.Task, *v.Step)
			r.Expect(r.deleted).To(Equal(c.removed))
			if c.removed == nil {
				r.Expect(coded.Of(err, "")).To(Equal(v1alpha1.ErrStrategy))
			}
		})
	}
}

// etcd-druid sets its finalizer before it writes the StatefulSet, and the cache may not have it yet.
func TestNothingIsRemovedOnceDruidIsBack(t *testing.T) {
	for _, back := range []bool{false, true} {
		r := newTrial(t, observed(noon), observed(noon))
		v, err := r.handler.Execute(t.Context(), r.task)
		r.Expect(err).NotTo(HaveOccurred())
		cached := r.task.Task
		cached.Etcd = r.task.Etcd.DeepCopy()
		if back {
			r.task.Etcd.Finalizers = []string{v1alpha1.FinalizerDruid}
		}
		r.handler.Live = r.live(statefulSet(func(s *appsv1.StatefulSet) {
			s.Labels[v1alpha1.LabelManagedBy], s.Annotations = v1alpha1.ManagedByDruid, map[string]string{v1alpha1.AnnotationAdoptedBy: "etcd"}
		}))
		err = r.handler.Perform(t.Context(), cached, *v.Step)
		if back {
			r.Expect(err).To(MatchError(ContainSubstring("has put its finalizer")))
			r.Expect(r.deleted).To(BeEmpty())
		} else {
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(r.deleted).To(ConsistOf("m-2"))
		}
	}
}

// What agents have read is asked where a second member may take over, by the cache and by the API server; an agent that has reported
// nothing for two minutes gets a newer one without that.
func TestAnAgentThatIsTooOldIsReplaced(t *testing.T) {
	single := func(at time.Time) *cluster.Snapshot {
		return observed(at, func(s *cluster.Snapshot) {
			s.Ordinals, s.Cluster.Voters = s.Ordinals[:1], s.Cluster.Voters[:1]
			s.Ordinals[0].Pod.AgentOutdated = true
		})
	}
	step := func(r *trial, at time.Time) tasks.Verdict {
		r.clock.SetTime(at)
		r.witness.cached, r.witness.live = single(at), single(at)
		v, err := r.handler.Execute(t.Context(), r.task)
		r.Expect(err).NotTo(HaveOccurred())
		return v
	}
	r := newTrial(t, nil, nil)
	r.Expect(step(r, noon).Step).NotTo(BeNil())
	r.Expect(r.witness.asked).To(BeZero(), "the Etcd does not surge")

	r = newTrial(t, nil, nil)
	r.task.Etcd.Spec.SurgePolicy = v1alpha1.SurgeSingleMember
	r.task.Etcd.Spec.Replicas = 1
	for s := 0; s < 120; s += 5 {
		held := step(r, noon.Add(time.Duration(s)*time.Second)).Rollout
		r.Expect(held.HeldBy.Guard).To(Equal(v1alpha1.GuardMemberRelieved))
		r.Expect(held.Relieve).NotTo(BeEmpty())
	}
	r.Expect(r.witness.asked).To(Equal(24))
	v := step(r, noon.Add(2*time.Minute))
	r.Expect(v.Step.Operation).To(Equal(string(rollout.DeletePod)))
	r.Expect(v.Step.Reason).To(ContainSubstring("no second member takes over, since its agent is too old"))
	r.Expect(v.Rollout.Relieve).To(BeEmpty(), "the change of members goes back")
	r.Expect(r.witness.asked).To(Equal(26), "the API server is asked before a pod goes")

	r.witness.read = cluster.Read{Etcd: "etcd"}
	r.Expect(step(r, noon.Add(2*time.Minute+time.Second)).Rollout.HeldBy.Guard).To(Equal(v1alpha1.GuardMemberRelieved))
	r.witness.reading = errors.New("no leases")
	_, err := r.handler.Execute(t.Context(), r.task)
	r.Expect(coded.Of(err, "")).To(Equal(v1alpha1.ErrObserve))
}

// What ends a task says whose the pods are now.
func TestEndOfATaskWhosePodsAnotherReplaces(t *testing.T) {
	objected := func(onDelete bool) *cluster.Snapshot {
		return observed(noon, func(s *cluster.Snapshot) {
			s.StatefulSet.OnDelete, s.StatefulSet.Objection = onDelete, "etcd-druid wrote it"
		})
	}
	for code, onDelete := range map[v1alpha1.ErrorCode]bool{v1alpha1.ErrStrategy: false, v1alpha1.ErrForeignObject: true} {
		r := newTrial(t, objected(onDelete), objected(onDelete))
		v, err := r.handler.Execute(t.Context(), r.task)
		r.Expect(err).NotTo(HaveOccurred())
		r.Expect(v.Outcome).To(Equal(tasks.Fail))
		r.Expect(v.Code).To(Equal(code))
		r.Expect(v.Message).To(Equal("etcd-druid wrote it"))
	}
}

// The last report of a kubelet that has fallen silent is no proof that an etcd is not running, where the quorum may depend on it. Timers do not
// hear of the silence, and the API server is asked only by who is about to remove a pod.
func TestTheLastReportOfASilentNodeProvesNothing(t *testing.T) {
	leaderless := func(s *cluster.Snapshot) {
		s.Cluster.LeaderKnown, s.Cluster.Leader = false, 0
		for i := range s.Ordinals {
			s.Ordinals[i].Serving, s.Cluster.Voters[i].Serving = false, false
		}
	}
	unreachable := func(s *cluster.Snapshot) { s.Ordinals[0].Answers, s.Ordinals[0].Class = false, v1alpha1.ClassUnready }
	for name, c := range map[string]struct {
		seen    []change
		renewed time.Duration // how long ago; negative for a Lease that cannot be read
		failed  bool
		held    v1alpha1.GuardName
		says    string
		reads   int
	}{
		"the node reports":                        {[]change{leaderless, unreachable, dead(2)}, 8 * time.Second, false, "", "", 1},
		"it is silent, and the rest may lead":     {[]change{leaderless, unreachable, dead(2)}, 9 * time.Second, false, v1alpha1.GuardQuorumLossConfirmed, "m-0, m-2 may still have a leader that the operator cannot reach", 1},
		"it is silent, and a leader may need it":  {[]change{unreachable, dead(2), func(s *cluster.Snapshot) { s.Cluster.Voters[0].Serving = false }}, 9 * time.Second, false, v1alpha1.GuardQuorumKept, "m-2 may be running although it was last reported as Dead (crashed), and its node n is silent (its Lease has not been renewed for 8s)", 1},
		"it is silent, and the quorum is without": {[]change{dead(2)}, time.Hour, false, "", "", 1},
		"nothing is known of the node":            {[]change{leaderless, unreachable, dead(2)}, -1, false, "", "", 1},
		"the Lease is not read":                   {[]change{leaderless, unreachable, dead(2)}, 0, true, "", "", 1},
		"all run":                                 {nil, time.Hour, false, "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			at := func(s *cluster.Snapshot) {
				for i := range s.Ordinals {
					s.Ordinals[i].Pod.Node.Name = "n"
				}
			}
			r, reads := newTrial(t, observed(noon, append(c.seen, at)...), observed(noon, append(c.seen, at)...)), 0
			r.handler.Live = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
					if etcd, ok := into.(*v1alpha1.Etcd); ok {
						r.task.Etcd.DeepCopyInto(etcd)
						return nil
					}
					reads++
					if c.failed {
						return errNoAnswer
					}
					if c.renewed < 0 {
						return apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, key.Name)
					}
					into.SetManagedFields([]metav1.ManagedFieldsEntry{{Time: &metav1.Time{Time: noon.Add(-c.renewed)}}})
					return nil
				},
			}).Build()
			r.handler.Client = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
					o.SetCreationTimestamp(metav1.NewTime(noon))
					return nil
				},
			}).Build()
			v, err := r.handler.Execute(t.Context(), r.task)
			r.Expect(reads).To(Equal(c.reads))
			switch {
			case c.failed:
				r.Expect(coded.Of(err, "")).To(Equal(v1alpha1.ErrObserve))
			case c.held != "":
				r.Expect(v.Step).To(BeNil())
				r.Expect(v.Rollout.HeldBy.Guard).To(Equal(c.held))
				r.Expect(v.Message).To(ContainSubstring(c.says))
			default:
				r.Expect(err).NotTo(HaveOccurred())
				r.Expect(v.Step.Operation).To(Equal(string(rollout.DeletePod)))
			}
		})
	}
}

// Nothing is removed on what a cache says: the API server has the last word.
func TestRemovalIsDecidedOnLiveReads(t *testing.T) {
	for name, c := range map[string]struct {
		cached, live []change
		step         string // what is carried out
		held         string // or what is waited for
		outcome      tasks.Outcome
		confirmed    int
	}{
		"they agree":                             {step: "m-2", confirmed: 1},
		"another member has died":                {live: []change{dead(1)}, step: "m-1", confirmed: 1},
		"another pod is away":                    {live: []change{updated(1), dead(1)}, held: "m-1", confirmed: 1},
		"the pod is updated already":             {live: []change{updated(2)}, step: "m-1", confirmed: 1},
		"the cache already shows that":           {cached: []change{updated(1), dead(1)}, held: "m-1", confirmed: 0},
		"all are, and the cache lags":            {live: []change{updated(0, 1, 2)}, outcome: tasks.Done, confirmed: 1},
		"the cache shows what is not so":         {cached: []change{updated(0, 1, 2)}, step: "m-2", confirmed: 1},
		"the template has changed since":         {live: []change{func(s *cluster.Snapshot) { s.StatefulSet.UpdateRevision = "newer" }}, outcome: tasks.Reject, confirmed: 1},
		"RollingUpdate was switched on":          {live: []change{func(s *cluster.Snapshot) { s.StatefulSet.OnDelete = false }}, outcome: tasks.Fail, confirmed: 1},
		"the cache shows a template of the past": {cached: []change{func(s *cluster.Snapshot) { s.StatefulSet.UpdateRevision = "older" }}, step: "m-2", confirmed: 1},
		"the cache shows RollingUpdate":          {cached: []change{func(s *cluster.Snapshot) { s.StatefulSet.OnDelete = false }}, step: "m-2", confirmed: 1},
		"leadership moves on what is known":      {cached: []change{updated(1, 2)}, step: "", confirmed: 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, observed(noon, c.cached...), observed(noon, c.live...))
			v, err := r.handler.Execute(t.Context(), r.task)
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(r.witness.confirmed).To(Equal(c.confirmed))
			switch {
			case c.outcome != "":
				r.Expect(v.Outcome).To(Equal(c.outcome))
			case c.held != "":
				r.Expect(v.Step).To(BeNil())
				r.Expect(v.Rollout.HeldBy.Pod).To(Equal(c.held))
			case c.step == "":
				r.Expect(v.Step.Operation).To(Equal(string(rollout.MoveLeader)))
			default:
				r.Expect(r.handler.Perform(t.Context(), r.task.Task, *v.Step)).To(Succeed())
				r.Expect(r.deleted).To(Equal([]string{c.step}))
				r.Expect(v.Rollout.Pods).To(HaveLen(1), "it was recorded before")
			}
		})
	}
}

// A second member takes over first as soon as the Etcd asks for that, also where the cache does not show it yet. A pod of an Etcd that was
// created again is not removed for the one before.
func TestRemovalIsDecidedOnTheLiveEtcd(t *testing.T) {
	for name, c := range map[string]struct {
		live   func(*v1alpha1.Etcd)
		held   v1alpha1.GuardName
		failed bool
	}{
		"as in the cache":      {live: func(*v1alpha1.Etcd) {}},
		"something else of it": {live: func(e *v1alpha1.Etcd) { e.Generation++ }},
		"it surges": {live: func(e *v1alpha1.Etcd) {
			e.Generation++
			e.Spec.SurgePolicy = v1alpha1.SurgeSingleMember
		}, held: v1alpha1.GuardMemberRelieved},
		"it is another one": {live: func(e *v1alpha1.Etcd) { e.UID = "another" }, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			single := observed(noon, func(s *cluster.Snapshot) { s.Ordinals, s.Cluster.Voters = s.Ordinals[:1], s.Cluster.Voters[:1] })
			r := newTrial(t, single, single)
			r.task.Etcd.Spec.Replicas = 1
			etcd := r.task.Etcd.DeepCopy()
			c.live(etcd)
			r.handler.Live = (&trial{task: tasks.Typed[rollout.Config]{Task: tasks.Task{Etcd: etcd}}}).live(statefulSet())
			v, err := r.handler.Execute(t.Context(), r.task)
			switch {
			case c.failed:
				r.Expect(coded.Of(err, "")).To(Equal(v1alpha1.ErrObserve))
			case c.held != "":
				r.Expect(err).NotTo(HaveOccurred())
				r.Expect(v.Step).To(BeNil())
				r.Expect(v.Rollout.HeldBy.Guard).To(Equal(c.held))
			default:
				r.Expect(err).NotTo(HaveOccurred())
				r.Expect(v.Step.Operation).To(Equal(string(rollout.DeletePod)))
			}
		})
	}
}

// A revocation on a cache that lags would do no harm: it costs no member, and its patch names the UID of the pod. It would be a
// write for nothing, and a status that says what is not so.
func TestRevocationIsDecidedOnLiveReads(t *testing.T) {
	away := func(s *cluster.Snapshot) {
		dead(2)(s)
		s.Ordinals[2].Class, s.Ordinals[2].Pod = v1alpha1.ClassMissing, nil
		s.Cluster.LeaderKnown = false // with m-1 dead there is no quorum
	}
	for name, c := range map[string]struct {
		live []change
		want string
	}{
		"the deletion may still come":  {[]change{dead(1)}, string(rollout.RevokeDeletion)},
		"it has come by what is there": {[]change{away, dead(1)}, string(rollout.DeletePod)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, observed(noon, dead(1)), observed(noon, c.live...))
			r.task.Object.Status.Rollout.Pods = []v1alpha1.RolloutPod{{
				Name: "m-2", UID: "m-2", LastOperation: v1alpha1.LastOperation{State: v1alpha1.OperationStateInProgress}, Evidence: v1alpha1.Evidence{ResourceVersion: "1"},
			}}
			v, err := r.handler.Execute(t.Context(), r.task)
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(v.Step.Operation).To(Equal(c.want))
			r.Expect(r.witness.confirmed).To(Equal(1))
		})
	}
}

// A rollout that is to pause does so where the cluster is whole, by what the cache shows: it does nothing.
func TestPausing(t *testing.T) {
	for name, c := range map[string]struct {
		seen      []change
		pauses    bool
		confirmed int
	}{
		"all participate":  {nil, true, 0},
		"a member is down": {[]change{dead(1)}, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, observed(noon, c.seen...), observed(noon, c.seen...))
			r.task.Pausing = true
			v, err := r.handler.Execute(t.Context(), r.task)
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(v.Outcome).To(Equal(tasks.Continue))
			r.Expect(v.Pauses).To(Equal(c.pauses))
			r.Expect(v.Step == nil).To(Equal(c.pauses))
			r.Expect(v.Rollout.Replicas).To(Equal(int32(3)))
			r.Expect(r.witness.confirmed).To(Equal(c.confirmed))
		})
	}
}

func TestNothingHappensWhenTheAPIServerDoesNotAnswer(t *testing.T) {
	r := newTrial(t, observed(noon), nil)
	r.witness.failure = errors.New("refused")
	v, err := r.handler.Execute(t.Context(), r.task)
	r.Expect(coded.Of(err, "")).To(Equal(v1alpha1.ErrObserve))
	r.Expect(v.Step).To(BeNil())
}

// An operator that is paused in the middle of a removal does nothing when it wakes: the members may have changed since
// they answered, and an operator that has taken over counts on it.
func TestRemovalByAnOperatorThatWasPaused(t *testing.T) {
	for name, c := range map[string]struct {
		seen, decided time.Duration // before the deletion
		deleted       bool
	}{
		"it was not":                    {time.Second, time.Second, true},
		"since it saw the cluster":      {configv1alpha1.StepTimeout, 0, false},
		"since it recorded the removal": {configv1alpha1.StepTimeout, configv1alpha1.StepTimeout, false},
		"since it decided":              {0, configv1alpha1.StepTimeout, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := observed(noon.Add(-c.seen))
			r := newTrial(t, s, s)
			r.clock.SetTime(noon.Add(-c.decided))
			v, err := r.handler.Execute(t.Context(), r.task)
			r.Expect(err).NotTo(HaveOccurred())
			r.clock.SetTime(noon)
			err = r.handler.Perform(t.Context(), r.task.Task, *v.Step)
			r.Expect(err == nil).To(Equal(c.deleted))
			r.Expect(len(r.deleted) > 0).To(Equal(c.deleted))
		})
	}
}

// What the handler remembers of a task goes with the task.
func TestCleanupForgets(t *testing.T) {
	r := newTrial(t, observed(noon), observed(noon))
	_, err := r.handler.Execute(t.Context(), r.task)
	r.Expect(err).NotTo(HaveOccurred())
	r.handler.tracker.refuse("", "m-2", rollout.RefusedWrite{At: noon})
	r.Expect(r.handler.tracker.refusals("")).To(HaveLen(1))
	r.Expect(r.handler.Cleanup(t.Context(), r.task.Task)).To(Succeed())
	r.Expect(r.handler.tracker.tasks).To(BeEmpty())
}

// A task that is suspended revokes what it has recorded, and goes on with what it knows.
func TestRevokingIntentsForgetsNothing(t *testing.T) {
	r := newTrial(t, observed(noon), observed(noon))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m-2", UID: "m-2", ResourceVersion: "7"}}
	api := fake.NewClientBuilder().WithObjects(pod).Build()
	r.handler.Client, r.handler.Live = api, api
	r.task.Object.Name, r.task.Object.Namespace = "t", "ns"
	r.handler.tracker.refuse("", "m-2", rollout.RefusedWrite{At: noon})
	r.Expect(r.handler.RevokeIntents(t.Context(), r.task.Task)).To(Succeed(), "nothing is recorded")
	r.task.Object.Status.Rollout = &v1alpha1.RolloutStatus{Pods: []v1alpha1.RolloutPod{{
		Name: "m-2", UID: "m-2", LastOperation: v1alpha1.LastOperation{State: v1alpha1.OperationStateInProgress}, Evidence: v1alpha1.Evidence{ResourceVersion: "7"},
	}}}
	var versions []string
	for range 2 {
		r.Expect(r.handler.RevokeIntents(t.Context(), r.task.Task)).To(Succeed())
		r.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		r.Expect(pod.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationDeletionRevoked, "t@7"))
		versions = append(versions, pod.ResourceVersion)
	}
	r.Expect(versions).To(Equal([]string{"8", "8"}), "once")
	r.Expect(r.handler.tracker.refusals("")).To(HaveLen(1))
}

func TestVerdictOfAStalledRollout(t *testing.T) {
	g := NewWithT(t)
	in := rollout.Input{Snapshot: observed(noon, updated(0), dead(0)), Config: rollout.DefaultConfig()}
	in.Recorded = v1alpha1.RolloutStatus{TargetRevision: "new", UpdatedReplicas: 1, ParticipatingReplicas: 2, LastProgressTime: &metav1.Time{Time: noon.Add(-9 * time.Minute)}}
	for _, at := range []time.Time{noon, noon.Add(time.Hour)} {
		v := verdict(in, rollout.Decide(in, at), at)
		g.Expect(v.Reason).To(Equal(v1alpha1.ReasonHeld), "the engine judges for how long that has lasted")
		g.Expect(v.ProgressDeadline).To(Equal(10 * time.Minute))
		g.Expect(v.Rollout.LastProgressTime.Time).To(Equal(noon.Add(-9 * time.Minute)))
		g.Expect(v.Message).To(HavePrefix("OthersParticipating: m-0 is not running (crashed)"))
		g.Expect(v.Step).To(BeNil(), "a rollout never times out into a deletion")
	}
}

// The fallback to readiness probes is promised where it comes.
func TestPromiseWhileNoMemberAnswers(t *testing.T) {
	g := NewWithT(t)
	in := rollout.Input{Snapshot: observed(noon), Config: rollout.DefaultConfig(), Timers: rollout.Timers{NoAnswerSince: noon}}
	g.Expect(reachable(in).Message).To(ContainSubstring("after 30s the rollout goes by readiness probes"))
	in.HasSource = true
	g.Expect(reachable(in).Message).To(And(ContainSubstring("check NetworkPolicies and TLS"), ContainSubstring("the rollout waits"), Not(ContainSubstring("the rollout goes by"))))
}

// After a handover the handler looks again soon, until the members know of it.
func TestRequeueAfterAHandover(t *testing.T) {
	g := NewWithT(t)
	in := rollout.Input{Snapshot: observed(noon), Config: rollout.DefaultConfig()}
	in.Recorded = v1alpha1.RolloutStatus{TargetRevision: "new", LeaderHandover: &v1alpha1.LeaderHandover{From: "m-0", To: "m-1", Attempts: 1, LastAttemptTime: metav1.Time{Time: noon}}}
	wait := rollout.Decision{Conclusion: rollout.Wait, Blocking: []rollout.Hold{{}}}
	g.Expect(verdict(in, wait, noon).RequeueAfter).To(Equal(handoverInterval))
	later := noon.Add(time.Minute)
	g.Expect(verdict(in, wait, later).RequeueAfter).To(Equal(pollInterval))
}

// While a pod starts, the API server says what is new. What else may be wrong is looked for as often as ever.
func TestRequeueWhileAPodStarts(t *testing.T) {
	starting := func(ordinal int) change {
		return func(s *cluster.Snapshot) {
			dead(ordinal)(s)
			s.Ordinals[ordinal].Class = v1alpha1.ClassStarting
		}
	}
	missing := func(s *cluster.Snapshot) { s.Ordinals[0].Class, s.Ordinals[0].Pod = v1alpha1.ClassMissing, nil }
	lost := func(s *cluster.Snapshot) { s.Ordinals[0].Pod.NodeLost = true }
	unready := func(s *cluster.Snapshot) { s.Ordinals[0].Class = v1alpha1.ClassUnready }
	for name, c := range map[string]struct {
		changes []change
		after   time.Duration
	}{
		"starts":                       {[]change{updated(0), starting(0)}, startInterval},
		"is missing":                   {[]change{missing}, startInterval},
		"starts etcd":                  {[]change{updated(0), unready}, pollInterval},
		"started on a node since lost": {[]change{updated(0), starting(0), lost}, pollInterval},
		"starts, and another is dead":  {[]change{updated(0), starting(0), dead(1)}, pollInterval},
		"starts beside another":        {[]change{updated(0), starting(0), starting(1)}, pollInterval},
	} {
		t.Run(name, func(t *testing.T) {
			in := rollout.Input{Snapshot: observed(noon, c.changes...), Config: rollout.DefaultConfig()}
			in.Recorded = v1alpha1.RolloutStatus{TargetRevision: "new"}
			wait := rollout.Decision{Conclusion: rollout.Wait, Blocking: []rollout.Hold{{}}}
			NewWithT(t).Expect(verdict(in, wait, noon).RequeueAfter).To(Equal(c.after))
		})
	}
}

func TestEtcdReachable(t *testing.T) {
	silent := func(ready bool) change {
		return func(s *cluster.Snapshot) {
			s.Cluster = cluster.Cluster{}
			for i := range s.Ordinals {
				o := &s.Ordinals[i]
				o.Class, o.Answers, o.Serving, o.Pod.Ready = v1alpha1.ClassUnready, false, false, ready
			}
		}
	}
	for name, c := range map[string]struct {
		snapshot *cluster.Snapshot
		want     metav1.ConditionStatus
	}{
		"members answer":                   {observed(noon), metav1.ConditionTrue},
		"none does although all are ready": {observed(noon, silent(true)), metav1.ConditionFalse},
		"none is ready":                    {observed(noon, silent(false)), metav1.ConditionUnknown},
	} {
		in := rollout.Input{Snapshot: c.snapshot, Config: rollout.DefaultConfig(), Timers: rollout.Timers{}.Next(c.snapshot)}
		if got := reachable(in); got.Status != c.want {
			t.Errorf("%s: %s, %s", name, got.Status, got.Message)
		}
	}
}
