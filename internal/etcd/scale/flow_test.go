// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/firststart"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/hibernation"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/memberconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// scaled is an Etcd of three members that has served, and its StatefulSet.
type scaled struct {
	*WithT
	t        *testing.T
	api      client.WithWatch
	clock    *clocktesting.FakePassiveClock
	locks    *lock.Locks
	snapshot *cluster.Snapshot
	saved    func(*v1alpha1.EtcdOperatorTask, time.Time) bool
}

var key = client.ObjectKey{Namespace: "ns", Name: "main"}

func newScaled(t *testing.T, have int32) *scaled {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}, Spec: v1alpha1.EtcdSpec{Replicas: 3}}
	etcd.Status.ClusterID, etcd.Status.ClusterSize = "cafe", 3
	api := apitest.API(etcd, apitest.StatefulSet(etcd, have), &corev1.ConfigMap{ObjectMeta: apitest.Own(etcd, "main-config")})
	return &scaled{WithT: NewWithT(t), t: t, api: api, clock: clocktesting.NewFakePassiveClock(noon), locks: &lock.Locks{}, snapshot: clustertest.Healthy(int(have))}
}

func (s *scaled) with(api client.WithWatch) Scaler {
	access := state.Access{Client: api, API: api, Observer: apitest.Members(func() *cluster.Snapshot { return s.snapshot }), Locker: s.locks, Clock: s.clock}
	return Scaler{Access: access, Instructor: memberconfig.Writer{Access: access}, Saved: s.saved}
}

func (s *scaled) state() *state.State {
	st := &state.State{Etcd: &v1alpha1.Etcd{}, StatefulSet: &appsv1.StatefulSet{}}
	s.Expect(s.api.Get(s.t.Context(), key, st.Etcd)).To(Succeed())
	if err := s.api.Get(s.t.Context(), key, st.StatefulSet); err != nil {
		s.Expect(apierrors.IsNotFound(err)).To(BeTrue())
		st.StatefulSet = nil
	}
	tasks := &v1alpha1.EtcdOperatorTaskList{}
	s.Expect(s.api.List(s.t.Context(), tasks)).To(Succeed())
	st.Tasks = tasks.Items
	return st
}

func (s *scaled) change(change func(*v1alpha1.Etcd)) {
	etcd := s.state().Etcd
	change(etcd)
	s.Expect(s.api.Update(s.t.Context(), etcd)).To(Succeed())
}

// task is a recreation that holds the StatefulSet at zero.
func (s *scaled) task() *v1alpha1.EtcdOperatorTask {
	return &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "recreate", UID: "task"},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.RecreateRollout, OwnerEtcdReference: v1alpha1.EtcdReference{Name: "main"}},
		Status:     v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStateInProgress, Rollout: &v1alpha1.RolloutStatus{Phase: v1alpha1.RecreateNeedsDeletion}},
	}
}

func (s *scaled) hold(api client.WithWatch, st *state.State) (bool, error) {
	objects := &apply.Objects{Writer: apply.Writer{Client: api, Live: api}, Clock: s.clock}
	session, err := objects.Begin(s.t.Context(), st.Etcd, st.StatefulSet, "")
	s.Expect(err).NotTo(HaveOccurred())
	return s.with(api).Hold(s.t.Context(), st, session)
}

// each holds, or releases, with each of the requests failing.
func (s *scaled) each() {
	s.t.Helper()
	st := s.state()
	apitest.EachRequestFails(s.t, s.api, func(api client.WithWatch) error {
		_, err := s.hold(api, st)
		return err
	})
}

// watched notes whether the lock was held when something was written.
func (s *scaled) watched(locked *bool) client.WithWatch {
	return interceptor.NewClient(s.api, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
		if _, ok := o.(*appsv1.StatefulSet); ok {
			*locked = apitest.Locked(s.locks, &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}})
		}
		return c.Patch(ctx, o, p, options...)
	}})
}

// A task stops all members, and they are started again once it lets go; each under the lock, and members are instructed first.
func TestHold(t *testing.T) {
	s := newScaled(t, 3)
	held, err := s.hold(s.api, s.state())
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(held).To(BeFalse(), "there is no task")

	s.Expect(s.api.Create(t.Context(), s.task())).To(Succeed())
	s.each()
	locked := false
	held, err = s.hold(s.watched(&locked), s.state())
	s.Expect(err).To(MatchError(state.ErrBehind))
	s.Expect(held).To(BeTrue())
	s.Expect(locked).To(BeTrue())
	set := s.state().StatefulSet
	s.Expect(set.Spec.Replicas).To(HaveValue(BeZero()))
	s.Expect(set.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationHeldAtZeroBy, "task"))
	held, err = s.hold(s.api, s.state())
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(held).To(BeTrue(), "it is held")
	config := &corev1.ConfigMap{}
	s.Expect(s.api.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "main-config"}, config)).To(Succeed())
	s.Expect(config.Data).To(BeEmpty())

	s.Expect(s.api.Delete(t.Context(), s.task())).To(Succeed())
	s.each()
	locked = false
	held, err = s.hold(s.watched(&locked), s.state())
	s.Expect(err).To(MatchError(state.ErrBehind))
	s.Expect(held).To(BeFalse())
	s.Expect(locked).To(BeTrue())
	set = s.state().StatefulSet
	s.Expect(set.Spec.Replicas).To(HaveValue(Equal(int32(3))))
	s.Expect(set.Annotations).NotTo(HaveKey(v1alpha1.AnnotationHeldAtZeroBy))
	s.Expect(s.api.Get(t.Context(), client.ObjectKeyFromObject(config), config)).To(Succeed())
	s.Expect(config.Data).To(HaveKeyWithValue(member.KeyClusterID, "cafe"), "members that start have to know which cluster they are of")
}

// A Restore in Stopping stops the members if this operator knows that the final snapshot has the present: its phase may be hours old. One
// that holds them already, or has gone on, does not need that.
func TestARestoreStopsWhatIsSaved(t *testing.T) {
	for name, tc := range map[string]struct {
		phase v1alpha1.RecoveryPhase
		saved bool
		by    string
		late  bool
		stops bool
	}{
		"saved":                    {v1alpha1.RecoveryStopping, true, "", false, true},
		"another operator stopped": {v1alpha1.RecoveryStopping, false, "", false, false},
		"known to the cache alone": {v1alpha1.RecoveryStopping, false, "", true, false},
		"held before":              {v1alpha1.RecoveryStopping, false, "task", false, true},
		"held by another task":     {v1alpha1.RecoveryStopping, false, "other", false, false},
		"surveying":                {v1alpha1.RecoverySurveying, false, "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScaled(t, 3)
			asked := 0
			s.saved = func(*v1alpha1.EtcdOperatorTask, time.Time) bool {
				asked++
				return tc.saved || tc.late && asked == 1
			}
			task := s.task()
			task.Spec.Type = v1alpha1.Restore
			task.Status.Rollout, task.Status.Recovery = nil, &v1alpha1.RecoveryStatus{Phase: tc.phase}
			s.Expect(s.api.Create(t.Context(), task)).To(Succeed())
			if tc.by != "" {
				set := s.state().StatefulSet
				set.Annotations = map[string]string{v1alpha1.AnnotationHeldAtZeroBy: tc.by}
				s.Expect(s.api.Update(t.Context(), set)).To(Succeed())
			}
			held, _ := s.hold(s.api, s.state())
			s.Expect(held).To(BeTrue(), "the spec waits in any case")
			s.Expect(*s.state().StatefulSet.Spec.Replicas == 0).To(Equal(tc.stops))
		})
	}
}

// By what the API server says, the cache may be late: then nothing is stopped or started.
func TestHoldOnALateCache(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(s *scaled)
		then   func(s *scaled)
		slow   time.Duration
		held   bool
		behind bool
		have   int32
	}{
		"the task has ended": {before: func(s *scaled) { s.Expect(s.api.Create(s.t.Context(), s.task())).To(Succeed()) },
			then: func(s *scaled) { s.Expect(s.api.Delete(s.t.Context(), s.task())).To(Succeed()) }, held: true, behind: true, have: 3},
		"the Etcd is being deleted": {before: func(s *scaled) { s.Expect(s.api.Create(s.t.Context(), s.task())).To(Succeed()) },
			then: func(s *scaled) {
				s.change(func(e *v1alpha1.Etcd) { e.Finalizers = []string{"x"} })
				s.Expect(s.api.Delete(s.t.Context(), s.state().Etcd)).To(Succeed())
			}, held: true, behind: true, have: 3},
		"the operator is paused": {before: func(s *scaled) { s.Expect(s.api.Create(s.t.Context(), s.task())).To(Succeed()) },
			then: func(*scaled) {}, slow: 3 * time.Second, held: true, behind: true, have: 3},
		"an object is foreign": {before: func(s *scaled) {
			s.Expect(s.api.Create(s.t.Context(), s.task())).To(Succeed())
			s.Expect(s.api.Create(s.t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}})).To(Succeed())
		}, then: func(*scaled) {}, held: true, have: 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScaled(t, 3)
			tc.before(s)
			st := s.state()
			tc.then(s)
			slow := interceptor.NewClient(s.api, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
				s.clock.SetTime(s.clock.Now().Add(tc.slow))
				return c.Get(ctx, key, into, options...)
			}})
			held, err := s.hold(slow, st)
			s.Expect(held).To(Equal(tc.held))
			if tc.behind {
				s.Expect(err).To(MatchError(state.ErrBehind))
			} else {
				s.Expect(err).NotTo(HaveOccurred())
			}
			s.Expect(s.state().StatefulSet.Spec.Replicas).To(HaveValue(Equal(tc.have)))
		})
	}
	s := newScaled(t, 3)
	s.Expect(s.api.Create(t.Context(), s.task())).To(Succeed())
	s.Expect(s.api.Delete(t.Context(), s.state().StatefulSet)).To(Succeed())
	held, err := s.hold(s.api, s.state())
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(held).To(BeTrue(), "there is no StatefulSet to stop")
}

// What is begun holds the lock until it ends where members are added, started or stopped, and is confirmed by the API server where all are.
func TestBegin(t *testing.T) {
	for name, tc := range map[string]struct {
		have   int32
		change func(*v1alpha1.Etcd)
		wake   hibernation.WakeUp
		// replicas from now on, and why they are not those of the spec.
		replicas  int32
		why       string
		locked    bool
		confirmed bool
	}{
		"as it is":         {3, func(*v1alpha1.Etcd) {}, hibernation.WakeUp{}, 3, "", false, false},
		"hibernates":       {3, func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 }, hibernation.WakeUp{}, 0, "", true, true},
		"stays hibernated": {0, func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 }, hibernation.WakeUp{}, 0, "", false, false},
		"wakes up":         {0, func(*v1alpha1.Etcd) {}, hibernation.WakeUp{}, 3, "", true, true},
		"is not to yet":    {0, func(*v1alpha1.Etcd) {}, hibernation.WakeUp{Why: "waiting"}, 0, "waiting", false, false},
		"is to grow":       {3, func(e *v1alpha1.Etcd) { e.Spec.Replicas = 5 }, hibernation.WakeUp{}, 3, "asks for 5: they change one at a time", false, false},
		"is kept running": {3, func(e *v1alpha1.Etcd) {
			e.Spec.Replicas = 0
			e.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.PersistentVolumeClaimRetentionPolicy{WhenScaled: v1alpha1.VolumesDeleted}
		}, hibernation.WakeUp{}, 3, "", false, false},
		"is kept running for now": {3, func(e *v1alpha1.Etcd) {
			e.Spec.Replicas = 0
			e.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.PersistentVolumeClaimRetentionPolicy{WhenScaled: v1alpha1.VolumesDeleted}
			e.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "backups"}}
			e.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionBackupReady, Status: metav1.ConditionFalse, Message: "no space."})
		}, hibernation.WakeUp{}, 3, "snapshots fail: no space", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScaled(t, tc.have)
			s.change(tc.change)
			st := s.state()
			apitest.EachRequestFails(t, s.api, func(api client.WithWatch) error {
				_, c, err := s.with(api).Begin(t.Context(), st, firststart.View{}, tc.wake)
				c.End()
				return err
			})
			s.Expect(apitest.Locked(s.locks, st.Etcd)).To(BeFalse(), "what failed has ended")
			ctx, c, err := s.with(s.api).Begin(t.Context(), st, firststart.View{}, tc.wake)
			s.Expect(err).NotTo(HaveOccurred())
			s.Expect(c.Replicas).To(Equal(tc.replicas))
			s.Expect(c.Why).To(ContainSubstring(tc.why))
			s.Expect(c.Why == "").To(Equal(tc.why == ""))
			s.Expect(apitest.Locked(s.locks, st.Etcd)).To(Equal(tc.locked))
			_, bounded := ctx.Deadline()
			s.Expect(bounded).To(Equal(tc.confirmed))
			s.clock.SetTime(noon.Add(state.MaxReadAge + time.Second))
			s.Expect(c.Permit(t.Context(), st.StatefulSet) != nil).To(Equal(tc.confirmed), "a confirmation grows old")
			c.End()
			c.End()
			s.Expect(apitest.Locked(s.locks, st.Etcd)).To(BeFalse())
			s.Expect(ctx.Err() != nil).To(Equal(tc.confirmed))
		})
	}
	(*Change)(nil).End()
}

// All members are not started, or stopped, by a cache that is late.
func TestBeginOnALateCache(t *testing.T) {
	s := newScaled(t, 3)
	s.change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 })
	st := s.state()
	s.change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 3 })
	_, c, err := s.with(s.api).Begin(t.Context(), st, firststart.View{}, hibernation.WakeUp{})
	c.End()
	s.Expect(err).To(MatchError(state.ErrBehind), "it is no longer to hibernate")

	s = newScaled(t, 0)
	st = s.state()
	s.Expect(s.api.Create(t.Context(), s.task())).To(Succeed())
	_, c, err = s.with(s.api).Begin(t.Context(), st, firststart.View{}, hibernation.WakeUp{})
	c.End()
	s.Expect(err).To(MatchError(state.ErrBehind), "a task holds it that the cache does not show")

	s = newScaled(t, 3)
	s.change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 })
	s.Expect(s.api.Create(t.Context(), s.task())).To(Succeed())
	_, c, err = s.with(s.api).Begin(t.Context(), s.state(), firststart.View{}, hibernation.WakeUp{})
	c.End()
	s.Expect(err).NotTo(HaveOccurred(), "to stop them contradicts no task")
}

// A cluster is not hibernated while that loses data: claims that someone has deleted go with it once no pod uses them. A quorum of the others has
// all of it. The cache may not show yet that they are deleted.
func TestHibernationBesideClaimsThatAreDeleted(t *testing.T) {
	for name, tc := range map[string]struct {
		size    int
		deletes []int
		voters  []int
		// gone is an ordinal without a claim, and silent one that does not serve; 0 for none.
		gone, silent int
		// unseen: no member has answered.
		unseen bool
		// loses: it is kept running.
		loses bool
	}{
		"none":                          {size: 3},
		"one of three":                  {size: 3, deletes: []int{1}},
		"two of three":                  {size: 3, deletes: []int{0, 2}, loses: true},
		"all":                           {size: 3, deletes: []int{0, 1, 2}, loses: true},
		"that of an only member":        {size: 1, deletes: []int{0}, loses: true},
		"that of one that has left":     {size: 2, deletes: []int{0}, voters: []int{1}},
		"one of two, and both vote":     {size: 2, deletes: []int{0}, loses: true},
		"one of three, and one is gone": {size: 3, deletes: []int{0}, gone: 1, loses: true},
		"one of three is gone":          {size: 3, gone: 1},
		"one of three, and one has a new claim and does not serve": {size: 3, deletes: []int{0}, silent: 1, loses: true},
		"one of three, and no member has answered":                 {size: 3, deletes: []int{0}, unseen: true, loses: true},
		"none, and no member has answered":                         {size: 3, unseen: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScaled(t, int32(tc.size))
			s.change(func(e *v1alpha1.Etcd) { e.Spec.Replicas, e.Status.ClusterSize = 0, int32(tc.size) })
			if tc.voters != nil {
				s.snapshot.Cluster.Voters = slices.DeleteFunc(s.snapshot.Cluster.Voters, func(v cluster.Voter) bool { return !slices.Contains(tc.voters, v.Ordinal) })
			}
			for i := range s.snapshot.Cluster.Voters {
				v := &s.snapshot.Cluster.Voters[i]
				v.Serving = !tc.unseen && (tc.silent == 0 || v.Ordinal != tc.silent)
			}
			claims := func() (found []corev1.PersistentVolumeClaim) {
				found, err := state.Claims(t.Context(), s.api, s.state().Etcd, int32(tc.size))
				s.Expect(err).NotTo(HaveOccurred())
				return found
			}
			for i := range tc.size {
				if i > 0 && i == tc.gone {
					continue
				}
				claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: s.state().Etcd.ClaimName(int32(i)), Finalizers: []string{"kubernetes.io/pvc-protection"}}}
				s.Expect(s.api.Create(t.Context(), claim)).To(Succeed())
			}
			late := s.state()
			late.Claims, late.Snapshot = claims(), s.snapshot
			for _, i := range tc.deletes {
				for _, c := range claims() {
					if c.Name == late.Etcd.ClaimName(int32(i)) {
						s.Expect(s.api.Delete(t.Context(), &c)).To(Succeed())
					}
				}
			}
			_, c, err := s.with(s.api).Begin(t.Context(), late, firststart.View{}, hibernation.WakeUp{})
			c.End()
			if tc.loses {
				s.Expect(err).To(MatchError(state.ErrBehind), "the cache is late")
			} else {
				s.Expect(err).NotTo(HaveOccurred())
			}
			st := s.state()
			st.Claims, st.Snapshot = claims(), s.snapshot
			_, c, err = s.with(s.api).Begin(t.Context(), st, firststart.View{}, hibernation.WakeUp{})
			c.End()
			s.Expect(err).NotTo(HaveOccurred())
			if !tc.loses {
				s.Expect(c.Replicas).To(BeZero())
				return
			}
			s.Expect(c.Replicas).To(BeEquivalentTo(tc.size))
			s.Expect(c.Reason).To(Equal(v1alpha1.ReasonNoFinalSnapshot))
			s.Expect(c.Why).To(And(HavePrefix("The cluster is kept running: "), ContainSubstring(st.Etcd.ClaimName(0)), ContainSubstring("goes with its data")))
			// Without others that serve, no pod may be deleted before its data is safe.
			alone := tc.size == 1 || tc.unseen || tc.silent > 0 && tc.size < 3
			s.Expect(c.Why).To(ContainSubstring(map[bool]string{true: "have their volumes retained", false: "each once all others serve"}[alone]))
		})
	}
}

// A StatefulSet that is missing is created with all members while pods of an earlier one run: it would stop those beyond its replicas, although no one
// has asked yet whether the cluster may be stopped. A hibernated cluster has none, and is not started.
func TestAMissingStatefulSetBesidePods(t *testing.T) {
	terminates := func(p *corev1.Pod) { p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: noon}, []string{"x"} }
	inPhase := func(phase corev1.PodPhase) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.Phase = phase } }
	for name, tc := range map[string]struct {
		// pods beyond which there are none; change changes the first one, which is the only one that is not.
		pods   int32
		change func(*corev1.Pod)
		etcd   func(*v1alpha1.Etcd)
		want   int32
	}{
		"three run":              {pods: 3, want: 3},
		"one runs":               {pods: 1, want: 3},
		"none":                   {want: 0},
		"one that terminates":    {pods: 1, change: terminates, want: 0},
		"one beside it":          {pods: 2, change: terminates, want: 3},
		"one of a Job":           {pods: 1, change: func(p *corev1.Pod) { delete(p.Labels, v1alpha1.LabelComponent) }, want: 0},
		"one with a controller":  {pods: 1, change: func(p *corev1.Pod) { p.OwnerReferences = apitest.ControlledBy(&v1alpha1.Etcd{}) }, want: 0},
		"one of another name":    {pods: 1, change: func(p *corev1.Pod) { p.Name = "by-hand" }, want: 0},
		"one beyond the members": {pods: 1, change: func(p *corev1.Pod) { p.Name = (&v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "main"}}).PodName(3) }, want: 0},
		"one that has ended":     {pods: 1, change: inPhase(corev1.PodFailed), want: 0},
		"one that was evicted":   {pods: 2, change: inPhase(corev1.PodFailed), want: 3},
		"one without its labels": {pods: 1, change: func(p *corev1.Pod) { p.Labels = nil }, want: 0},
		"it wakes up from its final snapshot": {pods: 3, etcd: func(e *v1alpha1.Etcd) {
			e.Status.Hibernation = &v1alpha1.Hibernation{ID: "job", ClusterID: "cafe"}
			e.Status.Recovery = &v1alpha1.ClusterRecovery{TaskUID: "job", PreviousClusterID: "cafe"}
		}, want: 3},
		"it has hibernated without volumes": {pods: 3, etcd: func(e *v1alpha1.Etcd) { e.Status.Hibernation = &v1alpha1.Hibernation{ID: "job", ClusterID: "cafe"} }, want: 0},
		"it has never served":               {pods: 3, etcd: func(e *v1alpha1.Etcd) { e.Status.ClusterID, e.Status.ClusterSize = "", 0 }, want: 0},
		"it is not to hibernate":            {pods: 3, etcd: func(e *v1alpha1.Etcd) { e.Spec.Replicas = 3 }, want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScaled(t, 3)
			s.change(func(e *v1alpha1.Etcd) {
				e.Spec.Replicas = 0
				if tc.etcd != nil {
					tc.etcd(e)
				}
			})
			s.Expect(s.api.Delete(t.Context(), s.state().StatefulSet)).To(Succeed())
			for i := range tc.pods {
				pod := &corev1.Pod{ObjectMeta: apitest.Own(s.state().Etcd, s.state().Etcd.PodName(i))}
				pod.OwnerReferences[0].Controller = nil
				pod.Labels[v1alpha1.LabelComponent] = v1alpha1.ComponentStatefulSet
				if i == 0 && tc.change != nil {
					tc.change(pod)
				}
				terminating := pod.DeletionTimestamp != nil
				s.Expect(s.api.Create(t.Context(), pod)).To(Succeed())
				if terminating {
					s.Expect(s.api.Delete(t.Context(), pod)).To(Succeed())
				}
			}
			st := s.state()
			st.PodsManagedBy = v1alpha1.ManagedBy
			apitest.EachRequestFails(t, s.api, func(api client.WithWatch) error {
				_, c, err := s.with(api).Begin(t.Context(), st, firststart.View{}, hibernation.WakeUp{})
				c.End()
				return err
			})
			_, c, err := s.with(s.api).Begin(t.Context(), st, firststart.View{}, hibernation.WakeUp{})
			defer c.End()
			s.Expect(err).NotTo(HaveOccurred())
			s.Expect(c.Replicas).To(Equal(tc.want))
			s.Expect(c.Permit(t.Context(), nil)).To(Succeed())
		})
	}
}

// A claim that someone has deleted since a task has chosen to stop the members goes with its data once no pod uses it: the members are not stopped, and the
// task decides once more. The cache may not show it yet.
func TestATaskStopsNoMemberWhoseClaimGoes(t *testing.T) {
	type change = func(s *scaled, task *v1alpha1.EtcdOperatorTask)
	restore := func(_ *scaled, task *v1alpha1.EtcdOperatorTask) {
		task.Spec.Type, task.Status.Rollout, task.Status.Recovery = v1alpha1.Restore, nil, &v1alpha1.RecoveryStatus{Phase: v1alpha1.RecoveryStopping}
	}
	recovery := func(_ *scaled, task *v1alpha1.EtcdOperatorTask) {
		task.Spec.Type, task.Status.Rollout, task.Status.Recovery = v1alpha1.QuorumLossRecovery, nil, &v1alpha1.RecoveryStatus{Phase: v1alpha1.RecoveryStopping}
	}
	silent := func(s *scaled, _ *v1alpha1.EtcdOperatorTask) {
		clustertest.Away(s.snapshot, 1, v1alpha1.ClassUnready, "")
	}
	for name, tc := range map[string]struct {
		changes []change
		stops   bool
	}{
		"a recreation": {},
		"that is told not to mind": {changes: []change{func(_ *scaled, task *v1alpha1.EtcdOperatorTask) {
			task.Spec.OverrideGuards = []v1alpha1.OverridableGuard{v1alpha1.OverridableGuard(v1alpha1.GuardVolumeReachable)}
		}}, stops: true},
		"of one that does not serve":              {changes: []change{silent}},
		"of a pod that has no node":               {changes: []change{func(s *scaled, _ *v1alpha1.EtcdOperatorTask) { s.snapshot.Ordinals[1].Pod.Node = cluster.Node{} }}, stops: true},
		"a restore":                               {changes: []change{restore}},
		"a restore, of one that does not serve":   {changes: []change{restore, silent}, stops: true},
		"a recovery, which judges that by itself": {changes: []change{recovery}, stops: true},
		"a recreation that has stopped the others": {changes: []change{func(s *scaled, _ *v1alpha1.EtcdOperatorTask) {
			set := s.state().StatefulSet
			set.Annotations = map[string]string{v1alpha1.AnnotationHeldAtZeroBy: "task"}
			s.Expect(s.api.Update(s.t.Context(), set)).To(Succeed())
		}}, stops: true},
	} {
		for late, cached := range map[string]bool{"known to the cache": true, "unknown to the cache": false} {
			t.Run(name+"/"+late, func(t *testing.T) {
				s := newScaled(t, 3)
				for i := range s.snapshot.Ordinals {
					claim := apitest.Claim(s.state().Etcd, int32(i))
					claim.Finalizers = []string{"kubernetes.io/pvc-protection"}
					s.Expect(s.api.Create(t.Context(), claim)).To(Succeed())
					if i == 1 {
						s.Expect(s.api.Delete(t.Context(), claim)).To(Succeed())
					}
					s.snapshot.Ordinals[i].Pod.Claims, s.snapshot.Ordinals[i].Pod.Node.Name = []string{claim.Name}, "node"
				}
				s.snapshot.Ordinals[1].Pod.VolumeGoes = cached
				task := s.task()
				for _, c := range tc.changes {
					c(s, task)
				}
				s.Expect(s.api.Create(t.Context(), task)).To(Succeed())
				st := s.state()
				st.Snapshot = s.snapshot
				held, err := s.hold(s.api, st)
				s.Expect(held).To(BeTrue(), "the spec waits in any case")
				s.Expect(*s.state().StatefulSet.Spec.Replicas == 0).To(Equal(tc.stops))
				if cached && !tc.stops {
					s.Expect(err).NotTo(HaveOccurred(), "the task decides once more, which may take a while")
				} else {
					s.Expect(err).To(MatchError(state.ErrBehind))
				}
			})
		}
	}
}
