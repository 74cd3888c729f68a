// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/member"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func setOf(replicas int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: ptr.To(replicas)}}
}

func TestWhatStartsOrStopsAll(t *testing.T) {
	for name, tc := range map[string]struct {
		set      *appsv1.StatefulSet
		replicas int32
		want     bool
	}{
		"stops all":                     {setOf(3), 0, true},
		"starts all":                    {setOf(0), 3, true},
		"stays":                         {setOf(3), 3, false},
		"stays at zero":                 {setOf(0), 0, false},
		"grows":                         {setOf(1), 2, false},
		"is made":                       {nil, 3, true},
		"is made, and adopts what runs": {nil, 0, true},
		"defaulted replicas":            {&appsv1.StatefulSet{}, 0, true},
	} {
		if got := startsOrStopsAll(tc.set, tc.replicas); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The lock of an Etcd is taken by one that grows, and by one whose members all start or stop: never by both.
func TestNobodyGrowsAndStartsAtTheSameTime(t *testing.T) {
	sets := []*appsv1.StatefulSet{nil, setOf(0), setOf(1), setOf(3), setOf(5)}
	for _, set := range sets {
		for _, wanted := range []int32{0, 1, 3, 5} {
			etcd := &v1alpha1.Etcd{Spec: v1alpha1.EtcdSpec{Replicas: wanted}}
			f := sizingFacts{wanted: wanted}
			if set != nil {
				f.have = set.Spec.Replicas
			}
			if mayGrow(etcd, set) && startsOrStopsAll(set, decideSize(f).replicas) {
				t.Errorf("from %v to %d", f.have, wanted)
			}
		}
	}
}

func TestOutdated(t *testing.T) {
	sleepy := func(e *v1alpha1.Etcd) {
		e.Spec.Replicas = 0
		e.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.PersistentVolumeClaimRetentionPolicy{WhenScaled: v1alpha1.VolumesDeleted}
		e.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "backups"}}
	}
	for name, tc := range map[string]struct {
		cached, live func(*v1alpha1.Etcd)
		says         string
	}{
		"nothing":    {nil, nil, ""},
		"replicas":   {nil, func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 }, "spec has changed"},
		"a label":    {nil, func(e *v1alpha1.Etcd) { e.Spec.Labels = map[string]string{"a": "b"} }, "spec has changed"},
		"suspension": {nil, func(e *v1alpha1.Etcd) { annotateEtcd(e, v1alpha1.AnnotationSuspendSpecReconcile) }, "suspended"},
		"its ID":     {nil, func(e *v1alpha1.Etcd) { e.Status.ClusterID = "beef" }, "another one"},
		"its size":   {nil, func(e *v1alpha1.Etcd) { e.Status.ClusterSize = 5 }, "another size"},
		"a recovery": {nil, func(e *v1alpha1.Etcd) { e.Status.Recovery = &v1alpha1.ClusterRecovery{TaskUID: "task"} }, "recovered"},
		"a sleep":    {nil, func(e *v1alpha1.Etcd) { e.Status.Hibernation = &v1alpha1.Hibernation{ID: "job"} }, "hibernated"},
		"a wake-up":  {func(e *v1alpha1.Etcd) { e.Status.Hibernation = &v1alpha1.Hibernation{ID: "job"} }, nil, "woken up"},
		"its backup": {sleepy, func(e *v1alpha1.Etcd) {
			sleepy(e)
			e.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionBackupReady, Status: metav1.ConditionFalse}}
		}, "backups"},
		"what does not matter": {nil, func(e *v1alpha1.Etcd) { e.Status.ReadyReplicas, e.Generation = 2, 7 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cached, live := &v1alpha1.Etcd{}, &v1alpha1.Etcd{}
			for e, change := range map[*v1alpha1.Etcd]func(*v1alpha1.Etcd){cached: tc.cached, live: tc.live} {
				e.Spec.Replicas, e.Status.ClusterID, e.Status.ClusterSize = 3, "cafe", 3
				if change != nil {
					change(e)
				}
			}
			why := outdated(cached, live, setOf(3))
			if tc.says == "" {
				g.Expect(why).To(BeEmpty())
				return
			}
			g.Expect(why).To(ContainSubstring(tc.says))
		})
	}
}

func annotateEtcd(e *v1alpha1.Etcd, key string) { metav1.SetMetaDataAnnotation(&e.ObjectMeta, key, "") }

// Right before a StatefulSet is written it is what the decision rests on, and that is not too old.
func TestPermit(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(noon.Time)
	ago := func(d time.Duration) *liveReads { return &liveReads{nil, now, noon.Add(-d)} }
	for name, tc := range map[string]struct {
		s    scaling
		base *appsv1.StatefulSet
		want bool
	}{
		"nothing starts or stops":     {scaling{set: setOf(3)}, setOf(3), true},
		"somebody has scaled it":      {scaling{set: setOf(0)}, setOf(3), false},
		"somebody has scaled it down": {scaling{set: setOf(3), reads: ago(0)}, setOf(0), false},
		"somebody has made it":        {scaling{reads: ago(0)}, setOf(3), false},
		"somebody has deleted it":     {scaling{set: setOf(3)}, nil, false},
		"confirmed":                   {scaling{set: setOf(3), reads: ago(4 * time.Second)}, setOf(3), true},
		"confirmed, and made":         {scaling{reads: ago(time.Second)}, nil, true},
		"confirmed too long ago":      {scaling{set: setOf(3), reads: ago(5 * time.Second)}, setOf(3), false},
	} {
		tc.s.etcd = &v1alpha1.Etcd{}
		if err := tc.s.permit(t.Context(), tc.base); (err == nil) != tc.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUntold(t *testing.T) {
	recovery := &v1alpha1.ClusterRecovery{TaskUID: "uid", Member: "m", Source: v1alpha1.RecoverFromData, PreviousClusterID: "cafe"}
	text, err := instruction(recovery)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, tc := range map[string]struct {
		status v1alpha1.EtcdStatus
		told   map[string]string
		want   map[string]any
	}{
		"nothing is known":   {v1alpha1.EtcdStatus{}, nil, map[string]any{}},
		"the ID":             {v1alpha1.EtcdStatus{ClusterID: "cafe"}, nil, map[string]any{member.KeyClusterID: "cafe"}},
		"another ID":         {v1alpha1.EtcdStatus{ClusterID: "beef"}, map[string]string{member.KeyClusterID: "cafe"}, map[string]any{member.KeyClusterID: "beef"}},
		"told":               {v1alpha1.EtcdStatus{ClusterID: "cafe", Recovery: recovery}, map[string]string{member.KeyClusterID: "cafe", member.KeyRecovery: text}, map[string]any{}},
		"a recovery":         {v1alpha1.EtcdStatus{Recovery: recovery}, nil, map[string]any{member.KeyRecovery: text}},
		"a recovery is over": {v1alpha1.EtcdStatus{}, map[string]string{member.KeyRecovery: text}, map[string]any{member.KeyRecovery: nil}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			data, err := untold(&tc.status, "", tc.told)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(data).To(Equal(tc.want))
		})
	}
}

// apiServer is one that has some objects.
func apiServer(g Gomega, objects ...client.Object) *fake.ClientBuilder {
	scheme := runtime.NewScheme()
	g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	g.Expect(corev1.AddToScheme(scheme)).To(Succeed())
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
}

// slow is an API server whose answers take a while.
type slow struct {
	client.Reader
	clock *clocktesting.FakePassiveClock
	takes time.Duration
}

func (s slow) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	s.clock.SetTime(s.clock.Now().Add(s.takes))
	return s.Reader.Get(ctx, key, into, options...)
}

// Claims are deleted by the record of the live Etcd alone, and not by an operator that was paused.
func TestClaimsThatAreGivenUp(t *testing.T) {
	record := &v1alpha1.Hibernation{ID: "job", Claims: []v1alpha1.HibernatedClaim{{Name: "claim", UID: "uid"}}}
	for name, tc := range map[string]struct {
		live    *v1alpha1.Hibernation
		takes   time.Duration
		deleted bool
	}{
		"given up":                   {record, time.Second, true},
		"of a cluster that woke up":  {nil, time.Second, false},
		"of another hibernation":     {&v1alpha1.Hibernation{ID: "other"}, time.Second, false},
		"and the operator is paused": {record, 5 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			g, now := NewWithT(t), clocktesting.NewFakePassiveClock(noon.Time)
			cached := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}}
			live := cached.DeepCopy()
			cached.Status.Hibernation, live.Status.Hibernation = record, tc.live
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim", UID: "uid", Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: "main"}}}
			api := apiServer(g, live, claim).Build()
			r := &Reconciler{Client: api, APIReader: slow{api, now, tc.takes}, Clock: now}
			err := r.deleteClaims(t.Context(), cached, record.Claims)
			g.Expect(err).To(Or(BeNil(), MatchError(errAgain)))
			err = api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim)
			g.Expect(apierrors.IsNotFound(err)).To(Equal(tc.deleted))
		})
	}
}

// A recreation of an earlier Etcd does not stop the members of this one.
func TestTasksOfAnEarlierEtcdHoldNobody(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "new"}}
	mine := recreation(v1alpha1.TaskStateInProgress, v1alpha1.RecreateNeedsDeletion)
	mine.Namespace, mine.Name, mine.Spec.OwnerEtcdReference.Name = "ns", "mine", "main"
	mine.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd, Name: "main", UID: "new"}}
	foreign := mine.DeepCopy()
	foreign.Name, foreign.OwnerReferences[0].UID = "foreign", "old"
	reader := apiServer(g, &mine, foreign).WithIndex(&v1alpha1.EtcdOperatorTask{}, "spec.ownerEtcdReference.name",
		func(o client.Object) []string {
			return []string{o.(*v1alpha1.EtcdOperatorTask).Spec.OwnerEtcdReference.Name}
		}).Build()
	tasks, err := tasksOf(t.Context(), reader, etcd)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(tasks).To(HaveLen(1))
	g.Expect(tasks[0].Name).To(Equal("mine"))
}
