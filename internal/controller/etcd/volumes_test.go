// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/ownership"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func TestDecideGrowth(t *testing.T) {
	gi := func(n string) resource.Quantity { return resource.MustParse(n + "Gi") }
	of := func(asks, has string, change ...func(*claim)) claim {
		c := claim{name: "c", bound: true, asks: gi(asks), has: gi(has), class: "local", expandable: true}
		for _, set := range change {
			set(&c)
		}
		return c
	}
	stiff := func(c *claim) { c.expandable = false }
	unbound := func(c *claim) { c.bound = false }
	foreign := func(c *claim) {
		c.foreign = &ownership.Foreign{Kind: "PersistentVolumeClaim", Name: "ns/c", Whose: "is web's"}
	}
	for name, tc := range map[string]struct {
		template string
		claims   []claim
		grow     int
		replace  bool
		reason   string
		says     string
	}{
		"as it should be":                 {"8", []claim{of("8", "8"), of("8", "8")}, 0, false, v1alpha1.ReasonVolumesGrown, "8Gi"},
		"larger than it should be":        {"9", []claim{of("9", "9")}, 0, false, v1alpha1.ReasonVolumesGrown, "8Gi"},
		"no claims":                       {"8", nil, 0, false, v1alpha1.ReasonVolumesGrown, "8Gi"},
		"no claims, and a small template": {"4", nil, 0, true, v1alpha1.ReasonVolumesGrowing, "template"},
		"the claims come first":           {"4", []claim{of("4", "4"), of("4", "4")}, 2, false, v1alpha1.ReasonVolumesGrowing, "asked for more"},
		"only one is left":                {"4", []claim{of("8", "8"), of("4", "4")}, 1, false, v1alpha1.ReasonVolumesGrowing, "asked for more"},
		"then the template":               {"4", []claim{of("8", "4"), of("8", "8")}, 0, true, v1alpha1.ReasonVolumesGrowing, "c has 4Gi of 8Gi"},
		"a volume takes its time":         {"8", []claim{of("8", "4")}, 0, false, v1alpha1.ReasonVolumesGrowing, "c has 4Gi of 8Gi"},
		"a file system waits for its pod": {"8", []claim{of("8", "4", func(c *claim) { c.waitsForRestart = true })}, 0, false, v1alpha1.ReasonVolumesGrowing, "restart: true"},
		"the class does not allow it":     {"4", []claim{of("4", "4", stiff)}, 0, false, v1alpha1.ReasonVolumesNotExpandable, `StorageClass "local"`},
		"nor for one of them: none grows": {"4", []claim{of("4", "4"), of("4", "4", stiff)}, 0, false, v1alpha1.ReasonVolumesNotExpandable, "c (StorageClass"},
		"it need not, if it is enough":    {"8", []claim{of("8", "8", stiff)}, 0, false, v1alpha1.ReasonVolumesGrown, "8Gi"},
		"one is somebody else's: none":    {"4", []claim{of("4", "4"), of("4", "4", foreign)}, 0, false, v1alpha1.ReasonClaimNotOwned, "PersistentVolumeClaim ns/c is web's"},
		"and it is left, if it is enough": {"8", []claim{of("8", "8"), of("8", "8", foreign)}, 0, false, v1alpha1.ReasonVolumesGrown, "8Gi"},
		"a claim that has no volume":      {"4", []claim{of("4", "0", unbound), of("8", "8")}, 0, false, v1alpha1.ReasonVolumesGrowing, "not bound"},
		"a new claim that has no volume":  {"8", []claim{of("8", "0", unbound)}, 0, false, v1alpha1.ReasonVolumesGrown, "8Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			g := decideGrowth(volumes{wanted: gi("8"), template: gi(tc.template), claims: tc.claims})
			if len(g.grow) != tc.grow || g.replaceSet != tc.replace || g.condition.Reason != tc.reason || !strings.Contains(g.condition.Message, tc.says) {
				t.Errorf("%+v", g)
			}
		})
	}
}

// newSet makes a StatefulSet of some replicas, whose claim template has 4Gi.
func newSet(replicas int32) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{UID: "set"}}
	set.Spec.Replicas = ptr.To(replicas)
	set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
		WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType, WhenScaled: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
	}
	claim := corev1.PersistentVolumeClaim{}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("4Gi")}
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claim}
	return set
}

func newEtcd(replicas int32, capacity string, policy v1alpha1.PersistentVolumeClaimRetentionPolicy) *v1alpha1.Etcd {
	return &v1alpha1.Etcd{Spec: v1alpha1.EtcdSpec{Replicas: replicas, StorageCapacity: ptr.To(resource.MustParse(capacity)), PersistentVolumeClaimRetentionPolicy: &policy}}
}

func TestRetention(t *testing.T) {
	g := NewWithT(t)
	all := v1alpha1.PersistentVolumeClaimRetentionPolicy{WhenDeleted: v1alpha1.VolumesDeleted, WhenScaled: v1alpha1.VolumesDeleted}
	g.Expect(retention(&v1alpha1.Etcd{}, nil).WhenDeleted).To(Equal(v1alpha1.VolumesRetained))
	for name, set := range map[string]*appsv1.StatefulSet{"none yet": nil, "awake": newSet(3), "asleep": newSet(0)} {
		p := retention(newEtcd(3, "4Gi", all), set)
		g.Expect(p.WhenDeleted).To(Equal(v1alpha1.VolumesDeleted), name)
		g.Expect(p.WhenScaled).To(Equal(v1alpha1.VolumesRetained), "%s: who scales to zero must not lose data by it", name)
	}
	g.Expect(retention(newEtcd(3, "8Gi", all), newSet(3)).WhenDeleted).To(Equal(v1alpha1.VolumesRetained), "the StatefulSet is to be replaced")
}

func TestKeptAwake(t *testing.T) {
	onScaling := v1alpha1.PersistentVolumeClaimRetentionPolicy{WhenScaled: v1alpha1.VolumesDeleted}
	backedUp := newEtcd(0, "4Gi", onScaling)
	backedUp.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "backups"}}
	unusable, failing := backedUp.DeepCopy(), backedUp.DeepCopy()
	unusable.Spec.Backup.Store.Provider = "Swift"
	failing.Status.Conditions = []metav1.Condition{condition(v1alpha1.ConditionBackupReady, metav1.ConditionFalse, v1alpha1.ReasonBackupFailed, "The last snapshot failed: no space left.")}
	for name, tc := range map[string]struct {
		etcd *v1alpha1.Etcd
		set  *appsv1.StatefulSet
		want string // empty: it may sleep
	}{
		"volumes are kept":             {newEtcd(0, "4Gi", v1alpha1.PersistentVolumeClaimRetentionPolicy{}), newSet(3), ""},
		"volumes go, without a backup": {newEtcd(0, "4Gi", onScaling), newSet(3), "there is no backup to wake up from"},
		"volumes go, and no driver":    {unusable, newSet(3), "is not supported"},
		"volumes go, and backups fail": {failing, newSet(3), "snapshots fail: The last snapshot failed: no space left; to put it"},
		"volumes go, and backups are":  {backedUp, newSet(3), ""},
		"backups fail, and it sleeps":  {failing, newSet(0), ""},
		"it sleeps already":            {newEtcd(0, "4Gi", onScaling), newSet(0), ""},
		"it was never awake":           {newEtcd(0, "4Gi", onScaling), nil, ""},
		"it is not to sleep":           {newEtcd(3, "4Gi", onScaling), newSet(3), ""},
	} {
		t.Run(name, func(t *testing.T) {
			why := keptAwake(tc.etcd, tc.set)
			if (why == "") != (tc.want == "") || !strings.Contains(why, tc.want) {
				t.Errorf("%q", why)
			}
			replicas := replicas(tc.etcd, tc.set)
			if held := tc.want != ""; held && replicas != 3 || !held && replicas != tc.etcd.Spec.Replicas {
				t.Errorf("%d replicas", replicas)
			}
		})
	}
}

func TestMayReplaceSet(t *testing.T) {
	participating := cluster.Ordinal{Class: v1alpha1.ClassParticipating}
	well := func() *cluster.Snapshot {
		return &cluster.Snapshot{StatefulSet: cluster.StatefulSet{Observed: true}, Ordinals: []cluster.Ordinal{participating, participating}}
	}
	rollout := func(state v1alpha1.TaskState) []v1alpha1.EtcdOperatorTask {
		task := v1alpha1.EtcdOperatorTask{Spec: v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.QuorumAwareRollout}}
		task.Status.State = state
		return []v1alpha1.EtcdOperatorTask{task}
	}
	ownedBy := func(owner types.UID) []corev1.PersistentVolumeClaim {
		return []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "c", OwnerReferences: []metav1.OwnerReference{{UID: owner}}}}}
	}
	for name, tc := range map[string]struct {
		change func(*cluster.Snapshot, *appsv1.StatefulSet)
		claims []corev1.PersistentVolumeClaim
		tasks  []v1alpha1.EtcdOperatorTask
		want   string // empty: it may be replaced
	}{
		"all is well":                 {nil, ownedBy("somebody"), rollout(v1alpha1.TaskStateSucceeded), ""},
		"a rollout waits in line":     {nil, nil, rollout(v1alpha1.TaskStatePending), ""},
		"a rollout runs":              {nil, nil, rollout(v1alpha1.TaskStateInProgress), "in progress"},
		"a claim would go with it":    {nil, ownedBy("set"), nil, "claim c would go"},
		"its newest spec is not seen": {func(s *cluster.Snapshot, _ *appsv1.StatefulSet) { s.StatefulSet.Observed = false }, nil, nil, "has not seen"},
		"a member is away":            {func(s *cluster.Snapshot, _ *appsv1.StatefulSet) { s.Ordinals[1].Class = v1alpha1.ClassMissing }, nil, nil, "not every member"},
		"a pod too many":              {func(s *cluster.Snapshot, _ *appsv1.StatefulSet) { s.Surplus = []string{"m-2"} }, nil, nil, "not every member"},
		"claims are deleted with it": {func(_ *cluster.Snapshot, s *appsv1.StatefulSet) {
			s.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted = "Delete"
		}, nil, nil, "not retained"},
		"claims are deleted by scaling": {func(_ *cluster.Snapshot, s *appsv1.StatefulSet) {
			s.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled = "Delete"
		}, nil, nil, "not retained"},
		"it says nothing of claims": {func(_ *cluster.Snapshot, s *appsv1.StatefulSet) { s.Spec.PersistentVolumeClaimRetentionPolicy = nil }, nil, nil, "not retained"},
	} {
		t.Run(name, func(t *testing.T) {
			s, set := well(), newSet(2)
			if tc.change != nil {
				tc.change(s, set)
			}
			why := mayReplaceSet(s, set, tc.claims, tc.tasks)
			if (why == "") != (tc.want == "") || !strings.Contains(why, tc.want) {
				t.Errorf("%q", why)
			}
		})
	}
}
