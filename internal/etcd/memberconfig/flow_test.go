// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package memberconfig

import (
	"context"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/auth"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
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

var key = client.ObjectKey{Namespace: "ns", Name: "main-config"}

// served is an Etcd that has served and is recovered.
func served() *v1alpha1.Etcd {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}, Spec: v1alpha1.EtcdSpec{Replicas: 3}}
	etcd.Status.ClusterID = "cafe"
	etcd.Status.Recovery = &v1alpha1.ClusterRecovery{TaskUID: "uid", Member: "m", Source: v1alpha1.RecoverFromData, PreviousClusterID: "cafe"}
	return etcd
}

// own is the ConfigMap of an Etcd.
func own(etcd *v1alpha1.Etcd, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: apitest.Own(etcd, key.Name), Data: data}
}

type trial struct {
	*WithT
	t     *testing.T
	api   client.WithWatch
	clock *clocktesting.FakePassiveClock
}

func newTrial(t *testing.T, objects ...client.Object) *trial {
	return &trial{WithT: NewWithT(t), t: t, api: apitest.API(objects...), clock: clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))}
}

func (r *trial) writer(api client.WithWatch) Writer {
	return Writer{Access: state.Access{Client: api, API: api, Clock: r.clock}}
}

func (r *trial) session(api client.WithWatch, etcd *v1alpha1.Etcd) *apply.Session {
	r.t.Helper()
	session, err := (&apply.Objects{Writer: apply.Writer{Client: api, Live: api}, Clock: r.clock}).Begin(r.t.Context(), etcd, nil, "")
	r.Expect(err).NotTo(HaveOccurred())
	return session
}

func (r *trial) write(api client.WithWatch, w Writer, etcd *v1alpha1.Etcd) error {
	return w.Write(r.t.Context(), api, etcd, r.session(api, etcd))
}

func (r *trial) data() map[string]string {
	config := &corev1.ConfigMap{}
	r.Expect(r.api.Get(r.t.Context(), key, config)).To(Succeed())
	return config.Data
}

// counting counts the patches, and may do something before each.
func counting(api client.WithWatch, n *int, before func()) client.WithWatch {
	return interceptor.NewClient(api, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
		*n++
		if before != nil {
			before()
		}
		return c.Patch(ctx, o, p, options...)
	}})
}

// Members are told what the status says, and whose requests their agents accept; a first start is over. Nothing is written twice.
func TestWrite(t *testing.T) {
	etcd := served()
	r := newTrial(t, etcd, own(etcd, map[string]string{member.KeyFirstStart: "etcd: etcd", "other": "stays"}))
	trust := auth.Trust{}
	with := func(api client.WithWatch) Writer {
		w := r.writer(api)
		w.AgentTrust = func(*v1alpha1.Etcd) auth.Trust { return trust }
		return w
	}
	apitest.EachRequestFails(t, r.api, func(api client.WithWatch) error { return r.write(api, with(api), etcd) })
	r.Expect(r.write(r.api, with(r.api), etcd)).To(Succeed())
	text, _, err := encode(etcd.Status.Recovery)
	r.Expect(err).NotTo(HaveOccurred())
	want := map[string]string{member.KeyClusterID: "cafe", member.KeyRecovery: text, "other": "stays"}
	if trust.String() != "" {
		want[member.KeyAgentAPI] = trust.String()
	}
	r.Expect(r.data()).To(Equal(want))
	session := r.session(r.api, etcd)
	r.Expect(with(r.api).Write(t.Context(), r.api, etcd, session)).To(Succeed())

	// Without a rule nothing is said of agents.
	r.Expect(r.write(r.api, r.writer(r.api), etcd)).To(Succeed())
	r.Expect(r.data()).To(Equal(want))
}

func TestMissingTrust(t *testing.T) {
	g := NewWithT(t)
	g.Expect(missing(&v1alpha1.Etcd{}, "a", nil)).To(Equal(map[string]any{member.KeyAgentAPI: "a"}))
	g.Expect(missing(&v1alpha1.Etcd{}, "a", map[string]string{member.KeyAgentAPI: "a"})).To(BeEmpty())
	g.Expect(missing(&v1alpha1.Etcd{}, "", map[string]string{member.KeyAgentAPI: "a"})).To(BeEmpty())
}

// Where there is no ConfigMap nothing is written, and a foreign one, or any other foreign object of the Etcd, is left alone.
func TestWriteNeedsTheEtcdsOwnConfigMap(t *testing.T) {
	etcd := served()
	foreign, service := own(etcd, nil), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: etcd.ClientServiceName(), UID: "service"}}
	foreign.OwnerReferences = nil
	for name, objects := range map[string][]client.Object{
		"none": {etcd}, "a foreign one": {etcd, foreign}, "a foreign Service": {etcd, own(etcd, nil), service},
	} {
		r := newTrial(t, objects...)
		patches := 0
		api := counting(r.api, &patches, nil)
		r.Expect(r.write(api, r.writer(api), etcd)).To(Succeed(), name)
		r.Expect(patches).To(BeZero(), name)
	}
	// Of a cluster that has served, a ConfigMap that the cache does not have may have been replaced by a foreign one.
	r, cache := newTrial(t, etcd, foreign), apitest.API(etcd)
	session := r.session(r.api, etcd)
	r.Expect(r.writer(r.api).Write(t.Context(), cache, etcd, session)).To(Succeed())
	r.Expect(session.Foreign()).To(HaveLen(1))
	apitest.EachRequestFails(t, apitest.API(etcd), func(api client.WithWatch) error { return r.write(api, r.writer(api), etcd) })
	fresh := served()
	fresh.Status = v1alpha1.EtcdStatus{}
	session = r.session(r.api, fresh)
	r.Expect(r.writer(r.api).Write(t.Context(), cache, fresh, session)).To(Succeed())
	r = newTrial(t, etcd, own(etcd, map[string]string{member.KeyClusterID: "cafe"}))
	etcd.Status.Recovery = nil
	session = r.session(r.api, etcd)
	r.Expect(r.writer(r.api).Write(t.Context(), r.api, etcd, session)).To(Succeed())
}

// Members that start with what was recorded once are taken for those of another cluster.
func TestWriteNeedsTheLiveStatus(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.Etcd){
		"another cluster":  func(e *v1alpha1.Etcd) { e.Status.ClusterID = "beef" },
		"another recovery": func(e *v1alpha1.Etcd) { e.Status.Recovery.TaskUID = "later" },
		"no recovery":      func(e *v1alpha1.Etcd) { e.Status.Recovery = nil },
		"another Etcd":     func(e *v1alpha1.Etcd) { e.UID = "other" },
	} {
		etcd, live := served(), served()
		change(live)
		r := newTrial(t, live, own(etcd, nil))
		r.Expect(r.write(r.api, r.writer(r.api), etcd)).To(MatchError(state.ErrBehind), name)
		r.Expect(r.data()).To(BeEmpty(), name)
	}
}

// The API server decides what is missing: the cache may lag, and show what was written since as missing, or a ConfigMap that is gone.
func TestWriteWithAStaleCache(t *testing.T) {
	etcd := served()
	current := own(etcd, nil)
	text, _, err := encode(etcd.Status.Recovery)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	current.Data = map[string]string{member.KeyClusterID: "cafe", member.KeyRecovery: text}
	foreign := own(etcd, nil)
	foreign.OwnerReferences = nil
	for name, objects := range map[string][]client.Object{"written": {etcd, current}, "gone": {etcd}, "replaced": {etcd, foreign}} {
		r := newTrial(t, objects...)
		cache, patches := apitest.API(etcd, own(etcd, nil)), 0
		w := r.writer(counting(r.api, &patches, nil))
		r.Expect(w.Write(t.Context(), cache, etcd, r.session(cache, etcd))).To(Succeed(), name)
		r.Expect(patches).To(BeZero(), name)
	}
}

// A permission is written to the ConfigMap as it was read, and in time; or withdrawn. A ConfigMap that goes takes it along.
func TestPermit(t *testing.T) {
	etcd := served()
	r := newTrial(t, etcd, own(etcd, map[string]string{"other": "stays"}))
	permit := &member.FirstStart{Etcd: "etcd"}
	run := func(api client.WithWatch, permit *member.FirstStart) error {
		w := r.writer(api)
		return w.Permit(t.Context(), w.Live(), etcd, "", permit)
	}
	apitest.EachRequestFails(t, r.api, func(api client.WithWatch) error { return run(api, permit) })
	old := r.writer(r.api).Live()
	r.clock.SetTime(r.clock.Now().Add(state.MaxReadAge + 1))
	r.Expect(r.writer(r.api).Permit(t.Context(), old, etcd, "", permit)).To(MatchError(state.ErrBehind))
	r.Expect(r.data()).NotTo(HaveKey(member.KeyFirstStart))

	changed := func() {
		config := own(etcd, map[string]string{"other": "changed"})
		r.Expect(r.api.Update(t.Context(), config)).To(Succeed())
	}
	n := 0
	r.Expect(apierrors.IsConflict(run(counting(r.api, &n, changed), permit))).To(BeTrue())
	r.Expect(r.data()).To(Equal(map[string]string{"other": "changed"}))

	r.Expect(run(r.api, permit)).To(Succeed())
	r.Expect(member.ParseFirstStart(r.data()[member.KeyFirstStart])).To(Equal(permit))
	r.Expect(run(r.api, nil)).To(Succeed())
	r.Expect(r.data()).To(Equal(map[string]string{"other": "changed"}))
	gone := func() { r.Expect(r.api.Delete(t.Context(), own(etcd, nil))).To(Succeed()) }
	r.Expect(run(counting(r.api, &n, gone), permit)).To(Succeed())
	r.Expect(run(r.api, permit)).To(MatchError(state.ErrBehind), "there is none")
	foreign := own(etcd, nil)
	foreign.OwnerReferences = nil
	r.Expect(r.api.Create(t.Context(), foreign)).To(Succeed())
	r.Expect(run(r.api, permit)).To(MatchError(HavePrefix("instructing the members: ConfigMap ns/main-config has the labels of this Etcd and no controller")))
	r.Expect(r.data()).To(BeEmpty())
}

// Members are told of a change as it was recorded, and never of an older one.
func TestAnnounce(t *testing.T) {
	etcd := served()
	r := newTrial(t, etcd, own(etcd, map[string]string{"other": "stays"}))
	told := member.Members{Etcd: "etcd", ClusterID: "cafe", Generation: 7, Leaving: []string{"main-2"}}
	patches := 0
	run := func(api client.WithWatch, m member.Members) error {
		w := r.writer(counting(api, &patches, nil))
		return w.Announce(t.Context(), w.Live(), etcd, "", m)
	}
	apitest.EachRequestFails(t, r.api, func(api client.WithWatch) error { return run(api, told) })
	patches = 0
	r.Expect(run(r.api, told)).To(Succeed())
	r.Expect(member.ParseMembers(r.data()[member.KeyMembers])).To(Equal(&told))
	r.Expect(run(r.api, told)).To(Succeed())
	r.Expect(patches).To(Equal(1), "nothing is written twice")

	r.Expect(run(r.api, member.Members{Generation: 6})).To(MatchError(state.ErrBehind))
	r.Expect(member.ParseMembers(r.data()[member.KeyMembers])).To(Equal(&told))
	later := member.Members{Etcd: "etcd", ClusterID: "cafe", Generation: 8}
	r.Expect(run(r.api, later)).To(Succeed())
	r.Expect(member.ParseMembers(r.data()[member.KeyMembers])).To(Equal(&later))
	r.Expect(r.data()).To(HaveKeyWithValue("other", "stays"))

	old := r.writer(r.api).Live()
	r.clock.SetTime(r.clock.Now().Add(state.MaxReadAge + 1))
	r.Expect(r.writer(r.api).Announce(t.Context(), old, etcd, "", told)).To(MatchError(state.ErrBehind), "the reads are old")
	config := own(etcd, map[string]string{member.KeyMembers: "etcd: earlier\nclusterID: cafe\ngeneration: 99\n"})
	r.Expect(r.api.Update(t.Context(), config)).To(Succeed())
	r.Expect(run(r.api, told)).To(Succeed(), "what an earlier Etcd was told does not count")
	config = own(etcd, map[string]string{member.KeyMembers: "unreadable: ["})
	r.Expect(r.api.Update(t.Context(), config)).To(Succeed())
	r.Expect(run(r.api, told)).To(Succeed())
}

func TestInstructed(t *testing.T) {
	text, _, err := encode(served().Status.Recovery)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	detailed := served()
	detailed.Status.Recovery.HadData = true
	_, details, err := encode(detailed.Status.Recovery)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	without := served()
	without.Status.Recovery = nil
	for name, c := range map[string]struct {
		etcd *v1alpha1.Etcd
		data map[string]string
		want bool
	}{
		"instructed":                {served(), map[string]string{member.KeyRecovery: text}, true},
		"in detail":                 {detailed, map[string]string{member.KeyRecovery: text, member.KeyRecoveryDetails: details}, true},
		"without the details":       {detailed, map[string]string{member.KeyRecovery: text}, false},
		"not yet":                   {served(), map[string]string{}, false},
		"otherwise":                 {served(), map[string]string{member.KeyRecovery: "other"}, false},
		"nothing to instruct":       {without, map[string]string{}, false},
		"there is no ConfigMap yet": {served(), nil, false},
	} {
		r := newTrial(t, c.etcd)
		if c.data != nil {
			r.Expect(r.api.Create(t.Context(), own(c.etcd, c.data))).To(Succeed())
		}
		r.Expect(Instructed(t.Context(), r.api, c.etcd, "")).To(Equal(c.want), name)
		apitest.EachRequestFails(t, r.api, func(api client.WithWatch) error {
			_, err := Instructed(t.Context(), api, c.etcd, "")
			return err
		})
	}
}

// The initial cluster follows the StatefulSet, by live reads, and nothing else of the ConfigMap changes.
func TestList(t *testing.T) {
	etcd := served()
	etcd.Status.Recovery = nil
	set := func(replicas int32) *appsv1.StatefulSet {
		return apitest.StatefulSet(etcd, replicas)
	}
	listing := func(members int32) map[string]string {
		bootstrap, err := component.Bootstrap(etcd, members, component.PeerTLSOff)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return map[string]string{member.KeyBootstrap: bootstrap, "other": "stays"}
	}
	run := func(r *trial, api client.WithWatch, cached *appsv1.StatefulSet) error {
		return r.writer(api).List(t.Context(), etcd, cached, r.session(api, etcd))
	}
	r := newTrial(t, etcd, set(2), own(etcd, listing(1)))
	apitest.EachRequestFails(t, r.api, func(api client.WithWatch) error { return run(r, api, set(2)) })
	r.Expect(run(r, r.api, set(2))).To(Succeed())
	r.Expect(r.data()).To(Equal(listing(2)))
	patches := 0
	counted := counting(r.api, &patches, nil)
	r.Expect(run(r, counted, set(2))).To(Succeed())
	r.Expect(run(r, counted, set(1))).To(Succeed(), "the cache is late")
	r.Expect(run(r, counted, set(0))).To(Succeed(), "all members are stopped")
	r.Expect(run(r, counted, nil)).To(Succeed())
	r.Expect(patches).To(BeZero())

	foreign := own(etcd, listing(1))
	foreign.OwnerReferences = nil
	r = newTrial(t, etcd, set(2), foreign)
	r.Expect(run(r, r.api, set(2))).To(Succeed())
	r.Expect(r.data()).To(Equal(listing(1)))
	fresh := served()
	fresh.Status = v1alpha1.EtcdStatus{}
	r = newTrial(t, fresh, set(2), own(etcd, listing(1)))
	r.Expect(r.writer(r.api).List(t.Context(), fresh, set(2), r.session(r.api, fresh))).To(Succeed())
	r.Expect(r.data()).To(Equal(listing(1)), "the cluster has not begun")
}

// A ConfigMap that is created again has at once all that the status says, by live reads, and what a Restore keeps.
func TestInstructions(t *testing.T) {
	task := &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "restore", UID: "uid"},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.Restore, OwnerEtcdReference: v1alpha1.EtcdReference{Name: "main"}},
		Status:     v1alpha1.EtcdOperatorTaskStatus{Recovery: &v1alpha1.RecoveryStatus{Source: v1alpha1.RecoverFromTarget}},
	}
	recovery := task.DeepCopy()
	recovery.Spec.Type = v1alpha1.QuorumLossRecovery
	over := served()
	over.Status.Recovery = nil
	never := served()
	never.Status = v1alpha1.EtcdStatus{}
	text, _, err := encode(served().Status.Recovery)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, tc := range map[string]struct {
		etcd  *v1alpha1.Etcd
		tasks []client.Object
		want  map[string]string
	}{
		"while it is recovered": {served(), nil, map[string]string{member.KeyClusterID: "cafe", member.KeyRecovery: text}},
		"while it is restored":  {served(), []client.Object{task}, map[string]string{member.KeyClusterID: "cafe", member.KeyRecovery: text}},
		"once it was restored":  {over, []client.Object{task}, map[string]string{member.KeyClusterID: "cafe", member.KeyKept: "true"}},
		"once it was recovered": {over, []client.Object{recovery}, map[string]string{member.KeyClusterID: "cafe", member.KeyKept: "true"}},
		"nothing is kept":       {over, nil, map[string]string{member.KeyClusterID: "cafe"}},
		"it has never served":   {never, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, append([]client.Object{tc.etcd}, tc.tasks...)...)
			r.Expect(r.writer(r.api).Instructions(t.Context(), tc.etcd)).To(Equal(tc.want))
			apitest.EachRequestFails(t, r.api, func(api client.WithWatch) error {
				_, err := r.writer(api).Instructions(t.Context(), tc.etcd)
				return err
			})
			// The cache is late.
			late := tc.etcd.DeepCopy()
			late.Status.ClusterID = "before"
			_, err := r.writer(r.api).Instructions(t.Context(), late)
			r.Expect(err).To(MatchError(state.ErrBehind))
		})
	}
}

// A StatefulSet that someone has scaled down takes no member out of the list: one that is listed alone restores a backup when it has lost its
// volume, although the others have its data.
func TestListKeepsMembersThatSomeoneHasScaledAway(t *testing.T) {
	etcd := served()
	etcd.Status.Recovery, etcd.Status.ClusterSize = nil, 3
	replicas := int32(1)
	set := apitest.StatefulSet(etcd, replicas)
	bootstrap, err := component.Bootstrap(etcd, replicas, component.PeerTLSOff)
	r := newTrial(t, etcd, set, own(etcd, map[string]string{member.KeyBootstrap: bootstrap}))
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(r.writer(r.api).List(t.Context(), etcd, set, r.session(r.api, etcd))).To(Succeed())
	shared, err := member.ParseShared(r.data())
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(shared.Alone()).To(BeFalse())
	r.Expect(shared.InitialCluster()).To(And(ContainSubstring("main-1="), ContainSubstring("main-2=")))

	// Once they have left, it is alone.
	etcd.Status.ClusterSize = 1
	r.Expect(r.writer(r.api).List(t.Context(), etcd, set, r.session(r.api, etcd))).To(Succeed())
	shared, err = member.ParseShared(r.data())
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(shared.Alone()).To(BeTrue())
}

// Members know a recovered cluster by the member that it began with. Where that one is beyond the StatefulSet's ordinals, because the cluster
// shrinks before all members vote, it stays in the list: without it, members would take their own cluster for another one, and refuse its data.
func TestListReachesTheMemberThatARecoveryBeganWith(t *testing.T) {
	etcd := served()
	etcd.Status.Recovery = &v1alpha1.ClusterRecovery{TaskUID: "task", Member: etcd.MemberName(etcd.PodName(2)), PreviousClusterID: "a"}
	replicas := int32(2)
	set := apitest.StatefulSet(etcd, replicas)
	bootstrap, err := component.Bootstrap(etcd, 3, component.PeerTLSOff)
	r := newTrial(t, etcd, set, own(etcd, map[string]string{member.KeyBootstrap: bootstrap}))
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(r.writer(r.api).List(t.Context(), etcd, set, r.session(r.api, etcd))).To(Succeed())
	r.Expect(r.data()).To(HaveKeyWithValue(member.KeyBootstrap, bootstrap))
	shared, err := member.ParseShared(r.data())
	r.Expect(err).NotTo(HaveOccurred())
	shared.Recovery = component.Recovery(etcd.Status.Recovery)
	r.Expect(shared.RecoveredIDs()).To(Equal(component.Lineage(etcd).RecoveredIDs()), "members and operator know the recovered cluster by the same IDs")
}

// Members keep what they had before a Restore or a recovery for as long as its task exists, also if its record is gone: their only member was
// restored since.
func TestMembersKeepWhatATaskHasReplaced(t *testing.T) {
	for _, of := range []v1alpha1.TaskType{v1alpha1.Restore, v1alpha1.QuorumLossRecovery} {
		t.Run(string(of), func(t *testing.T) { membersKeep(t, of) })
	}
}

func membersKeep(t *testing.T, of v1alpha1.TaskType) {
	etcd := served()
	task := &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "restore", UID: "uid"},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: of, OwnerEtcdReference: v1alpha1.EtcdReference{Name: "main"}},
		Status:     v1alpha1.EtcdOperatorTaskStatus{Recovery: &v1alpha1.RecoveryStatus{Source: v1alpha1.RecoverFromTarget}},
	}
	r := newTrial(t, etcd, task, own(etcd, nil))
	write := func() map[string]string {
		r.Expect(r.write(r.api, r.writer(r.api), etcd)).To(Succeed())
		return r.data()
	}
	r.Expect(write()).To(And(HaveKey(member.KeyRecovery), Not(HaveKey(member.KeyKept))))
	etcd.Status.Recovery = nil
	r.Expect(r.api.Update(t.Context(), etcd)).To(Succeed())
	apitest.EachRequestFails(t, r.api, func(api client.WithWatch) error { return r.write(api, r.writer(api), etcd) })
	r.Expect(write()).To(And(Not(HaveKey(member.KeyRecovery)), HaveKeyWithValue(member.KeyKept, "true")))
	shared, err := member.ParseShared(r.data())
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(shared.Kept).To(BeTrue())
	r.Expect(write()).To(HaveKey(member.KeyKept))

	r.Expect(r.api.Delete(t.Context(), task)).To(Succeed())
	r.Expect(write()).NotTo(HaveKey(member.KeyKept))
}
