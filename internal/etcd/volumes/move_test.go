// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// ask has the spec ask for a StorageClass, as a user does.
func (s *small) ask(class string) {
	etcd := s.state().Etcd
	etcd.Spec.StorageClass, etcd.Generation = &class, etcd.Generation+1
	s.Expect(s.api.Update(s.t.Context(), etcd)).To(Succeed())
}

// report writes what a View says of moves into the status.
func (s *small) report(view *View) {
	etcd := s.state().Etcd
	etcd.Status.Conditions.Remove(v1alpha1.ConditionVolumesMoved)
	if c := view.Moved(); c != nil {
		etcd.Status.Conditions.Set(*c)
	}
	s.Expect(s.api.Update(s.t.Context(), etcd)).To(Succeed())
}

func (s *small) grown() {
	for i := range 3 {
		s.claim(i, func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources, c.Status.Capacity = storage("8Gi"), storage("8Gi").Requests
		})
	}
}

// The status says that volumes move before the StatefulSet is replaced: by then the Role and certificates are for a further member, too.
// Claims do not grow that are about to go.
func TestAnotherClass(t *testing.T) {
	s := newSmall(t)
	s.ask("fast")
	view, err := s.reconcile(all)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(view.Moved()).To(And(HaveField("Reason", v1alpha1.ReasonVolumesMoving), HaveField("Message", ContainSubstring(`main-main-0 (StorageClass "disks")`))))
	s.Expect(view.Moved().Message).To(ContainSubstring("the claim template of the StatefulSet follows"))
	s.Expect(s.asks()).To(HaveEach("4Gi"))
	s.Expect(s.replaced()).To(BeFalse())

	s.report(view)
	s.Expect(s.state().Etcd.Moves()).To(BeTrue())
	s.Expect(s.state().Etcd.MemberHosts()).To(HaveLen(4))
	_, err = s.reconcile(all)
	s.Expect(err).To(MatchError(state.ErrBehind))
	s.Expect(s.replaced()).To(BeTrue())
}

// Volumes that are too small, and of a class that does not allow them to grow, move to larger ones of that class, beside those that grow. A
// spec that was applied moves nothing.
func TestAClassThatDoesNotAllowGrowth(t *testing.T) {
	s := newSmall(t)
	s.Expect(s.api.Create(t.Context(), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "stiff"}})).To(Succeed())
	for i := range 2 {
		s.claim(i, func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = ptr.To("stiff") })
	}
	view, err := s.reconcile(all)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(view.Moved()).To(BeNil(), "the spec was applied")
	s.Expect(view.Grown().Reason).To(Equal(v1alpha1.ReasonVolumesNotExpandable))
	s.Expect(s.asks()).To(HaveEach("4Gi"))

	etcd := s.state().Etcd
	etcd.Generation++
	s.Expect(s.api.Update(t.Context(), etcd)).To(Succeed())
	view, err = s.reconcile(all)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(view.Moved()).To(HaveField("Reason", v1alpha1.ReasonVolumesMoving))
	s.Expect(view.Moved().Message).To(Equal(`To move to volumes of 8Gi: main-main-0 (4Gi of StorageClass "stiff", which does not allow it to grow), main-main-1 (4Gi of StorageClass "stiff", which does not allow it to grow). One member after the other gets another volume, by a task of type MembershipChange, which begins after a rollout that is due. To keep a volume, suspend the task; the capacity cannot be set back. Before that, the claim template of the StatefulSet follows, while every member participates and no rollout runs.`))
	s.Expect(s.asks()).To(Equal([]string{"4Gi", "4Gi", "8Gi"}))
	s.Expect(s.replaced()).To(BeFalse(), "the status says so first")

	s.report(view)
	_, err = s.reconcile(all)
	s.Expect(err).To(MatchError(state.ErrBehind))
	s.Expect(s.replaced()).To(BeTrue())
}

// Which claims have outgrown their class.
func TestOutgrown(t *testing.T) {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "main"}, Spec: v1alpha1.EtcdSpec{Replicas: 1}}
	gi := func(n string) resource.Quantity { return resource.MustParse(n + "Gi") }
	for name, c := range map[string]struct {
		change func(*claim)
		want   bool
	}{
		"too small":                         {func(*claim) {}, true},
		"large enough":                      {func(c *claim) { c.asks = gi("8") }, false},
		"larger":                            {func(c *claim) { c.asks = gi("9") }, false},
		"it can grow, or its class is gone": {func(c *claim) { c.fixed = false }, false},
		"it has no volume":                  {func(c *claim) { c.bound = false }, false},
		"that of no member":                 {func(c *claim) { c.name = "main-main-1" }, false},
	} {
		of := claim{name: "main-main-0", bound: true, fixed: true, asks: gi("4")}
		c.change(&of)
		if got := outgrown(etcd, of, gi("8")); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The class is set back before a volume has moved: the template follows at once.
func TestClassIsSetBack(t *testing.T) {
	s := newSmall(t)
	s.grown()
	set := s.state().StatefulSet
	set.Spec.VolumeClaimTemplates[0].Spec = corev1.PersistentVolumeClaimSpec{Resources: storage("8Gi"), StorageClassName: ptr.To("fast")}
	s.Expect(s.api.Update(t.Context(), set)).To(Succeed())
	s.ask("disks")
	_, err := s.reconcile(all)
	s.Expect(err).To(MatchError(state.ErrBehind))
	s.Expect(s.replaced()).To(BeTrue())
}

// Nothing moves while a claim is foreign.
func TestForeignClaimsDoNotMove(t *testing.T) {
	s := newSmall(t)
	s.grown()
	s.claim(1, func(c *corev1.PersistentVolumeClaim) { c.Labels = nil })
	s.ask("fast")
	view, err := s.reconcile(all)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(view.Moved()).To(And(HaveField("Reason", v1alpha1.ReasonClaimNotOwned), HaveField("Message", ContainSubstring("ns/main-main-1"))))
	s.report(view)
	s.Expect(s.state().Etcd.Moves()).To(BeFalse())
	_, err = s.reconcile(all)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.replaced()).To(BeFalse())
}

// Which claims have to move.
func TestMisplaced(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*state.State)
		want   []string
	}{
		"another class":            {func(*state.State) {}, []string{"main-main-0", "main-main-1", "main-main-2"}},
		"one has moved":            {func(st *state.State) { st.Claims[1].Spec.StorageClassName = ptr.To("fast") }, []string{"main-main-0", "main-main-2"}},
		"one has none":             {func(st *state.State) { st.Claims = st.Claims[:1]; st.Claims[0].Spec.StorageClassName = nil }, []string{"main-main-0"}},
		"whatever they have":       {func(st *state.State) { st.Etcd.Spec.StorageClass = nil }, nil},
		"the spec has not changed": {func(st *state.State) { st.Etcd.Status.ObservedGeneration = st.Etcd.Generation }, nil},
		"the further one":          {func(st *state.State) { st.Etcd.Spec.Replicas = 1 }, []string{"main-main-0"}},
		"hibernated":               {func(st *state.State) { st.Etcd.Spec.Replicas = 0 }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSmall(t)
			st := s.state()
			st.Etcd.Generation, st.Etcd.Spec.StorageClass = 2, ptr.To("fast")
			c.change(st)
			s.Expect(Misplaced(st)).To(Equal(c.want))
		})
	}
}

// A volume on which a Restore keeps data waits for the end of its task, and the status says so.
func TestKeptDataDoesNotMove(t *testing.T) {
	g := NewWithT(t)
	v := volumes{claims: []claim{{name: "a", class: "slow", moves: true, keeper: "restore"}, {name: "b", class: "slow", moves: true}, {name: "c", class: "fast", keeper: "restore"}}}
	g.Expect(moved("fast", v).Message).To(ContainSubstring("Some wait: a stays until task restore is deleted, since that keeps there what the member had before it."))
	v.claims[0].keeper = ""
	g.Expect(moved("fast", v).Message).NotTo(ContainSubstring("Some wait"))
}
