// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package hibernation

import (
	"context"
	"fmt"
	"strings"
	"testing"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/memberconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// night is a cluster of three members that is to hibernate without its volumes, and whose pods are gone.
type night struct {
	*WithT
	t     *testing.T
	api   client.WithWatch
	clock *clocktesting.FakePassiveClock
	// pods that are left, and what is asked of the hibernation beside the state.
	snapshot        *cluster.Snapshot
	held, unsettled bool
	// fails: each request fails once.
	fails bool
}

func newNight(t *testing.T) *night {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd", Generation: 12}, Spec: v1alpha1.EtcdSpec{
		PersistentVolumeClaimRetentionPolicy: &v1alpha1.PersistentVolumeClaimRetentionPolicy{WhenScaled: v1alpha1.VolumesDeleted},
		Backup:                               &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "backups"}},
	}}
	etcd.Status.ClusterID, etcd.Status.ClusterSize = "cafe", 3
	objects := []client.Object{etcd, apitest.StatefulSet(etcd, 0)}
	for i := range int32(3) {
		objects = append(objects, apitest.Claim(etcd, i))
	}
	return &night{WithT: NewWithT(t), t: t, api: apitest.API(objects...), clock: clocktesting.NewFakePassiveClock(noon), snapshot: clustertest.Healthy(0)}
}

// state of the cluster, as the API server has it.
func (n *night) state() *state.State {
	s := &state.State{Etcd: &v1alpha1.Etcd{}, StatefulSet: &appsv1.StatefulSet{}}
	key := client.ObjectKey{Namespace: "ns", Name: "main"}
	n.Expect(n.api.Get(n.t.Context(), key, s.Etcd)).To(Succeed())
	n.Expect(n.api.Get(n.t.Context(), key, s.StatefulSet)).To(Succeed())
	var err error
	s.Claims, err = state.Claims(n.t.Context(), n.api, s.Etcd, 3)
	n.Expect(err).NotTo(HaveOccurred())
	return s
}

// change changes the Etcd.
func (n *night) change(change func(*v1alpha1.Etcd)) {
	etcd := n.state().Etcd
	change(etcd)
	n.Expect(n.api.Update(n.t.Context(), etcd)).To(Succeed())
}

func (n *night) with(api client.WithWatch) (Hibernator, *apply.Session) {
	objects := &apply.Objects{Writer: apply.Writer{Client: api, Live: api}, Clock: n.clock}
	s := n.state()
	session, err := objects.Begin(n.t.Context(), s.Etcd, s.StatefulSet, "")
	n.Expect(err).NotTo(HaveOccurred())
	observer := apitest.Members(func() *cluster.Snapshot { return n.snapshot })
	return Hibernator{
		Access: state.Access{Client: api, API: api, Observer: observer, Locker: &lock.Locks{}, Clock: n.clock},
		Images: configv1alpha1.Images{Etcd: "etcd:v1", EtcdAgent: "agent:v1"},
	}, session
}

func (n *night) each(run func(api client.WithWatch) error) {
	if n.fails {
		apitest.EachRequestFails(n.t, n.api, run)
	}
}

// hibernate takes one step, with each of its requests failing before it does. It writes the status as the controller does.
func (n *night) hibernate() *View {
	s := n.state()
	n.each(func(api client.WithWatch) error {
		h, objects := n.with(api)
		view, err := h.Hibernate(n.t.Context(), s, n.held, !n.unsettled, objects)
		if err != nil {
			n.Expect(view).To(BeNil(), "nothing is said")
		}
		return err
	})
	h, objects := n.with(n.api)
	view, err := h.Hibernate(n.t.Context(), s, n.held, !n.unsettled, objects)
	n.Expect(err).NotTo(HaveOccurred())
	if view != nil {
		n.change(func(e *v1alpha1.Etcd) {
			e.Status.Hibernation = view.Record
			e.Status.Conditions.Set(view.Condition)
		})
	}
	return view
}

// wakeUp takes one step.
func (n *night) wakeUp() WakeUp {
	s := n.state()
	n.each(func(api client.WithWatch) error {
		h, objects := n.with(api)
		w, err := h.WakeUp(n.t.Context(), s, n.held, objects)
		if err != nil {
			n.Expect(w).To(BeZero(), "nothing may be started")
		}
		return err
	})
	h, objects := n.with(n.api)
	w, err := h.WakeUp(n.t.Context(), s, n.held, objects)
	n.Expect(err).NotTo(HaveOccurred())
	return w
}

// jobs are the names of the Jobs that there are.
func (n *night) jobs() (names []string) {
	list := &batchv1.JobList{}
	n.Expect(n.api.List(n.t.Context(), list)).To(Succeed())
	for _, j := range list.Items {
		names = append(names, j.Name)
	}
	return names
}

func (n *night) claims() (names []string) {
	list := &corev1.PersistentVolumeClaimList{}
	n.Expect(n.api.List(n.t.Context(), list)).To(Succeed())
	for _, c := range list.Items {
		names = append(names, c.Name)
	}
	return names
}

// surveyed has the Jobs of a survey end. Member 1 is the most advanced.
func (n *night) surveyed() {
	for i, name := range n.jobs() {
		apitest.Complete(n.t, n.api, client.ObjectKey{Namespace: "ns", Name: name}, fmt.Sprintf(
			`{"state":"Present","clusterID":"cafe","memberID":"%d","lastTerm":3,"lastIndex":%d,"revision":40}`, i+1, []int{7, 9, 8}[i]))
	}
}

func (n *night) finalJob() *batchv1.Job {
	for _, name := range n.jobs() {
		if strings.HasSuffix(name, "-final") {
			j := &batchv1.Job{}
			n.Expect(n.api.Get(n.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, j)).To(Succeed())
			return j
		}
	}
	return nil
}

// asleep goes as far as the record.
func asleep(t *testing.T, fails bool) *night {
	n := newNight(t)
	n.fails = fails
	n.Expect(n.hibernate().Condition.Message).To(ContainSubstring("surveying the volumes"))
	n.Expect(n.jobs()).To(HaveLen(3))
	n.surveyed()
	n.Expect(n.hibernate().Condition.Message).To(ContainSubstring("taking the final snapshot of main-1"))
	final := n.finalJob()
	n.Expect(final.Annotations[v1alpha1.AnnotationJobSubject]).To(HavePrefix("12/main-main-1/"))
	n.Expect(final.Spec.Template.Spec.Volumes).To(ContainElement(Or(HaveField("EmptyDir", Not(BeNil())), HaveField("Ephemeral", Not(BeNil())))), "a database takes space")
	n.Expect(final.Spec.Template.Spec.Containers[0].Args).To(ContainElements("final-snapshot", "--cluster-id=cafe"))
	n.Expect(final.Spec.Template.Spec.Volumes).To(ContainElement(HaveField("PersistentVolumeClaim", HaveValue(HaveField("ClaimName", "main-main-1")))))
	apitest.Run(t, n.api, client.ObjectKeyFromObject(final))
	view := n.hibernate()
	n.Expect(view.Condition.Message).To(ContainSubstring("is running"))
	n.Expect(view.Record).To(BeNil())
	n.Expect(n.claims()).To(HaveLen(3), "nothing is deleted before the snapshot was verified")
	apitest.Complete(t, n.api, client.ObjectKeyFromObject(final), `{"snapshot":"Full-1","revision":"40"}`)
	view = n.hibernate()
	n.Expect(view.Record).To(HaveValue(And(HaveField("Snapshot", "Full-1"), HaveField("Revision", int64(40)), HaveField("ClusterID", "cafe"), HaveField("ID", final.UID), HaveField("Claims", HaveLen(3)))))
	n.Expect(n.claims()).To(HaveLen(3), "nothing is deleted before that is recorded")
	return n
}

// A night without volumes, step by step: each is taken again after any of its requests failed, and none is taken too early.
func TestNightWithoutVolumes(t *testing.T) {
	n := asleep(t, true)
	n.Expect(n.hibernate().Condition.Message).To(ContainSubstring("deleting claims main-main-0, main-main-1, main-main-2"))
	n.Expect(n.claims()).To(BeEmpty())
	n.Expect(n.jobs()).To(BeEmpty())
	view := n.hibernate()
	n.Expect(view.Condition.Status).To(Equal(metav1.ConditionTrue))
	n.Expect(view.Record).NotTo(BeNil())
	n.asksNothing()

	n.change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 3 })
	n.Expect(n.hibernate()).To(BeNil(), "it is to wake up")
	w := n.wakeUp()
	n.Expect(w).To(Equal(WakeUp{Why: "waiting until the status records that the cluster is restored", Restores: true}))
	n.Expect(w.Condition(n.state().Etcd)).To(HaveValue(And(HaveField("Status", metav1.ConditionFalse), HaveField("Message", ContainSubstring("will wake up from snapshot Full-1, at revision 40: waiting until the status")))))
	n.change(func(e *v1alpha1.Etcd) { e.Status.Recovery = RecoveryOf(e, e.Status.Hibernation) })
	recovery := n.state().Etcd.Status.Recovery
	n.Expect(*recovery).To(Equal(v1alpha1.ClusterRecovery{TaskUID: view.Record.ID, Member: "main-0", Source: v1alpha1.RecoverFromBackup, PreviousClusterID: "cafe", Revision: 40}))
	n.Expect(n.api.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: apitest.Own(n.state().Etcd, "main-config")})).To(Succeed())
	n.Expect(n.wakeUp().Why).To(Equal("waiting until the members are instructed to restore the snapshot"))
	h, objects := n.with(n.api)
	n.Expect(memberconfig.Writer{Access: h.Access}.Write(t.Context(), n.api, n.state().Etcd, objects)).To(Succeed())
	w = n.wakeUp()
	n.Expect(w).To(Equal(WakeUp{Restores: true}))
	n.Expect(w.Condition(n.state().Etcd)).To(HaveValue(HaveField("Message", "The cluster wakes up from snapshot Full-1, at revision 40.")))
}

// asksNothing checks that the next step reads the cache alone.
func (n *night) asksNothing(tasks ...v1alpha1.EtcdOperatorTask) {
	n.t.Helper()
	cache, objects := n.with(n.api)
	h := cache
	h.API = interceptor.NewClient(n.api, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		n.t.Error("the API server was asked")
		return nil
	}, List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		n.t.Error("the API server was asked")
		return nil
	}})
	s := n.state()
	s.Tasks = tasks
	_, err := h.Hibernate(n.t.Context(), s, n.held, !n.unsettled, objects)
	n.Expect(err).NotTo(HaveOccurred())
}

// Once it is recorded what the volumes had, they go, even if the store is no longer configured; and what a late cache still shows is not
// waited for.
func TestRecordedVolumesGo(t *testing.T) {
	n := asleep(t, false)
	n.change(func(e *v1alpha1.Etcd) { e.Spec.Backup = nil })
	late := apitest.Copy(t, n.api)
	n.hibernate()
	n.Expect(n.claims()).To(BeEmpty())
	h, objects := n.with(n.api)
	h.Client = late
	view, err := h.Hibernate(t.Context(), n.state(), false, true, objects)
	n.Expect(err).NotTo(HaveOccurred())
	n.Expect(view.Condition.Message).To(ContainSubstring("hibernated without volumes"))
}

// The Job that takes the final snapshot signs it where snapshots are signed.
func TestFinalSnapshotIsSigned(t *testing.T) {
	n := newNight(t)
	n.change(func(e *v1alpha1.Etcd) {
		e.Spec.Backup.Signing = &v1alpha1.SigningSpec{SecretRef: v1alpha1.SecretReference{Name: "keys"}}
	})
	n.hibernate()
	n.surveyed()
	n.hibernate()
	n.Expect(n.finalJob().Spec.Template.Spec.Volumes).To(ContainElement(HaveField("Secret", HaveValue(HaveField("SecretName", "keys")))))
}

// A claim that was made since is not in the record: waking up deletes those that are, and no other; and nothing while an object is foreign.
func TestWakingUpDeletesWhatWasGivenUp(t *testing.T) {
	n := asleep(t, false)
	n.change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 3 })
	foreign := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}}
	n.Expect(n.api.Create(t.Context(), foreign)).To(Succeed())
	n.Expect(n.wakeUp().Why).To(Equal("waiting for the Jobs of the hibernation to end"))
	n.Expect(n.claims()).To(HaveLen(3))
	n.Expect(n.jobs()).NotTo(BeEmpty())
	n.Expect(n.api.Delete(t.Context(), foreign)).To(Succeed())

	h, _ := n.with(n.api)
	n.Expect(h.removeJobs(t.Context(), n.state().Etcd)).To(Succeed())
	n.Expect(n.api.Delete(t.Context(), apitest.Claim(n.state().Etcd, 0))).To(Succeed())
	again := apitest.Claim(n.state().Etcd, 0)
	again.UID = "again"
	n.Expect(n.api.Create(t.Context(), again)).To(Succeed())
	n.Expect(n.wakeUp().Why).To(Equal("waiting for the deletion of the claims that were given up: main-main-1, main-main-2"))
	n.Expect(n.claims()).To(Equal([]string{"main-main-0"}))
}

// A cluster that wakes up before its volumes were deleted waits for that: a late deletion must not hit what members use.
func TestWakingUpInTheMiddleOfTheNight(t *testing.T) {
	n := asleep(t, false)
	n.fails = true
	n.change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 3 })
	n.Expect(n.wakeUp().Why).To(Equal("waiting for the Jobs of the hibernation to end"))
	n.Expect(n.claims()).To(BeEmpty())
	n.Expect(n.jobs()).To(BeEmpty())
	n.Expect(n.wakeUp().Why).To(ContainSubstring("until the status records"))
	n.held = true
	n.Expect(n.wakeUp()).To(BeZero(), "a task keeps it stopped")
}

func TestWhoDoesNotWakeUp(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.Etcd){
		"one that is to hibernate":      func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 },
		"one that has never served":     func(e *v1alpha1.Etcd) { e.Status.ClusterID = "" },
		"one that has kept its volumes": func(e *v1alpha1.Etcd) { e.Status.Hibernation = nil },
	} {
		t.Run(name, func(t *testing.T) {
			n := asleep(t, false)
			h, _ := n.with(n.api)
			n.Expect(h.removeJobs(t.Context(), n.state().Etcd)).To(Succeed())
			n.change(func(e *v1alpha1.Etcd) {
				e.Spec.Replicas = 3
				change(e)
			})
			w := n.wakeUp()
			n.Expect(w).To(BeZero())
			n.Expect(w.Condition(n.state().Etcd)).To(BeNil())
			n.Expect(n.claims()).To(HaveLen(3))
		})
	}
	n := asleep(t, false)
	n.change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 3 })
	set := n.state().StatefulSet
	set.Spec.Replicas = ptr.To(int32(3))
	n.Expect(n.api.Update(t.Context(), set)).To(Succeed())
	n.Expect(n.wakeUp()).To(BeZero(), "one that is awake")
	n.Expect(n.claims()).To(HaveLen(3))
}

// What keeps the volumes: nothing is surveyed, snapshotted or deleted.
func TestWhatKeepsTheVolumes(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(n *night)
		says   string
	}{
		"pods are left": {func(n *night) {
			set := n.state().StatefulSet
			set.Status.Replicas = 1
			n.Expect(n.api.Status().Update(n.t.Context(), set)).To(Succeed())
		}, "1 pods are left"},
		"a surplus pod is left":          {func(n *night) { n.snapshot.Surplus = []string{"main-2"} }, "waiting until the newest spec is applied"},
		"the spec is not applied":        {func(n *night) { n.unsettled = true }, "waiting until the newest spec is applied"},
		"they are to be kept":            {func(n *night) { n.change(func(e *v1alpha1.Etcd) { e.Spec.PersistentVolumeClaimRetentionPolicy = nil }) }, "its volumes are kept"},
		"it is not known whose they are": {func(n *night) { n.change(func(e *v1alpha1.Etcd) { e.Status.ClusterID = "" }) }, "has never served"},
		"there is no backup":             {func(n *night) { n.change(func(e *v1alpha1.Etcd) { e.Spec.Backup = nil }) }, "there is no backup"},
		"an object is not the Etcd's": {func(n *night) {
			n.Expect(n.api.Create(n.t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}})).To(Succeed())
		}, "surveying the volumes"},
		"a Restore keeps data on them": {func(n *night) { n.Expect(n.api.Create(n.t.Context(), setsAside(v1alpha1.Restore))).To(Succeed()) }, "the volumes are kept: what members had before task back is on them"},
		"a recovery has set data aside": {func(n *night) {
			n.Expect(n.api.Create(n.t.Context(), setsAside(v1alpha1.QuorumLossRecovery))).To(Succeed())
		}, "the volumes are kept: what members had before task back is on them"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNight(t)
			tc.change(n)
			view := n.hibernate()
			n.Expect(view.Condition.Message).To(ContainSubstring(tc.says))
			n.Expect(view.Record).To(BeNil())
			n.Expect(n.jobs()).To(BeEmpty())
			n.Expect(n.claims()).To(HaveLen(3))
		})
	}
	n := newNight(t)
	n.held = true
	n.Expect(n.hibernate()).To(BeNil(), "a task keeps it stopped")
}

// setsAside returns a task that has had members set aside what they had.
func setsAside(of v1alpha1.TaskType) *v1alpha1.EtcdOperatorTask {
	task := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "back", UID: "back"}, Spec: v1alpha1.EtcdOperatorTaskSpec{Type: of, OwnerEtcdReference: v1alpha1.EtcdReference{Name: "main"}}}
	task.Status.Recovery = &v1alpha1.RecoveryStatus{Source: v1alpha1.RecoverFromData}
	return task
}

// A task that has had members set data aside, and that the cache does not show, is found before the volumes are given up. They go once the
// user has deleted it.
func TestTheVolumesGoOnceATaskIsDeleted(t *testing.T) {
	n := newNight(t)
	n.fails = true
	n.hibernate()
	n.surveyed()
	n.hibernate()
	apitest.Complete(t, n.api, client.ObjectKeyFromObject(n.finalJob()), `{"snapshot":"Full-1","revision":"40"}`)
	task := setsAside(v1alpha1.QuorumLossRecovery)
	n.Expect(n.api.Create(t.Context(), task)).To(Succeed())
	view := n.hibernate()
	n.Expect(view.Record).To(BeNil())
	n.Expect(view.Condition.Message).To(ContainSubstring("before task back"))
	n.Expect(n.claims()).To(HaveLen(3))
	n.asksNothing(*task)
	n.Expect(n.api.Delete(t.Context(), task)).To(Succeed())
	n.Expect(n.hibernate().Record).NotTo(BeNil())
	n.hibernate()
	n.Expect(n.claims()).To(BeEmpty())
}

// A cluster that never served, and has no volumes, is hibernated at once.
func TestClusterWithoutVolumes(t *testing.T) {
	n := newNight(t)
	n.fails = true
	for i := range int32(3) {
		n.Expect(n.api.Delete(t.Context(), apitest.Claim(n.state().Etcd, i))).To(Succeed())
	}
	n.change(func(e *v1alpha1.Etcd) { e.Status.ClusterID, e.Status.ClusterSize = "", 0 })
	n.Expect(n.hibernate().Condition.Message).To(ContainSubstring("it has no volumes yet"))
	foreign := apitest.Claim(n.state().Etcd, 0)
	foreign.Labels = nil
	n.Expect(n.api.Create(t.Context(), foreign)).To(Succeed())
	n.Expect(n.hibernate().Condition.Message).To(ContainSubstring("it has no volumes yet"), "that claim is not its own")
}

// The Jobs of a hibernation without volumes are removed once the volumes are to be kept.
func TestVolumesAreToBeKeptAfterAll(t *testing.T) {
	n := newNight(t)
	n.hibernate()
	n.fails = true
	n.Expect(n.jobs()).To(HaveLen(3))
	n.change(func(e *v1alpha1.Etcd) { e.Spec.PersistentVolumeClaimRetentionPolicy = nil })
	n.Expect(n.hibernate().Condition.Message).To(ContainSubstring("removing the Jobs"))
	n.Expect(n.jobs()).To(BeEmpty())
	n.Expect(n.hibernate().Condition.Status).To(Equal(metav1.ConditionTrue))
}

// A Job of the final snapshot that is another's, is being deleted, or was made for something else does not count.
func TestFinalSnapshotOfAnother(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(j *batchv1.Job)
		says   string
		left   bool
	}{
		"another's":          {func(j *batchv1.Job) { j.OwnerReferences = nil }, "the volumes are kept", true},
		"being deleted":      {func(j *batchv1.Job) { j.Finalizers = []string{"foregroundDeletion"} }, "an earlier final snapshot", true},
		"for another volume": {func(j *batchv1.Job) { j.Annotations[v1alpha1.AnnotationJobSubject] = "other" }, "an earlier final snapshot", false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNight(t)
			n.hibernate()
			n.surveyed()
			n.hibernate()
			j := n.finalJob()
			tc.change(j)
			n.Expect(n.api.Update(t.Context(), j)).To(Succeed())
			apitest.Complete(t, n.api, client.ObjectKeyFromObject(j), `{"snapshot":"Full-1","revision":"40"}`)
			if len(j.Finalizers) > 0 {
				n.Expect(n.api.Delete(t.Context(), j)).To(Succeed())
			}
			view := n.hibernate()
			n.Expect(view.Condition.Message).To(ContainSubstring(tc.says))
			n.Expect(view.Record).To(BeNil())
			n.Expect(n.finalJob() != nil).To(Equal(tc.left))
			n.Expect(n.claims()).To(HaveLen(3))
		})
	}
}

// The condition says that claims which someone has deleted keep the cluster running, whatever becomes of its volumes.
func TestClaimsThatAreDeletedAreNamed(t *testing.T) {
	for name, policy := range map[string]v1alpha1.VolumeRetention{"kept": v1alpha1.VolumesRetained, "deleted": v1alpha1.VolumesDeleted} {
		t.Run(name, func(t *testing.T) {
			n := newNight(t)
			n.change(func(e *v1alpha1.Etcd) { e.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled = policy })
			s := n.state()
			s.StatefulSet.Spec.Replicas, s.StatefulSet.Status.Replicas, s.Snapshot = ptr.To[int32](3), 3, clustertest.Healthy(3)
			s.Claims[0].DeletionTimestamp, s.Claims[2].DeletionTimestamp = &metav1.Time{Time: noon}, &metav1.Time{Time: noon}
			h, objects := n.with(n.api)
			view, err := h.Hibernate(t.Context(), s, false, true, objects)
			n.Expect(err).NotTo(HaveOccurred())
			n.Expect(view.Condition.Reason).To(Equal(v1alpha1.ReasonNoFinalSnapshot))
			n.Expect(view.Condition.Message).To(And(HavePrefix("The cluster is kept running: "), ContainSubstring("(main-main-0, main-main-2)")))
		})
	}
}
