// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/managedtls"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/tls"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// How a reconcile ends: its errors are retried with a back-off, what has to be seen first after a second, and in a namespace that is being
// deleted nothing is retried.
func TestResult(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{}, "x", errBroken)
	terminating := apierrors.NewForbidden(schema.GroupResource{}, "x", errBroken)
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	healthy := ctrl.Result{RequeueAfter: pollHealthy, Priority: ptr.To(handler.LowPriority)}
	for name, c := range map[string]struct {
		interrupted, err error
		hanging          hanging
		rollWaits        bool
		want             ctrl.Result
		fails            bool
	}{
		"done":                              {want: healthy},
		"it hangs":                          {hanging: hanging{times: 1}, want: ctrl.Result{RequeueAfter: pollHealthy, Priority: ptr.To(handler.LowPriority - 1)}},
		"it hangs, and a timer runs":        {hanging: hanging{times: 1}, rollWaits: true, want: healthy},
		"failed":                            {err: errBroken, fails: true},
		"interrupted":                       {interrupted: state.ErrBehind, want: ctrl.Result{RequeueAfter: retryConflict, Priority: ptr.To(whenChanged)}},
		"failed and interrupted":            {interrupted: state.ErrBehind, err: errBroken, fails: true},
		"the status has changed":            {err: conflict, want: ctrl.Result{RequeueAfter: retryConflict, Priority: ptr.To(whenChanged)}},
		"the namespace goes, and it failed": {err: terminating},
		"the namespace goes":                {interrupted: terminating},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := &pass{parts: &parts{}, etcd: &v1alpha1.Etcd{}, rollWaits: c.rollWaits}
			p.hanging.Set(p.etcd, c.hanging)
			result, err := p.result(t.Context(), pollHealthy, c.interrupted, c.err)
			g.Expect(result).To(Equal(c.want))
			g.Expect(err != nil).To(Equal(c.fails))
		})
	}
	NewWithT(t).Expect(interrupts(terminating)).To(BeTrue())
	NewWithT(t).Expect(interrupts(errBroken)).To(BeFalse())
}

// A skipped stage, and one that has failed, leave open whether the errors of their code are over; one that has succeeded does not.
func TestWhatStaysOpen(t *testing.T) {
	g := NewWithT(t)
	p := &pass{parts: &parts{Access: state.Access{Clock: clock.RealClock{}}}, etcd: &v1alpha1.Etcd{}}
	with := func(code v1alpha1.ErrorCode, err error) stage {
		s := failing(string(code), err, true)
		s.code = code
		return s
	}
	_, _ = p.through(t.Context(), []stage{with("A", errSkipped), with("B", errBroken), with("C", nil)})
	g.Expect(p.open).To(Equal([]v1alpha1.ErrorCode{"A", "B"}))
	g.Expect(p.failures.Of(p.etcd)).To(And(HaveLen(1), HaveKey("B")))
}

// An operator that ends writes nothing more, and what its requests end with is no failure of a stage.
func TestOperatorEnds(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(t.Context())
	p := &pass{parts: &parts{Access: state.Access{Clock: clock.RealClock{}}}, etcd: &v1alpha1.Etcd{}}
	ends := stage{name: "ends", run: func(*pass, context.Context) error { cancel(); return errBroken }}
	complete, interrupted := p.through(ctx, []stage{ends, failing("not reached", errBroken, false)})
	g.Expect(complete).To(BeFalse())
	g.Expect(interrupted).To(MatchError(context.Canceled))
	g.Expect(p.errs).To(BeEmpty())
	g.Expect(p.failures.Of(p.etcd)).To(BeEmpty())
	_, err := p.writeStatus(ctx, true)
	g.Expect(err).To(MatchError(context.Canceled))
}

// A status that differs in details alone is written at most every ten seconds, one that a client may wait for at once, and none over a newer one.
func TestWhenTheStatusIsWritten(t *testing.T) {
	g := NewWithT(t)
	now := clocktesting.NewFakePassiveClock(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}}
	scheme := runtime.NewScheme()
	g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	var fails error
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(etcd).WithStatusSubresource(etcd).Build(), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
			if fails != nil {
				return fails
			}
			return c.SubResource(sub).Patch(ctx, o, p, options...)
		},
	})
	g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
	w := &statusWriter{client: c, recorder: events.NewFakeRecorder(100), clock: now}
	stored := func() v1alpha1.EtcdStatus {
		e := &v1alpha1.Etcd{}
		g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(etcd), e)).To(Succeed())
		return e.Status
	}
	write := func(e *v1alpha1.Etcd, change func(*v1alpha1.EtcdStatus)) time.Duration {
		next := *e.Status.DeepCopy()
		change(&next)
		due, err := w.write(t.Context(), e, next)
		g.Expect(err).NotTo(HaveOccurred())
		return due
	}
	stale := etcd.DeepCopy()
	g.Expect(write(etcd, func(s *v1alpha1.EtcdStatus) { s.Replicas = 1 })).To(BeZero(), "the first detail")
	g.Expect(stored().Replicas).To(BeEquivalentTo(1))
	g.Expect(write(stale, func(s *v1alpha1.EtcdStatus) { s.ClusterID = "cafe" })).To(Equal(retryConflict), "the cache is behind")
	g.Expect(stored().ClusterID).To(BeEmpty())
	now.SetTime(now.Now().Add(detailInterval - time.Second))
	g.Expect(write(etcd, func(s *v1alpha1.EtcdStatus) { s.Replicas = 2 })).To(Equal(time.Second))
	g.Expect(stored().Replicas).To(BeEquivalentTo(1))
	g.Expect(write(etcd, func(s *v1alpha1.EtcdStatus) { s.ClusterID = "cafe" })).To(BeZero(), "what a client may wait for")
	g.Expect(stored().ClusterID).To(Equal("cafe"))
	g.Expect(write(stale, func(s *v1alpha1.EtcdStatus) { s.ClusterID = "beef" })).To(Equal(retryConflict), "two writes behind")
	now.SetTime(now.Now().Add(detailInterval))
	g.Expect(write(etcd, func(s *v1alpha1.EtcdStatus) { s.Replicas = 2 })).To(BeZero())
	g.Expect(stored().Replicas).To(BeEquivalentTo(2))
	version := etcd.ResourceVersion
	g.Expect(write(etcd, func(*v1alpha1.EtcdStatus) {})).To(BeZero())
	g.Expect(etcd.ResourceVersion).To(Equal(version), "nothing has changed")

	now.SetTime(now.Now().Add(detailInterval))
	behind := etcd.DeepCopy()
	g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
	etcd.Labels = map[string]string{"a": "b"}
	g.Expect(c.Update(t.Context(), etcd)).To(Succeed())
	_, err := w.write(t.Context(), behind, v1alpha1.EtcdStatus{ClusterID: "dead"})
	g.Expect(err).To(Satisfy(apierrors.IsConflict))
	fails = errBroken
	_, err = w.write(t.Context(), etcd, v1alpha1.EtcdStatus{ClusterID: "dead"})
	g.Expect(err).To(MatchError(ContainSubstring("writing the status of Etcd ns/main: broken")))
	fails = apierrors.NewNotFound(schema.GroupResource{}, "main")
	etcd.Status = v1alpha1.EtcdStatus{}
	_, err = w.write(t.Context(), etcd, v1alpha1.EtcdStatus{ClusterID: "dead"})
	g.Expect(err).NotTo(HaveOccurred(), "it is gone")
}

// A status that the API server has not kept is an error, which ends the reconcile before members are instructed by what is left of it.
func TestPrunedStatus(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}}
	scheme := runtime.NewScheme()
	g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(etcd).WithStatusSubresource(etcd).Build(), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
			err := c.SubResource(sub).Patch(ctx, o, p, options...)
			o.(*v1alpha1.Etcd).Status.Recovery = nil
			return err
		},
	})
	g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
	recorder := events.NewFakeRecorder(100)
	w := &statusWriter{client: c, recorder: recorder, clock: clock.RealClock{}}
	next := v1alpha1.EtcdStatus{ClusterID: "cafe"}
	_, err := w.write(t.Context(), etcd, next)
	g.Expect(err).NotTo(HaveOccurred())
	next.Recovery = &v1alpha1.ClusterRecovery{Task: "r", TaskUID: "r"}
	_, err = w.write(t.Context(), etcd, next)
	g.Expect(err).To(MatchError(And(HavePrefix("recording the status of Etcd ns/main: "), ContainSubstring("status.recovery"))))
	g.Expect(recorder.Events).To(Receive(And(HavePrefix("Warning"), ContainSubstring("status.recovery"))))
	g.Expect(recorder.Events).To(BeEmpty(), "nothing is said of what is left")
	_, err = w.write(t.Context(), etcd, etcd.Status)
	g.Expect(err).To(HaveOccurred(), "what is left says nothing new, and is not to be acted on")
	next = etcd.Status
	next.ObservedGeneration = 1
	_, err = w.write(t.Context(), etcd, next)
	g.Expect(err).NotTo(HaveOccurred(), "all of this was kept")
	_, err = w.write(t.Context(), etcd, next)
	g.Expect(err).NotTo(HaveOccurred())
}

// When the status is looked at again, and what a reconcile that is not complete adds to it.
func TestStatusOfAPass(t *testing.T) {
	foreign := ownership.Foreign{Kind: "Service", Name: "ns/main-peer", Reason: v1alpha1.ReasonNoController, Whose: "has no controller", Remedy: "delete it"}
	for name, c := range map[string]struct {
		change   func(*pass)
		complete bool
		want     time.Duration
		status   func(g *WithT, s v1alpha1.EtcdStatus)
	}{
		"complete": {func(*pass) {}, true, pollTroubled, func(g *WithT, s v1alpha1.EtcdStatus) {
			g.Expect(s.Conditions.Find(v1alpha1.ConditionReady)).NotTo(BeNil())
		}},
		"not complete": {func(*pass) {}, false, 0, func(g *WithT, s v1alpha1.EtcdStatus) { g.Expect(s.Conditions).To(BeEmpty()) }},
		"not complete, and failed": {func(p *pass) {
			f := failure{times: reportTimes, since: p.Clock.Now().Add(-time.Hour)}
			f.Code, f.Err = v1alpha1.ErrApply, errBroken
			p.failures.Set(p.etcd, map[string]failure{"spec": f})
		}, false, 0, func(g *WithT, s v1alpha1.EtcdStatus) {
			g.Expect(s.LastErrors).To(ConsistOf(HaveField("Description", "broken")))
			g.Expect(s.Conditions.Find(v1alpha1.ConditionReady)).To(BeNil())
		}},
		"complete, and failed": {func(p *pass) {
			f := failure{times: reportTimes, since: p.Clock.Now().Add(-time.Hour)}
			f.Code, f.Err = v1alpha1.ErrApply, errBroken
			p.failures.Set(p.etcd, map[string]failure{"spec": f})
		}, true, pollTroubled, func(g *WithT, s v1alpha1.EtcdStatus) {
			g.Expect(s.LastErrors).To(ConsistOf(HaveField("Description", "broken")))
		}},
		"a schedule that cannot be read": {func(p *pass) { p.etcd.Spec.Etcd.DefragmentationSchedule = ptr.To("never") }, true, pollTroubled, func(g *WithT, s v1alpha1.EtcdStatus) {
			g.Expect(s.LastErrors).To(ConsistOf(HaveField("Code", v1alpha1.ErrSchedule)))
		}},
		"a foreign object": {func(p *pass) { p.hanging.Set(p.etcd, hanging{times: 10}); p.session.Obstruct(foreign) }, true, apply.RecheckForeign, func(g *WithT, s v1alpha1.EtcdStatus) {
			g.Expect(s.LastErrors).To(ConsistOf(HaveField("Code", v1alpha1.ErrForeignObject)))
		}},
		"a foreign Secret": {func(p *pass) {
			p.hanging.Set(p.etcd, hanging{times: 10})
			p.found.TLS = &tls.Plan{Managed: managedtls.Result{Foreign: []ownership.Foreign{foreign}}}
		}, true, apply.RecheckForeign, func(g *WithT, s v1alpha1.EtcdStatus) {
			g.Expect(s.LastErrors).To(ConsistOf(HaveField("Code", v1alpha1.ErrForeignObject)))
		}},
		"a refused adoption": {func(p *pass) { p.hanging.Set(p.etcd, hanging{times: 10}); p.found.Adoption.Refused = true }, true, apply.RecheckForeign, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}, Spec: v1alpha1.EtcdSpec{Replicas: 1}}
			scheme := runtime.NewScheme()
			g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
			api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(etcd).WithStatusSubresource(etcd).Build()
			g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
			p := &pass{parts: &parts{Access: state.Access{Clock: clock.RealClock{}}, status: statusWriter{client: api, clock: clock.RealClock{}, recorder: events.NewFakeRecorder(100)}}, etcd: etcd, session: &apply.Session{}}
			p.found.State = &state.State{Etcd: etcd, Snapshot: &cluster.Snapshot{Ordinals: []cluster.Ordinal{{Name: "main-0", Class: v1alpha1.ClassUnready, Pod: &cluster.Pod{}}}}}
			c.change(p)
			after, err := p.writeStatus(t.Context(), c.complete)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(after).To(Equal(c.want))
			g.Expect(p.status.lost.Of(etcd).IsZero()).To(Equal(!c.complete), "its quorum is lost from now on")
			if c.status != nil {
				g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
				c.status(g, etcd.Status)
			}
		})
	}
}

// The annotation that asks for a reconcile goes once the spec is applied, and the one that asks for another CA once that has begun; others stay.
func TestWhichOperationIsDone(t *testing.T) {
	const reconcile, renew = v1alpha1.OperationReconcile, v1alpha1.OperationRenewCA
	for name, c := range map[string]struct {
		operation, gardener string
		current, renewed    bool
		want, wantGardener  string
	}{
		"applied":                            {reconcile, "", true, false, "", ""},
		"applied, as Gardener asks":          {"", reconcile, true, false, "", ""},
		"applied, as both ask":               {reconcile, reconcile, true, false, "", ""},
		"not yet":                            {reconcile, "", false, false, reconcile, ""},
		"renewed":                            {renew, "", true, true, "", ""},
		"renewed before the spec is applied": {renew, reconcile, false, true, "", reconcile},
		"not renewed yet":                    {renew, reconcile, true, false, renew, ""},
		"another":                            {"other", reconcile, true, true, "other", ""},
		"another alone":                      {"other", "", true, false, "other", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", Annotations: map[string]string{}}}
			for key, value := range map[string]string{v1alpha1.AnnotationOperation: c.operation, v1alpha1.AnnotationGardenerOperation: c.gardener} {
				if value != "" {
					etcd.Annotations[key] = value
				}
			}
			scheme := runtime.NewScheme()
			g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
			writes, fails := 0, false
			api := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(etcd).Build(), interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
					if writes++; fails {
						return errBroken
					}
					return c.Patch(ctx, o, p, options...)
				},
			})
			g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
			passOf := func(etcd *v1alpha1.Etcd) *pass {
				p := &pass{parts: &parts{Access: state.Access{Client: api}}, etcd: etcd}
				p.found.State = &state.State{Etcd: etcd}
				if c.current {
					p.found.Settled, p.found.Snapshot = true, &cluster.Snapshot{StatefulSet: cluster.StatefulSet{Observed: true}}
				}
				p.found.TLS = &tls.Plan{Managed: managedtls.Result{RenewalBegun: c.renewed}}
				return p
			}
			g.Expect(passOf(etcd.DeepCopy()).removeOperation(t.Context())).To(Succeed())
			changes := c.want != c.operation || c.wantGardener != c.gardener
			if !changes && !c.renewed {
				g.Expect(writes).To(BeZero())
			}
			after := &v1alpha1.Etcd{}
			g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(etcd), after)).To(Succeed())
			g.Expect(after.Annotations[v1alpha1.AnnotationOperation]).To(Equal(c.want))
			g.Expect(after.Annotations[v1alpha1.AnnotationGardenerOperation]).To(Equal(c.wantGardener))
			if fails = true; changes {
				g.Expect(passOf(etcd.DeepCopy()).removeOperation(t.Context())).To(MatchError(fmt.Sprintf("removing the operation annotation of Etcd ns/main: %v", errBroken)))
			}
		})
	}
}

// A request that came while the one before was carried out stays: nothing has been done for it.
func TestOperationRequestedMeanwhile(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", Annotations: map[string]string{v1alpha1.AnnotationOperation: v1alpha1.OperationReconcile}}}
	scheme := runtime.NewScheme()
	g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(etcd).Build()
	g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
	p := &pass{parts: &parts{Access: state.Access{Client: api}}, etcd: etcd.DeepCopy()}
	p.found.State, p.found.TLS = &state.State{Etcd: p.etcd}, &tls.Plan{}
	p.found.Settled, p.found.Snapshot = true, &cluster.Snapshot{StatefulSet: cluster.StatefulSet{Observed: true}}
	etcd.Annotations[v1alpha1.AnnotationOperation] = v1alpha1.OperationRenewCA
	g.Expect(api.Update(t.Context(), etcd)).To(Succeed())
	g.Expect(p.removeOperation(t.Context())).To(Satisfy(apierrors.IsConflict))
	g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
	g.Expect(etcd.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationOperation, v1alpha1.OperationRenewCA))
}

// The status loses a recovery only by live reads that are fresh: its task may still keep it.
func TestRecoveryEndsByFreshReads(t *testing.T) {
	for name, c := range map[string]struct {
		reads bool
		age   time.Duration
		ends  bool
	}{
		"fresh":   {true, state.MaxReadAge, true},
		"too old": {true, state.MaxReadAge + 1, false},
		"none":    {false, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			now := clocktesting.NewFakePassiveClock(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))
			etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}, Spec: v1alpha1.EtcdSpec{Replicas: 1}, Status: v1alpha1.EtcdStatus{
				ClusterID: "beef", ClusterSize: 1, Recovery: &v1alpha1.ClusterRecovery{Task: "gone", TaskUID: "gone", PreviousClusterID: "cafe"},
			}}
			scheme := runtime.NewScheme()
			g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
			api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(etcd).WithStatusSubresource(etcd).Build()
			g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
			p := &pass{parts: &parts{Access: state.Access{Clock: now}, status: statusWriter{client: api, clock: now, recorder: events.NewFakeRecorder(100)}}, etcd: etcd, session: &apply.Session{}}
			voter := cluster.Ordinal{Name: "main-0", Class: v1alpha1.ClassParticipating, Role: v1alpha1.RoleLeader, MemberID: 1, Answers: true, Serving: true}
			p.found.State = &state.State{Etcd: etcd, Snapshot: &cluster.Snapshot{
				Ordinals: []cluster.Ordinal{voter},
				Cluster:  cluster.Cluster{ID: 0xbeef, Reachable: true, LeaderKnown: true, Voters: []cluster.Voter{{ID: 1, Name: "main-0", Serving: true}}},
			}}
			if c.reads {
				reads := p.Live()
				p.recoveryReads = &reads
			}
			now.SetTime(now.Now().Add(c.age))
			_, err := p.writeStatus(t.Context(), true)
			g.Expect(err).NotTo(HaveOccurred())
			after := &v1alpha1.Etcd{}
			g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(etcd), after)).To(Succeed())
			g.Expect(after.Status.Recovery == nil).To(Equal(c.ends))
		})
	}
}
