// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// small is an Etcd of three members whose volumes have 4Gi, and are to have 8Gi.
type small struct {
	*WithT
	t        *testing.T
	api      client.WithWatch
	clock    *clocktesting.FakePassiveClock
	grower   *Grower
	snapshot *cluster.Snapshot
	// cached is what the cache shows of the members; nil for what the API server shows.
	cached *cluster.Snapshot
	// seen is called with each observation of the API server; nil for nothing.
	seen func(*Grower)
}

func storage(size string) corev1.VolumeResourceRequirements {
	return corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}}
}

func newSmall(t *testing.T) *small {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}, Spec: v1alpha1.EtcdSpec{Replicas: 3, StorageCapacity: ptr.To(resource.MustParse("8Gi"))}}
	const retain = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	set := apitest.StatefulSet(etcd, 3)
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{Spec: corev1.PersistentVolumeClaimSpec{Resources: storage("4Gi")}}}
	set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: retain, WhenScaled: retain}
	objects := append(podsOf(set), etcd, set, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "disks"}, AllowVolumeExpansion: ptr.To(true)})
	for i := range int32(3) {
		claim := apitest.Claim(etcd, i)
		claim.Spec = corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("disks"), Resources: storage("4Gi")}
		claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: storage("4Gi").Requests}
		objects = append(objects, claim)
	}
	s := &small{WithT: NewWithT(t), t: t, api: apitest.API(objects...), clock: clocktesting.NewFakePassiveClock(noon), snapshot: healthyMembers()}
	s.grower = s.through(s.api)
	return s
}

// through returns a Grower that has seen nothing yet.
func (s *small) through(api client.WithWatch) *Grower {
	g := &Grower{Access: state.Access{Client: api, API: api, Locker: &lock.Locks{}, Clock: s.clock}}
	g.Observer = apitest.Members(func() *cluster.Snapshot {
		if s.seen != nil {
			s.seen(g)
		}
		return s.snapshot
	})
	return g
}

// state as the cache has it.
func (s *small) state() *state.State {
	st := &state.State{Etcd: &v1alpha1.Etcd{}, StatefulSet: &appsv1.StatefulSet{}, Snapshot: s.snapshot}
	if s.cached != nil {
		st.Snapshot = s.cached
	}
	key := client.ObjectKey{Namespace: "ns", Name: "main"}
	s.Expect(s.api.Get(s.t.Context(), key, st.Etcd)).To(Succeed())
	s.Expect(s.api.Get(s.t.Context(), key, st.StatefulSet)).To(Succeed())
	var err error
	st.Claims, err = state.Claims(s.t.Context(), s.api, st.Etcd, 3)
	s.Expect(err).NotTo(HaveOccurred())
	return st
}

func (s *small) begin(api client.WithWatch, st *state.State) *apply.Session {
	objects := &apply.Objects{Writer: apply.Writer{Client: api, Live: api}, Clock: s.clock}
	session, err := objects.Begin(s.t.Context(), st.Etcd, st.StatefulSet, "")
	s.Expect(err).NotTo(HaveOccurred())
	return session
}

// each takes the next step with each of its requests failing.
func (s *small) each(may Permission) {
	s.t.Helper()
	st := s.state()
	apitest.EachRequestFails(s.t, s.api, func(api client.WithWatch) error {
		_, err := s.through(api).Reconcile(s.t.Context(), st, s.begin(api, st), may)
		return err
	})
}

func (s *small) reconcile(may Permission) (*View, error) {
	st := s.state()
	return s.grower.Reconcile(s.t.Context(), st, s.begin(s.api, st), may)
}

// asks are what the claims request.
func (s *small) asks() (asks []string) {
	for _, c := range s.state().Claims {
		asks = append(asks, ptr.To(c.Spec.Resources.Requests[corev1.ResourceStorage]).String())
	}
	return asks
}

func (s *small) claim(i int, change func(*corev1.PersistentVolumeClaim)) {
	c := &s.state().Claims[i]
	change(c)
	status := c.Status
	s.Expect(s.api.Update(s.t.Context(), c)).To(Succeed())
	c.Status = status
	s.Expect(s.api.Status().Update(s.t.Context(), c)).To(Succeed())
}

func (s *small) replaced() bool {
	return apierrors.IsNotFound(s.api.Get(s.t.Context(), client.ObjectKey{Namespace: "ns", Name: "main"}, &appsv1.StatefulSet{}))
}

var all = Permission{Grow: true, Replace: true}

// Claims come first, then the StatefulSet, each only where it may be.
func TestVolumesGrow(t *testing.T) {
	s := newSmall(t)
	view, err := s.reconcile(Permission{Replace: true})
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(view.Grown().Message).To(ContainSubstring("claim main-main-0 requests more"))
	s.Expect(s.asks()).To(HaveEach("4Gi"), "they may not")

	s.each(all)
	_, err = s.reconcile(all)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.asks()).To(HaveEach("8Gi"))
	s.Expect(s.replaced()).To(BeFalse(), "the claims come first")

	_, err = s.reconcile(Permission{Grow: true})
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.replaced()).To(BeFalse(), "it may not")
	s.each(all)
	locked := false
	s.seen = func(g *Grower) { locked = apitest.Locked(g.Locker, s.state().Etcd) }
	_, err = s.reconcile(all)
	s.Expect(err).To(MatchError(state.ErrBehind))
	s.Expect(locked).To(BeTrue(), "no task deletes a pod while this is decided")
	s.Expect(s.replaced()).To(BeTrue())
	view, err = s.grower.Reconcile(t.Context(), &state.State{}, nil, all)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(view).To(BeNil(), "there is none")
}

// One that has grown is not grown again, and of those that are too small each is.
func TestOneClaimIsLeft(t *testing.T) {
	s := newSmall(t)
	s.claim(0, func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources = storage("9Gi") })
	s.claim(2, func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources = storage("8Gi") })
	_, err := s.reconcile(all)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.asks()).To(Equal([]string{"9Gi", "8Gi", "8Gi"}))
}

// The StatefulSet is not deleted by what the cache alone says, nor while it must not be by what the API server says.
func TestStatefulSetIsNotReplaced(t *testing.T) {
	away := clustertest.Healthy(3)
	clustertest.Away(away, 1, v1alpha1.ClassUnready, "")
	running := func(s *small) {
		s.Expect(s.api.Create(s.t.Context(), &v1alpha1.EtcdOperatorTask{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "rollout"},
			Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.QuorumAwareRollout, OwnerEtcdReference: v1alpha1.EtcdReference{Name: "main"}},
			Status:     v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStateInProgress},
		})).To(Succeed())
	}
	for name, change := range map[string]func(s *small){
		"a member is away, as the cache says":                  func(s *small) { s.cached = away },
		"a member is away, as the API server says":             func(s *small) { s.cached, s.snapshot = s.snapshot, away },
		"there is no StatefulSet, as the API server says":      func(s *small) { s.cached, s.snapshot = s.snapshot, nil },
		"a rollout runs, of which the cache does not know yet": running,
		"an object is foreign": func(s *small) {
			s.Expect(s.api.Create(s.t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}})).To(Succeed())
		},
		"it is being deleted": func(s *small) {
			set := s.state().StatefulSet
			set.Finalizers = []string{"foregroundDeletion"}
			s.Expect(s.api.Update(s.t.Context(), set)).To(Succeed())
			s.Expect(s.api.Delete(s.t.Context(), set)).To(Succeed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSmall(t)
			for i := range 3 {
				s.claim(i, func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources = storage("8Gi") })
			}
			change(s)
			_, err := s.reconcile(all)
			s.Expect(err).NotTo(HaveOccurred())
			s.Expect(s.replaced()).To(BeFalse())
		})
	}
	s := newSmall(t)
	s.Expect(s.api.Delete(t.Context(), s.state().StatefulSet)).To(Succeed())
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}}
	s.Expect(s.grower.replaceSet(t.Context(), etcd)).To(Succeed(), "it is gone by now")
}

// What is known of a claim.
func TestDescribe(t *testing.T) {
	condition := func(kind corev1.PersistentVolumeClaimConditionType, status corev1.ConditionStatus) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) {
			c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: kind, Status: status}}
		}
	}
	usual := claim{name: "main-main-0", bound: true, class: "disks", expandable: true, asks: resource.MustParse("4Gi"), has: resource.MustParse("4Gi")}
	for name, tc := range map[string]struct {
		change func(*corev1.PersistentVolumeClaim)
		want   func(*claim)
	}{
		"usual":                           {func(*corev1.PersistentVolumeClaim) {}, func(*claim) {}},
		"its volume is gone":              {func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }, func(c *claim) { c.bound, c.lost = false, true }},
		"its class is gone":               {func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = ptr.To("other") }, func(c *claim) { c.class, c.expandable = "other", false }},
		"its class does not allow growth": {func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = ptr.To("stiff") }, func(c *claim) { c.class, c.expandable, c.fixed = "stiff", false, true }},
		"it has no class":                 {func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }, func(c *claim) { c.class, c.expandable = "", false }},
		"its file system waits":           {condition(corev1.PersistentVolumeClaimFileSystemResizePending, corev1.ConditionTrue), func(c *claim) { c.waitsForRestart = true }},
		"its file system waits no more":   {condition(corev1.PersistentVolumeClaimFileSystemResizePending, corev1.ConditionFalse), func(*claim) {}},
		"it is being resized":             {condition(corev1.PersistentVolumeClaimResizing, corev1.ConditionTrue), func(*claim) {}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSmall(t)
			s.Expect(s.api.Create(t.Context(), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "stiff"}})).To(Succeed())
			s.claim(0, tc.change)
			st := s.state()
			want := usual
			tc.want(&want)
			got, err := s.grower.describe(t.Context(), st.Etcd, &st.Claims[0])
			s.Expect(err).NotTo(HaveOccurred())
			s.Expect(got.asks.Cmp(want.asks)).To(BeZero())
			s.Expect(got.has.Cmp(want.has)).To(BeZero())
			got.asks, got.has, want.asks, want.has = resource.Quantity{}, resource.Quantity{}, resource.Quantity{}, resource.Quantity{}
			s.Expect(got).To(Equal(want))
		})
	}
}

// A claim that waits for its volume says why, and the API server is not asked for that each time.
func TestWarningOfAClaim(t *testing.T) {
	s := newSmall(t)
	s.claim(1, func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending })
	warn := func(name, message string, at time.Time) {
		s.Expect(s.api.Create(t.Context(), &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, InvolvedObject: corev1.ObjectReference{UID: "main-main-1"},
			Type: corev1.EventTypeWarning, Reason: "ProvisioningFailed", Message: message, LastTimestamp: metav1.NewTime(at),
		})).To(Succeed())
	}
	says := func() string {
		view, err := s.reconcile(Permission{})
		s.Expect(err).NotTo(HaveOccurred())
		return view.Ready(s.named()).Message
	}
	warn("a", "no space", noon)
	s.each(Permission{})
	s.Expect(says()).To(ContainSubstring("claim main-main-1 has no volume: ProvisioningFailed: no space"))
	warn("b", "no quota", noon.Add(time.Second))
	s.clock.SetTime(noon.Add(recheckWarning - time.Second))
	s.Expect(says()).To(ContainSubstring("no space"))
	s.clock.SetTime(noon.Add(recheckWarning))
	s.Expect(says()).To(ContainSubstring("no quota"))
	warn("c", "no node", noon.Add(2*time.Second))
	s.Expect(says()).To(ContainSubstring("no quota"))
	s.grower.Forget(client.ObjectKey{Namespace: "ns", Name: "main"})
	s.Expect(says()).To(ContainSubstring("no node"))
}

// named has the members under their names here.
func (s *small) named() *cluster.Snapshot {
	c := clustertest.Healthy(3)
	for i := range c.Ordinals {
		c.Ordinals[i].Name = fmt.Sprintf("main-%d", i)
	}
	return c
}

func TestForeignClaims(t *testing.T) {
	s := newSmall(t)
	s.Expect((*View)(nil).Foreign()).To(BeEmpty())
	view, err := s.reconcile(Permission{})
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(view.Foreign()).To(BeEmpty())
	s.claim(1, func(c *corev1.PersistentVolumeClaim) { c.Labels = nil })
	view, err = s.reconcile(all)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(view.Foreign()).To(ConsistOf(HaveField("Name", "ns/main-main-1")))
	s.Expect(s.asks()).To(HaveEach("4Gi"), "none grows while one is foreign")
}

func TestTemplateOutdated(t *testing.T) {
	s := newSmall(t)
	st := s.state()
	s.Expect(TemplateOutdated(st.Etcd, nil)).To(BeFalse())
	s.Expect(TemplateOutdated(st.Etcd, st.StatefulSet)).To(BeTrue())
	st.StatefulSet.Spec.VolumeClaimTemplates[0].Spec.Resources = storage("8Gi")
	s.Expect(TemplateOutdated(st.Etcd, st.StatefulSet)).To(BeFalse())
	st.StatefulSet.Spec.VolumeClaimTemplates = nil
	s.Expect(TemplateOutdated(st.Etcd, st.StatefulSet)).To(BeTrue(), "there is none")
}
