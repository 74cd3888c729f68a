// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recreate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	"github.com/etcd-foreman/etcd-foreman/internal/base/taskconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// witness is an Observer that has been told what to say, of the cache and of the API server.
type witness struct {
	live         client.Reader
	cached, real *cluster.Snapshot
}

var errNoAnswer = errors.New("no answer")

func (w *witness) Observe(_ context.Context, reader client.Reader, _ *v1alpha1.Etcd) (*cluster.Snapshot, error) {
	says := w.cached
	if reader == w.live {
		says = w.real
	}
	if says == nil {
		return nil, errNoAnswer
	}
	return says, nil
}

// theEtcd is the Etcd of every task here, whose spec is applied.
func theEtcd() *v1alpha1.Etcd {
	e := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "etcd", Generation: 1}, Spec: v1alpha1.EtcdSpec{Replicas: 3}}
	e.Status.ObservedGeneration = 1
	return e
}

func newHandler(cached, live *cluster.Snapshot, change ...func(*v1alpha1.Etcd)) *Handler {
	etcd, scheme := theEtcd(), runtime.NewScheme()
	for _, c := range change {
		c(etcd)
	}
	if err := errors.Join(v1alpha1.AddToScheme(scheme), clientgoscheme.AddToScheme(scheme)); err != nil {
		panic(err)
	}
	cache, server := fake.NewClientBuilder().Build(), fake.NewClientBuilder().WithScheme(scheme).WithObjects(etcd).Build()
	return &Handler{Rollouts: tasks.Rollouts[rollout.RecreateConfig]{Client: cache, Live: server, Rule: replacer.Operator{}}, Observer: &witness{live: server, cached: cached, real: live}, Clock: clocktesting.NewFakePassiveClock(epoch)}
}

// seen is a world as an Observer sees it, with changes.
func seen(change ...func(*Input)) *cluster.Snapshot {
	in := newWorld()
	for _, c := range change {
		c(in)
	}
	return in.Snapshot
}

func revision(name string) func(*Input) {
	return func(in *Input) { in.Snapshot.StatefulSet.UpdateRevision = name }
}

func recreation(phase v1alpha1.RecreatePhase) tasks.Typed[rollout.RecreateConfig] {
	etcd := theEtcd()
	object := &v1alpha1.EtcdOperatorTask{Status: v1alpha1.EtcdOperatorTaskStatus{Rollout: &v1alpha1.RolloutStatus{Phase: phase, TargetRevision: "new"}}}
	object.UID, object.Spec.Type = "task", v1alpha1.RecreateRollout
	return tasks.Typed[rollout.RecreateConfig]{Task: tasks.Task{Object: object, Etcd: etcd}}
}

// That the Etcd is hibernated ends the task by what the API server says.
func TestHibernationIsReadLive(t *testing.T) {
	hibernated := func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 }
	none := seen(func(in *Input) { in.Snapshot.Ordinals = nil })
	for _, c := range []struct {
		live, cached bool
		want         tasks.Outcome
	}{{false, false, tasks.Continue}, {false, true, tasks.Continue}, {true, true, tasks.Reject}} {
		g := NewWithT(t)
		task := recreation(v1alpha1.RecreateReadyForCreation)
		var change []func(*v1alpha1.Etcd)
		if c.live {
			change = append(change, hibernated)
		}
		if c.cached {
			hibernated(task.Etcd)
		}
		v, err := newHandler(none, none, change...).Execute(t.Context(), task)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(v.Outcome).To(Equal(c.want), v.Message)
	}
}

// Another phase stops all members, or starts them. It is entered on what the API server says, and so does the task end.
func TestPhaseIsEnteredOnLiveReads(t *testing.T) {
	held := func(left ...string) func(*Input) { return func(in *Input) { in.hold(left...) } }
	back := func(in *Input) { in.pods("new", v1alpha1.ClassParticipating) }
	const (
		needs   = v1alpha1.RecreateNeedsDeletion
		waiting = v1alpha1.RecreateWaitingTermination
		ready   = v1alpha1.RecreateReadyForCreation
	)
	for name, c := range map[string]struct {
		phase        v1alpha1.RecreatePhase
		cached, live *cluster.Snapshot
		want         v1alpha1.RecreatePhase
		outcome      tasks.Outcome
	}{
		"nothing has to be done any more":     {"", seen(), seen(back), v1alpha1.RecreateComplete, tasks.Done},
		"what the cache shows is waited on":   {waiting, seen(held("m-0")), nil, waiting, tasks.Continue},
		"a pod is left that it does not show": {waiting, seen(held()), seen(held("m-0")), waiting, tasks.Continue},
		"it is not held, and the cache lags":  {needs, seen(held()), seen(), needs, tasks.Continue},
		"all are gone":                        {waiting, seen(held()), seen(held()), ready, tasks.Continue},
		"not all are back, and it lags":       {ready, seen(back), seen(func(in *Input) { in.pods("new", v1alpha1.ClassMissing) }), ready, tasks.Continue},
		"all are back":                        {ready, seen(back), seen(back), v1alpha1.RecreateComplete, tasks.Done},
		"the cache shows an older template":   {waiting, seen(revision("older")), seen(held("m-0")), waiting, tasks.Continue},
		"there is a newer template":           {waiting, seen(revision("newer")), seen(revision("newer")), waiting, tasks.Reject},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			v, err := newHandler(c.cached, c.live).Execute(t.Context(), recreation(c.phase))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(v.Outcome).To(Equal(c.outcome), v.Message)
			g.Expect(v.Rollout.Phase).To(Equal(c.want), v.Message)
		})
	}
}

// With a foreign object, no pod is stopped or started: a recreation says so before it begins, and while it waits, with the owner.
func TestForeignObjects(t *testing.T) {
	held := func(in *Input) { in.hold() }
	behind := func(e *v1alpha1.Etcd) { e.Status.ObservedGeneration = 0 }
	why := "PodDisruptionBudget ns/m has no controller: give the Etcd another name, or delete the PodDisruptionBudget if it is unused. While this is so, the operator stops and starts no member of the Etcd"
	for waits, c := range map[string]struct {
		phase v1alpha1.RecreatePhase
		seen  *cluster.Snapshot
	}{
		"no pod is stopped: ": {"", seen()},
		"waiting until the newest spec of the Etcd is applied to StatefulSet m: ": {"", seen()},
		"waiting until StatefulSet m is scaled to zero: ":                         {v1alpha1.RecreateNeedsDeletion, seen()},
		"StatefulSet m is no longer scaled to zero: waiting until it is: ":        {v1alpha1.RecreateWaitingTermination, seen()},
		"waiting until StatefulSet m is scaled up again: ":                        {v1alpha1.RecreateReadyForCreation, seen(held)},
	} {
		g := NewWithT(t)
		h, task := newHandler(c.seen, c.seen), recreation(c.phase)
		if strings.Contains(waits, "newest spec") {
			h = newHandler(c.seen, c.seen, behind)
			behind(task.Etcd)
		}
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd, Name: "m", UID: "etcd", Controller: ptr.To(true)},
		}}}
		set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
		g.Expect(h.Live.(client.Client).Create(t.Context(), set)).To(Succeed())
		task.Object.Namespace, task.Object.Spec.OwnerEtcdReference.Name = "ns", "m"
		v, err := h.Admit(t.Context(), task)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(v.Outcome).To(Equal(tasks.Continue), v.Message)

		g.Expect(h.Live.(client.Client).Create(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}})).To(Succeed())
		v, err = h.Admit(t.Context(), task)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(v).To(Equal(tasks.Rejected(v1alpha1.ErrForeignObject, "%s", why)))
		v, err = h.Execute(t.Context(), task)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(v.Message).To(Equal(waits + why))
		g.Expect(v.Rollout.Phase).To(Equal(c.phase))
		g.Expect(v.RequeueAfter).To(Equal(tasks.RecheckObstacle))
	}
}

func TestNothingIsEnteredWhenTheAPIServerDoesNotAnswer(t *testing.T) {
	g := NewWithT(t)
	_, err := newHandler(seen(), nil).Execute(t.Context(), recreation(""))
	g.Expect(err).To(MatchError(errNoAnswer))
	g.Expect(coded.Of(err, "")).To(Equal(v1alpha1.ErrObserve))
}

// The revision to come back at would be that of a spec that has been fixed since, which a cache that lags does not show.
func TestSpecIsAppliedByLiveReads(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.Etcd)
		want   v1alpha1.RecreatePhase
	}{
		"it is":                 {func(*v1alpha1.Etcd) {}, v1alpha1.RecreateNeedsDeletion},
		"there is a newer spec": {func(e *v1alpha1.Etcd) { e.Generation = 2 }, ""},
		"its reconciliation suspended": {func(e *v1alpha1.Etcd) {
			e.Generation, e.Annotations = 2, map[string]string{v1alpha1.AnnotationSuspendSpecReconcile: ""}
		}, v1alpha1.RecreateNeedsDeletion},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			v, err := newHandler(seen(), seen(), c.change).Execute(t.Context(), recreation(""))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(v.Rollout.Phase).To(Equal(c.want), v.Message)
		})
	}
	g := NewWithT(t)
	_, err := newHandler(seen(), seen(), func(e *v1alpha1.Etcd) { e.UID = "another" }).Execute(t.Context(), recreation(""))
	g.Expect(err).To(MatchError(ContainSubstring("it is another one now")))
}

// A recreation that waits for the newest spec says what that waits for, and what to do about it.
func TestSaysWhyTheSpecIsNotApplied(t *testing.T) {
	const why = "main-main-0 stays until task restore is deleted, since that keeps there what the member had before it"
	for name, c := range map[string]struct {
		reason, want string
	}{
		"it is pending":            {v1alpha1.ReasonSpecPending, "waiting until the newest spec of the Etcd is applied to StatefulSet m: " + why},
		"about a spec that it was": {v1alpha1.ReasonUpToDate, "waiting until the newest spec of the Etcd is applied to StatefulSet m"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			task := recreation("")
			task.Etcd.Generation = 2
			task.Etcd.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionUpToDate, Status: metav1.ConditionFalse, Reason: c.reason, Message: why})
			v, err := newHandler(seen(), seen()).Execute(t.Context(), task)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(v.Message).To(Equal(c.want))
		})
	}
}

// Members that hang would delay every task of the Etcd, and stop the timers of the one that runs: a recreation that waits in
// line asks none.
func TestARecreationThatWaitsAsksNoMember(t *testing.T) {
	g := NewWithT(t)
	task := recreation("")
	task.Object.Namespace, task.Object.Spec.OwnerEtcdReference.Name = "ns", "m"
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd, Name: "m", UID: "etcd", Controller: ptr.To(true)},
	}}}
	set.Status.UpdateRevision = "newer"
	cluster := fake.NewClientBuilder().WithObjects(set).Build()
	h := &Handler{Rollouts: tasks.Rollouts[rollout.RecreateConfig]{Client: cluster, Live: cluster, Rule: replacer.Operator{}}, Observer: &witness{}}
	by, err := h.Superseded(t.Context(), task)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(by).To(ContainSubstring("is newer, not new"))
	task.Object.Status.Rollout = nil
	key, err := h.WorkKey(t.Context(), task)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(key).To(Equal("newer"))
}

// broken is an API server that does not answer.
type broken struct{ client.Reader }

func (broken) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errNoAnswer
}

// What the cache shows is waited on without a request; a phase is not entered without the Etcd.
func TestRequests(t *testing.T) {
	g := NewWithT(t)
	h := newHandler(seen(func(in *Input) { in.hold("m-0") }), nil)
	h.Live = broken{h.Live}
	_, err := h.Execute(t.Context(), recreation(v1alpha1.RecreateWaitingTermination))
	g.Expect(err).NotTo(HaveOccurred())
	h = newHandler(seen(), seen())
	h.Live = broken{h.Live}
	v, err := h.Execute(t.Context(), recreation(""))
	g.Expect(err).To(MatchError(ContainSubstring("reading Etcd ns/m: no answer")))
	g.Expect(v).To(BeZero())
	h.Observer = noSet{}
	for phase, outcome := range map[v1alpha1.RecreatePhase]tasks.Outcome{"": tasks.Continue, v1alpha1.RecreateNeedsDeletion: tasks.Fail} {
		v, err = h.Execute(t.Context(), recreation(phase))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(v.Outcome).To(Equal(outcome), "%q", phase)
		g.Expect(v.Code).To(Equal(v1alpha1.ErrStatefulSetNotFound))
	}
}

// noSet observes no StatefulSet.
type noSet struct{}

func (noSet) Observe(context.Context, client.Reader, *v1alpha1.Etcd) (*cluster.Snapshot, error) {
	return nil, observe.ErrNoStatefulSet
}

// What the status says of a decision.
func TestVerdict(t *testing.T) {
	const ready = v1alpha1.RecreateReadyForCreation
	for name, tc := range map[string]struct {
		before, phase v1alpha1.RecreatePhase
		outcome       tasks.Outcome
		ago           time.Duration
		reason, event string
		operation     string
		state         v1alpha1.OperationState
	}{
		"waits":              {ready, ready, tasks.Continue, progressDeadline - time.Second, v1alpha1.ReasonRecreateInProgress, "", "", ""},
		"waits for long":     {ready, ready, tasks.Continue, progressDeadline, v1alpha1.ReasonRecreateInProgress, "", "", ""},
		"ends after long":    {ready, v1alpha1.RecreateComplete, tasks.Done, progressDeadline, v1alpha1.ReasonRecreateInProgress, "RecreateComplete", "StartAllPods", v1alpha1.OperationStateCompleted},
		"begins":             {"", v1alpha1.RecreateNeedsDeletion, tasks.Continue, progressDeadline, v1alpha1.ReasonRecreateInProgress, "RecreateStarted", "StopAllPods", v1alpha1.OperationStateInProgress},
		"waits for the last": {v1alpha1.RecreateNeedsDeletion, v1alpha1.RecreateWaitingTermination, tasks.Continue, 0, v1alpha1.ReasonRecreateInProgress, "", "StopAllPods", v1alpha1.OperationStateInProgress},
		"starts all":         {v1alpha1.RecreateWaitingTermination, ready, tasks.Continue, 0, v1alpha1.ReasonRecreateInProgress, "", "StartAllPods", v1alpha1.OperationStateInProgress},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			in := newWorld()
			in.Recorded.Phase, in.Recorded.LastProgressTime = tc.before, &metav1.Time{Time: epoch.Add(-tc.ago)}
			in.Recorded.MostParticipatingReplicas = 3
			v := verdict(*in, Decision{Outcome: tc.outcome, Phase: tc.phase, Message: "why"}, epoch)
			g.Expect(v.Reason).To(Equal(tc.reason))
			g.Expect(v.ProgressDeadline == progressDeadline).To(Equal(tc.before == tc.phase), "the engine judges for how long there was no progress")
			g.Expect(v.Event).To(Equal(tc.event))
			g.Expect(v.EndReason == v1alpha1.ReasonRecreateComplete).To(Equal(tc.outcome == tasks.Done))
			if tc.operation == "" {
				g.Expect(v.LastOperation).To(BeNil())
				return
			}
			g.Expect(v.LastOperation).To(HaveValue(And(HaveField("Name", tc.operation), HaveField("State", tc.state))))
		})
	}
}

// The revision to come back at is that of a spec that the StatefulSet controller has seen.
func TestRecordedRevision(t *testing.T) {
	for name, tc := range map[string]struct {
		observed bool
		phase    v1alpha1.RecreatePhase
		want     string
	}{
		"seen, and begun":     {true, v1alpha1.RecreateNeedsDeletion, "new"},
		"seen, and not begun": {true, "", ""},
		"begun, and not seen": {false, v1alpha1.RecreateNeedsDeletion, ""},
	} {
		g := NewWithT(t)
		in := newWorld()
		in.Recorded.TargetRevision, in.Snapshot.StatefulSet.Observed, in.Snapshot.StatefulSet.UpdateRevision = "", tc.observed, "new"
		in.Snapshot.Ordinals = in.Snapshot.Ordinals[:1]
		r := record(*in, Decision{Phase: tc.phase}, epoch)
		g.Expect(r.TargetRevision).To(Equal(tc.want), name)
		g.Expect(r.Replicas).To(Equal(int32(1)))
	}
}

func TestAway(t *testing.T) {
	g := NewWithT(t)
	in := newWorld()
	in.pods("new", v1alpha1.ClassParticipating)
	in.Snapshot.Ordinals[0].Class, in.Snapshot.Ordinals[0].Pod.Trouble = v1alpha1.ClassStarting, "ImagePullBackOff"
	in.Snapshot.Ordinals[1].Class, in.Snapshot.Ordinals[1].Pod = v1alpha1.ClassMissing, nil
	in.Snapshot.Surplus = []string{"m-3"}
	g.Expect(in.away()).To(Equal("waiting until every member participates: m-0 is Starting (ImagePullBackOff); m-1 is Missing; m-3"))
}

func TestRecordedConfigAndPerform(t *testing.T) {
	g := NewWithT(t)
	h := &Handler{}
	c, err := taskconfig.Recorded[rollout.RecreateConfig](`{"targetRevision":"r","since":"v9"}`)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.TargetRevision).To(Equal("r"))
	_, err = taskconfig.Recorded[rollout.RecreateConfig]("x")
	g.Expect(err).To(MatchError(ContainSubstring("status.config: ")))
	g.Expect(h.Perform(t.Context(), tasks.Task{}, tasks.Step{Operation: "Fly"})).To(MatchError("performing Fly: no such step"))
}
