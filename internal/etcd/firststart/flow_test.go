// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package firststart

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/memberconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const data = `{"state":"Present","clusterID":"cafe","memberID":"%d","voters":["0","1","2"],"lastTerm":3,"lastIndex":9}`

// stage is an Etcd of three members that records no cluster, beside its StatefulSet without replicas and three claims.
type stage struct {
	*WithT
	t     *testing.T
	api   client.WithWatch
	clock *clocktesting.FakePassiveClock
	// cached is what the cache shows; nil if it is up to date.
	cached *state.State
	// fails: each request fails once.
	fails bool
	// source answers for a cluster to join; nil if it is not to be asked.
	source func() (uint64, []etcdclient.Member)
}

func newStage(t *testing.T) *stage {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "etcd", Generation: 4}, Spec: v1alpha1.EtcdSpec{Replicas: 3}}
	set, config := apitest.StatefulSet(etcd, 0), &corev1.ConfigMap{ObjectMeta: apitest.Own(etcd, "m-config")}
	set.UID, set.Generation = "set", 1
	b := &stage{WithT: NewWithT(t), t: t, clock: clocktesting.NewFakePassiveClock(noon)}
	b.api = apitest.API(etcd, set, config, claimOf(0), claimOf(1), claimOf(2))
	return b
}

// claimOf is the Etcd's own claim of an ordinal, with a volume.
func claimOf(i int) *corev1.PersistentVolumeClaim {
	name := fmt.Sprintf("m-m-%d", i)
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(noon), Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: "m"},
	}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}}
}

func of[T client.Object](b *stage, name string, object T) T {
	b.t.Helper()
	b.Expect(b.api.Get(b.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, object)).To(Succeed())
	return object
}

func (b *stage) etcd() *v1alpha1.Etcd      { return of(b, "m", &v1alpha1.Etcd{}) }
func (b *stage) config() *corev1.ConfigMap { return of(b, "m-config", &corev1.ConfigMap{}) }

func (b *stage) change(object client.Object, change func()) {
	b.t.Helper()
	change()
	b.Expect(b.api.Update(b.t.Context(), object)).To(Succeed())
}

func (b *stage) create(object client.Object) {
	b.t.Helper()
	b.Expect(b.api.Create(b.t.Context(), object)).To(Succeed())
}

func (b *stage) remove(object client.Object) {
	b.t.Helper()
	b.Expect(b.api.Delete(b.t.Context(), object)).To(Succeed())
}

// pod creates a pod of a member, which the next StatefulSet would adopt.
func (b *stage) pod(change func(*corev1.Pod)) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m-0", Labels: component.MemberSelector("m", v1alpha1.ManagedBy)}}
	change(p)
	b.create(p)
}

func (b *stage) state() *state.State {
	if b.cached != nil {
		return b.cached
	}
	s := &state.State{Etcd: b.etcd(), PodsManagedBy: v1alpha1.ManagedBy}
	var err error
	s.StatefulSet, err = state.StatefulSet(b.t.Context(), b.api, s.Etcd)
	b.Expect(err).NotTo(HaveOccurred())
	return s
}

func (b *stage) with(api client.WithWatch) (Starter, *apply.Session) {
	access := state.Access{Client: api, API: api, Locker: &lock.Locks{}, Clock: b.clock}
	s := b.state()
	session, err := (&apply.Objects{Writer: apply.Writer{Client: api, Live: api}, Clock: b.clock}).Begin(b.t.Context(), s.Etcd, s.StatefulSet, "")
	b.Expect(err).NotTo(HaveOccurred())
	return Starter{Access: access, Instructor: memberconfig.Writer{Access: access}, Source: func(context.Context, *v1alpha1.Etcd) observe.Source {
		if b.source == nil {
			b.t.Error("the source is asked")
			return observe.Source{}
		}
		id, members := b.source()
		return observe.Source{ClusterID: id, Members: members}
	}}, session
}

// each runs something with each of its requests failing.
func (b *stage) each(run func(api client.WithWatch) error) {
	b.t.Helper()
	if b.fails {
		apitest.EachRequestFails(b.t, b.api, run)
	}
}

// look takes one step.
func (b *stage) look() View {
	b.t.Helper()
	s := b.state()
	b.each(func(api client.WithWatch) error {
		starter, session := b.with(api)
		view, err := starter.Look(b.t.Context(), s, component.PeerTLSOff, session)
		if err != nil {
			b.Expect(view).To(Equal(View{}), "nothing is said")
		}
		return err
	})
	view, err := b.try(b.api)
	b.Expect(err).NotTo(HaveOccurred())
	return view
}

func (b *stage) try(api client.WithWatch) (View, error) {
	starter, session := b.with(api)
	return starter.Look(b.t.Context(), b.state(), component.PeerTLSOff, session)
}

// start is what happens right before the members start.
func (b *stage) start(v View) error {
	b.t.Helper()
	b.each(func(api client.WithWatch) error {
		starter, session := b.with(api)
		return starter.Start(b.t.Context(), b.etcd(), v, session)
	})
	starter, session := b.with(b.api)
	return starter.Start(b.t.Context(), b.etcd(), v, session)
}

func (b *stage) permit() *member.FirstStart {
	return member.ParseFirstStart(b.config().Data[member.KeyFirstStart])
}

func (b *stage) permits(f member.FirstStart) {
	text, err := f.Encode()
	b.Expect(err).NotTo(HaveOccurred())
	c := b.config()
	b.change(c, func() { c.Data = map[string]string{member.KeyFirstStart: text} })
}

func (b *stage) jobs() (names []string) {
	list := &batchv1.JobList{}
	b.Expect(b.api.List(b.t.Context(), list)).To(Succeed())
	for _, j := range list.Items {
		names = append(names, j.Name)
	}
	return names
}

// complete ends the Jobs, each with what the agent says of its volume.
func (b *stage) complete(says func(i int) string) {
	for i, name := range b.jobs() {
		apitest.Complete(b.t, b.api, client.ObjectKey{Namespace: "ns", Name: name}, says(i))
	}
}

// A first start that was interrupted is continued under the spec of then. Under another size, or another peer TLS, nothing starts: its data is recorded as
// no cluster, since it had no leader, and members with other data would not find it.
func TestAFirstStartThatWasInterrupted(t *testing.T) {
	for name, tc := range map[string]struct {
		members int32
		peerTLS component.PeerTLS
		says    string
	}{
		"under this spec":        {3, component.PeerTLSOff, "no volume holds data that was acknowledged"},
		"under another size":     {5, component.PeerTLSOff, "begun with spec.replicas: 5 and no peer TLS has had no leader, and the Etcd is to begin one with spec.replicas: 3 and no peer TLS"},
		"under another peer TLS": {3, component.PeerTLSOn, "begun with spec.replicas: 3 and peer TLS has had no leader"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newStage(t)
			b.look()
			id := component.BootstrappedID(b.etcd(), tc.members, tc.peerTLS)
			var voters []string
			for i := range tc.members {
				voters = append(voters, fmt.Sprintf("%q", fmt.Sprint(i)))
			}
			b.complete(func(i int) string {
				if i > 0 {
					return `{"state":"None"}`
				}
				return fmt.Sprintf(`{"state":"Present","clusterID":%q,"memberID":"0","voters":[%s],"lastTerm":1,"lastIndex":%d}`, id, strings.Join(voters, ","), tc.members)
			})
			view := b.look()
			b.Expect(view.Why).To(ContainSubstring(tc.says))
			b.Expect(view.Found).To(BeNil())
			b.Expect(b.permit() != nil).To(Equal(name == "under this spec"))
		})
	}
}

// Beside volumes that exist, the members may begin a cluster once each was surveyed and found empty, and the Jobs are gone.
func TestEveryVolumeIsSurveyedFirst(t *testing.T) {
	b := newStage(t)
	b.fails = true
	view := b.look()
	b.Expect(view.Reason).To(Equal(v1alpha1.ReasonSurveyingVolumes))
	b.Expect(view.Why).To(ContainSubstring("m-m-2"))
	b.Expect(b.jobs()).To(HaveLen(3))
	b.Expect(b.look().Why).NotTo(BeEmpty())
	b.Expect(b.start(view)).To(Succeed())
	b.Expect(b.permit()).To(BeNil())

	b.complete(func(int) string { return `{"state":"None"}` })
	b.Expect(b.look().Reason).To(Equal(v1alpha1.ReasonSurveyingVolumes))
	want := &member.FirstStart{Etcd: "etcd", Claims: []string{"m-m-0", "m-m-1", "m-m-2"}, Round: "first-start/set/1"}
	b.Expect(b.permit()).To(Equal(want))
	b.Expect(b.look().Why).To(ContainSubstring("removing the Jobs"))
	b.Expect(b.jobs()).To(BeEmpty())
	view = b.look()
	b.Expect([]any{view.Reason, view.Why, view.Found}).To(Equal([]any{"", "", (*Cluster)(nil)}))
	b.Expect(b.start(view)).To(Succeed())
	b.Expect(b.permit()).To(Equal(want))
	b.clock.SetTime(noon.Add(state.MaxReadAge + time.Second))
	b.Expect(b.start(view)).To(MatchError(state.ErrBehind), "what was read may have changed")

	// The StatefulSet was scaled in between: its members may have written.
	set := of(b, "m", &appsv1.StatefulSet{})
	b.change(set, func() { set.Generation = 3 })
	b.Expect(b.look().Why).To(ContainSubstring("have not been surveyed"))
	b.Expect(b.permit()).To(BeNil())
}

// What the volumes hold decides which cluster it is; what is said names the volumes and their Jobs.
func TestVolumesHoldData(t *testing.T) {
	b := newStage(t)
	b.fails = true
	b.look()
	b.complete(func(i int) string { return fmt.Sprintf(data, i) })
	view := b.look()
	b.Expect(view.Found).To(Equal(&Cluster{"cafe", 3}))
	b.Expect(view.Why).To(ContainSubstring("recording that before members are started"))
	b.Expect(b.start(view)).To(Succeed())
	b.Expect(b.permit()).To(BeNil())
	etcd := b.etcd()
	b.change(etcd, func() { etcd.Status.ClusterID = "cafe" })
	b.Expect(b.start(View{})).To(Succeed())
	b.Expect(b.config().Data).To(HaveKeyWithValue(member.KeyClusterID, "cafe"))

	b = newStage(t)
	b.look()
	b.complete(func(i int) string {
		return fmt.Sprintf(`{"state":"Present","clusterID":"%d","memberID":"1","voters":["1"],"lastTerm":3,"lastIndex":9}`, i)
	})
	view = b.look()
	b.Expect(view.Reason).To(Equal(v1alpha1.ReasonFirstStartBlocked))
	b.Expect(view.Why).To(ContainSubstring(b.jobs()[1]))
}

// Which claims are surveyed, and what comes before.
func TestWhatIsSurveyed(t *testing.T) {
	foreign := func(i int) *corev1.PersistentVolumeClaim {
		c := claimOf(i)
		c.Labels = map[string]string{v1alpha1.LabelPartOf: "web"}
		return c
	}
	for name, c := range map[string]struct {
		given func(b *stage)
		jobs  int
		says  string
		found *Cluster
		// begins: the members may be started, and are told that they may begin a cluster.
		begins bool
	}{
		"a further claim of the Etcd":       {given: func(b *stage) { b.create(claimOf(4)) }, jobs: 4, says: "m-m-4"},
		"that of the one which stood in":    {given: func(b *stage) { b.create(claimOf(5)) }, jobs: 4, says: "m-m-5"},
		"another's claim, of a next member": {given: func(b *stage) { b.create(foreign(3)) }, jobs: 3, says: "m-m-2"},
		"another's claim, of a member":      {given: func(b *stage) { b.remove(claimOf(2)); b.create(foreign(2)) }, says: "m-m-2 is part of web"},
		"another's claim, of a former member": {given: func(b *stage) {
			etcd := b.etcd()
			b.change(etcd, func() { etcd.Status.ClusterSize = 5 })
			b.create(foreign(4))
		}, says: "m-m-4 is part of web"},
		"a claim without a volume": {given: func(b *stage) {
			b.remove(claimOf(1))
			without := claimOf(1)
			without.Spec.VolumeName = ""
			b.create(without)
		}, jobs: 2, says: "m-m-2"},
		"no claim": {given: func(b *stage) {
			for i := range 3 {
				b.remove(claimOf(i))
			}
		}, begins: true},
		"no claim, and pods": {given: func(b *stage) {
			for i := range 3 {
				b.remove(claimOf(i))
			}
			b.pod(func(*corev1.Pod) {})
		}, begins: true},
		"claims that go": {given: func(b *stage) {
			for i := range 3 {
				claim := of(b, fmt.Sprintf("m-m-%d", i), &corev1.PersistentVolumeClaim{})
				b.change(claim, func() { claim.Finalizers = []string{"kubernetes.io/pvc-protection"} })
				b.remove(claim)
			}
		}, begins: true},
		"no claim, and the ConfigMap records a cluster": {given: func(b *stage) {
			for i := range 3 {
				b.remove(claimOf(i))
			}
			config := b.config()
			b.change(config, func() { config.Data = map[string]string{member.KeyClusterID: "beef"} })
		}, says: "the ConfigMap records cluster beef", found: &Cluster{"beef", 3}},
		"a pod that is left": {given: func(b *stage) { b.pod(func(*corev1.Pod) {}) }, says: "waiting for the end of pods that are left: m-0"},
		"no StatefulSet":     {given: func(b *stage) { b.remove(of(b, "m", &appsv1.StatefulSet{})) }, says: "the StatefulSet is created without replicas"},
		"no StatefulSet, and pods that the next one adopts": {given: func(b *stage) {
			b.remove(of(b, "m", &appsv1.StatefulSet{}))
			b.pod(func(*corev1.Pod) {})
		}},
		"no StatefulSet, and pods of another": {given: func(b *stage) {
			b.remove(of(b, "m", &appsv1.StatefulSet{}))
			b.pod(func(p *corev1.Pod) { p.Labels = nil })
		}, says: "pods that are left: m-0"},
		"no StatefulSet, and its pods still have it": {given: func(b *stage) {
			b.remove(of(b, "m", &appsv1.StatefulSet{}))
			b.pod(func(p *corev1.Pod) { p.OwnerReferences = apitest.ControlledBy(b.etcd()) })
		}, says: "pods that are left: m-0"},
		"no StatefulSet, and pods that go": {given: func(b *stage) {
			b.remove(of(b, "m", &appsv1.StatefulSet{}))
			b.pod(func(p *corev1.Pod) { p.Finalizers = []string{"a/b"} })
			b.remove(of(b, "m-0", &corev1.Pod{}))
		}, says: "pods that are left: m-0"},
		"a permission of an earlier Etcd": {given: func(b *stage) {
			b.permits(member.FirstStart{Etcd: "earlier", Claims: []string{"m-m-0", "m-m-1", "m-m-2"}, Round: "first-start/set/1"})
		}, jobs: 3, says: "m-m-2"},
		"a permission that does not know all claims": {given: func(b *stage) {
			b.permits(member.FirstStart{Etcd: "etcd", Claims: []string{"m-m-0", "m-m-1"}, Round: "first-start/set/1"})
		}, says: "have not been surveyed"},
		"a permission of this Etcd, and this StatefulSet": {given: func(b *stage) {
			b.permits(member.FirstStart{Etcd: "etcd", Claims: []string{"m-m-0", "m-m-1", "m-m-2"}, Round: "first-start/set/1"})
		}, begins: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newStage(t)
			c.given(b)
			view := b.look()
			b.Expect(view.Why).To(ContainSubstring(c.says))
			b.Expect(view.Why == "").To(Equal(c.says == ""))
			b.Expect(view.Found).To(Equal(c.found))
			b.Expect(b.jobs()).To(HaveLen(c.jobs))
			b.Expect(b.start(view)).To(Succeed())
			if permit := b.permit(); c.begins {
				b.Expect(permit).NotTo(BeNil())
				b.Expect(permit.Etcd).To(Equal("etcd"))
			} else if permit != nil {
				b.Expect(permit.Etcd).To(Equal("earlier"))
			}
		})
	}
}

// Where an object is foreign nothing is written, and what a foreign ConfigMap says does not count.
func TestNothingIsWrittenBesideAForeignObject(t *testing.T) {
	b := newStage(t)
	b.create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m-client", UID: "service"}})
	b.Expect(b.look().Reason).To(Equal(v1alpha1.ReasonSurveyingVolumes))
	b.Expect(b.jobs()).To(BeEmpty())

	b = newStage(t)
	for i := range 3 {
		b.remove(claimOf(i))
	}
	config := b.config()
	b.change(config, func() {
		config.OwnerReferences, config.Data = nil, map[string]string{member.KeyClusterID: "beef"}
	})
	b.Expect(b.look().Found).To(BeNil())
}

// The cache is late, or the operator was paused: nothing is done.
func TestNothingIsDoneOnWhatIsLate(t *testing.T) {
	set := func(change func(*appsv1.StatefulSet)) func(b *stage) {
		return func(b *stage) {
			s := of(b, "m", &appsv1.StatefulSet{})
			b.change(s, func() { change(s) })
		}
	}
	etcd := func(change func(*v1alpha1.Etcd)) func(b *stage) {
		return func(b *stage) { e := b.etcd(); b.change(e, func() { change(e) }) }
	}
	gone := func(b *stage) { b.remove(of(b, "m", &appsv1.StatefulSet{})) }
	for name, change := range map[string]func(b *stage){
		"the spec has changed":           etcd(func(e *v1alpha1.Etcd) { e.Generation++ }),
		"a cluster is recorded":          etcd(func(e *v1alpha1.Etcd) { e.Status.ClusterID = "cafe" }),
		"a recovery is recorded":         etcd(func(e *v1alpha1.Etcd) { e.Status.Recovery = &v1alpha1.ClusterRecovery{} }),
		"the StatefulSet was scaled":     set(func(s *appsv1.StatefulSet) { s.Generation++ }),
		"the StatefulSet is another one": set(func(s *appsv1.StatefulSet) { s.UID = "other" }),
		"the StatefulSet is gone":        gone,
		"the StatefulSet was created": func(b *stage) {
			b.cached.StatefulSet = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newStage(t)
			b.cached = b.state()
			change(b)
			view, err := b.try(b.api)
			b.Expect(err).To(MatchError(state.ErrBehind))
			b.Expect(view).To(Equal(View{}))
			b.Expect(b.jobs()).To(BeEmpty())
		})
	}
	b := newStage(t)
	_, err := b.try(interceptor.NewClient(b.api, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
		b.clock.SetTime(b.clock.Now().Add(state.MaxReadAge / 2))
		return c.Get(ctx, key, into, options...)
	}}))
	b.Expect(err).To(MatchError(state.ErrBehind))
	b.Expect(b.jobs()).To(BeEmpty())
}

// An Etcd that has served, or is to have no members, is left alone. One whose members run gets a permission if it had none, unless
// they join another cluster.
func TestWhoseVolumesAreNotSurveyed(t *testing.T) {
	runs := func(b *stage) {
		set := of(b, "m", &appsv1.StatefulSet{})
		b.change(set, func() { set.Spec.Replicas, set.CreationTimestamp = ptr.To(int32(3)), metav1.NewTime(noon) })
	}
	for name, c := range map[string]struct {
		given  func(b *stage, e *v1alpha1.Etcd)
		begins bool
		waits  string
	}{
		"it has no replicas":    {given: func(_ *stage, e *v1alpha1.Etcd) { e.Spec.Replicas = 0 }},
		"it records a cluster":  {given: func(_ *stage, e *v1alpha1.Etcd) { e.Status.ClusterID = "cafe" }},
		"it is being recovered": {given: func(_ *stage, e *v1alpha1.Etcd) { e.Status.Recovery = &v1alpha1.ClusterRecovery{} }},
		"its members run":       {given: func(b *stage, _ *v1alpha1.Etcd) { runs(b) }, begins: true},
		"its members run, and join": {given: func(b *stage, e *v1alpha1.Etcd) {
			runs(b)
			e.Spec.Etcd.BootstrapWithExistingCluster = source
			b.source = func() (uint64, []etcdclient.Member) {
				return 0xcafe, []etcdclient.Member{{ID: 1, Name: "s0"}, {ID: 2, Name: "m-1"}}
			}
		}, waits: "the source cluster lists m-1 (2)"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newStage(t)
			b.fails = true
			etcd := b.etcd()
			b.change(etcd, func() { c.given(b, etcd) })
			view := b.look()
			b.Expect(view.Waits).To(HavePrefix(c.waits))
			b.Expect(view.Waits == "").To(Equal(c.waits == ""))
			view.Waits = ""
			b.Expect(view).To(Equal(View{}))
			b.Expect(b.jobs()).To(BeEmpty())
			b.Expect(b.permit() != nil).To(Equal(c.begins))
		})
	}
}

var source = &v1alpha1.BootstrapWithExistingCluster{
	Members: []v1alpha1.BootstrapExistingMember{{Name: "s0", PeerURLs: []string{"http://s0:2380"}}}, ClientEndpoints: []string{"http://s0:2379"},
}

// Members that join a cluster have it for theirs once it has answered, and that is asked only once the volumes were surveyed.
func TestTheClusterThatMembersJoin(t *testing.T) {
	for name, says := range map[string]string{"without data": `{"state":"None"}`, "with its data": fmt.Sprintf(data, 0)} {
		t.Run(name, func(t *testing.T) {
			b := newStage(t)
			b.remove(claimOf(1))
			b.remove(claimOf(2))
			etcd := b.etcd()
			b.change(etcd, func() { etcd.Spec.Etcd.BootstrapWithExistingCluster = source })
			b.Expect(b.look().Why).To(ContainSubstring("surveying the volumes"))
			b.complete(func(int) string { return says })
			if name == "without data" {
				b.look() // permits
				b.look() // removes the Jobs
			}
			b.source = func() (uint64, []etcdclient.Member) { return 0xcafe, []etcdclient.Member{{ID: 1, Name: "s0"}} }
			view := b.look()
			b.Expect(view.Found).To(Equal(&Cluster{"cafe", 3}))
			b.Expect(view.begins).To(BeFalse())
		})
	}
}

// Members that someone has started before they may join wait. They join once the source may be joined, as it would be before the first start.
func TestMembersThatWaitForTheirSource(t *testing.T) {
	b := newStage(t)
	etcd, set := b.etcd(), of(b, "m", &appsv1.StatefulSet{})
	b.change(etcd, func() { etcd.Spec.Etcd.BootstrapWithExistingCluster = source })
	b.change(set, func() { set.Spec.Replicas = ptr.To[int32](3) })
	list := []etcdclient.Member{{ID: 1, Name: "s0"}, {ID: 2, Name: "stray"}}
	b.source = func() (uint64, []etcdclient.Member) { return 0xcafe, list }
	b.Expect(b.look()).To(Equal(View{Waits: "the source cluster has members that spec.etcd.bootstrapWithExistingCluster does not name: stray (2)"}), "they are not stopped")
	list = list[:1]
	b.Expect(b.look()).To(Equal(View{Found: &Cluster{"cafe", 3}}))
	b.Expect(b.permit()).To(BeNil())
}

func TestStarts(t *testing.T) {
	g := NewWithT(t)
	set := func(n int32) *appsv1.StatefulSet {
		return &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: &n}}
	}
	g.Expect(Starts(nil, 3)).To(BeTrue())
	g.Expect(Starts(set(0), 1)).To(BeTrue())
	g.Expect(Starts(set(1), 3)).To(BeFalse())
	g.Expect(Starts(&appsv1.StatefulSet{}, 3)).To(BeFalse(), "one replica is the default")
	g.Expect(Starts(nil, 0)).To(BeFalse())
	g.Expect(Starts(set(0), 0)).To(BeFalse())
}
