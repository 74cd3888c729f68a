// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
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
	fixed := func(c *claim) { c.fixed = true }
	unbound := func(c *claim) { c.bound = false }
	moves := func(c *claim) { c.moves = true }
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
		"already grown":                         {"8", []claim{of("8", "8"), of("8", "8")}, 0, false, v1alpha1.ReasonVolumesGrown, "8Gi"},
		"larger than the spec":                  {"9", []claim{of("9", "9")}, 0, false, v1alpha1.ReasonVolumesGrown, "8Gi"},
		"no claims":                             {"8", nil, 0, false, v1alpha1.ReasonVolumesGrown, "8Gi"},
		"no claims, and a small template":       {"4", nil, 0, true, v1alpha1.ReasonVolumesGrowing, "template"},
		"the claims come first":                 {"4", []claim{of("4", "4"), of("4", "4")}, 2, false, v1alpha1.ReasonVolumesGrowing, "requests more"},
		"only one is left":                      {"4", []claim{of("8", "8"), of("4", "4")}, 1, false, v1alpha1.ReasonVolumesGrowing, "requests more"},
		"then the template":                     {"4", []claim{of("8", "4"), of("8", "8")}, 0, true, v1alpha1.ReasonVolumesGrowing, "c has 4Gi of 8Gi"},
		"a volume takes its time":               {"8", []claim{of("8", "4")}, 0, false, v1alpha1.ReasonVolumesGrowing, "c has 4Gi of 8Gi"},
		"a file system waits for its pod":       {"8", []claim{of("8", "4", func(c *claim) { c.waitsForRestart = true })}, 0, false, v1alpha1.ReasonVolumesGrowing, "(kubectl etcdtask restart ETCD)"},
		"the class does not allow it":           {"4", []claim{of("4", "4", stiff)}, 0, false, v1alpha1.ReasonVolumesNotExpandable, `StorageClass "local"`},
		"its class is gone":                     {"4", []claim{of("4", "4", stiff)}, 0, false, v1alpha1.ReasonVolumesNotExpandable, `StorageClass "local"). Set storageClass to another one that exists to move the volumes whose claim names none, or one that does not exist.`},
		"its class is fixed":                    {"4", []claim{of("4", "4", stiff, fixed), of("4", "4", stiff, fixed)}, 0, false, v1alpha1.ReasonVolumesNotExpandable, `StorageClass "local"). Request a reconcile to move the volumes whose StorageClass exists (annotate the Etcd with druid.gardener.cloud/operation=reconcile).`},
		"one of each":                           {"4", []claim{of("4", "4", stiff, fixed), of("4", "4", stiff)}, 0, false, v1alpha1.ReasonVolumesNotExpandable, "reconcile). Set storageClass"},
		"the class of one does not: none grows": {"4", []claim{of("4", "4"), of("4", "4", stiff)}, 0, false, v1alpha1.ReasonVolumesNotExpandable, "c (StorageClass"},
		"not expandable, but large enough":      {"8", []claim{of("8", "8", stiff)}, 0, false, v1alpha1.ReasonVolumesGrown, "8Gi"},
		"one is foreign: none grows":            {"4", []claim{of("4", "4"), of("4", "4", foreign)}, 0, false, v1alpha1.ReasonClaimNotOwned, "PersistentVolumeClaim ns/c is web's"},
		"one is foreign, but large enough":      {"8", []claim{of("8", "8"), of("8", "8", foreign)}, 0, false, v1alpha1.ReasonVolumesGrown, "8Gi"},
		"a claim that has no volume":            {"4", []claim{of("4", "0", unbound), of("8", "8")}, 0, false, v1alpha1.ReasonVolumesGrowing, "not bound"},
		"one that moves does not grow":          {"4", []claim{of("4", "4", stiff, moves), of("8", "8")}, 0, true, v1alpha1.ReasonVolumesGrowing, "template"},
		"a new claim that has no volume":        {"8", []claim{of("8", "0", unbound)}, 0, false, v1alpha1.ReasonVolumesGrown, "8Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			g := decide(volumes{wanted: gi("8"), template: gi(tc.template), claims: tc.claims})
			if len(g.grow) != tc.grow || g.replaceSet != tc.replace || g.condition.Reason != tc.reason || !strings.Contains(g.condition.Message, tc.says) {
				t.Errorf("%+v", g)
			}
		})
	}
	if g := decide(volumes{wanted: gi("8"), template: gi("8"), retyped: true, claims: []claim{of("8", "8")}}); !g.replaceSet || g.condition.Reason != v1alpha1.ReasonVolumesGrown {
		t.Errorf("the template is of another class, and stays: %+v", g)
	}
}

// newSet returns a StatefulSet with some replicas and a claim template of 4Gi.
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

func TestMayReplace(t *testing.T) {
	participating := cluster.Ordinal{Class: v1alpha1.ClassParticipating}
	well := func() *cluster.Snapshot {
		return &cluster.Snapshot{StatefulSet: cluster.StatefulSet{Observed: true}, Ordinals: []cluster.Ordinal{participating, participating}}
	}
	recreation := func(phase v1alpha1.RecreatePhase) []v1alpha1.EtcdOperatorTask {
		task := v1alpha1.EtcdOperatorTask{Spec: v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.RecreateRollout}}
		task.Status.State, task.Status.Rollout = v1alpha1.TaskStateInProgress, &v1alpha1.RolloutStatus{Phase: phase}
		return []v1alpha1.EtcdOperatorTask{task}
	}
	rollout := func(state v1alpha1.TaskState) []v1alpha1.EtcdOperatorTask {
		task := v1alpha1.EtcdOperatorTask{Spec: v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.QuorumAwareRollout}}
		task.Status.State = state
		return []v1alpha1.EtcdOperatorTask{task}
	}
	recovery := func(state v1alpha1.TaskState) []v1alpha1.EtcdOperatorTask {
		tasks := rollout(state)
		tasks[0].Spec.Type = v1alpha1.QuorumLossRecovery
		return tasks
	}
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}}
	ownedBy := func(owner types.UID) []corev1.PersistentVolumeClaim {
		return []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{
			Name: "c", Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: "main"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Name: "main", UID: owner}},
		}}}
	}
	foreign := ownedBy("another")
	foreign[0].Labels[v1alpha1.LabelPartOf] = "web"
	for name, tc := range map[string]struct {
		change func(*cluster.Snapshot, *appsv1.StatefulSet)
		claims []corev1.PersistentVolumeClaim
		tasks  []v1alpha1.EtcdOperatorTask
		want   string // empty: it may be replaced
	}{
		"healthy":                          {nil, ownedBy("another"), rollout(v1alpha1.TaskStateSucceeded), ""},
		"a rollout waits in line":          {nil, nil, rollout(v1alpha1.TaskStatePending), ""},
		"a rollout runs":                   {nil, nil, rollout(v1alpha1.TaskStateInProgress), "in progress"},
		"a recreation waits for the spec":  {nil, nil, recreation(""), ""},
		"a recreation runs":                {nil, nil, recreation(v1alpha1.RecreateNeedsDeletion), "in progress"},
		"a recovery starts the cluster":    {nil, nil, recovery(v1alpha1.TaskStateInProgress), "as a new one"},
		"a recovery has ended":             {nil, nil, recovery(v1alpha1.TaskStateSucceeded), ""},
		"a claim would be deleted with it": {nil, ownedBy("set"), nil, "claim c would be deleted"},
		"a claim is not the Etcd's":        {nil, foreign, nil, "claim c, which is not the Etcd's own"},
		"its newest spec is not observed":  {func(s *cluster.Snapshot, _ *appsv1.StatefulSet) { s.StatefulSet.Observed = false }, nil, nil, "has not seen"},
		"a task stops all members":         {func(s *cluster.Snapshot, _ *appsv1.StatefulSet) { s.StatefulSet.HeldAtZeroBy = "task" }, nil, nil, "keeps all members stopped"},
		"a member is missing":              {func(s *cluster.Snapshot, _ *appsv1.StatefulSet) { s.Ordinals[1].Class = v1alpha1.ClassMissing }, nil, nil, "not every member"},
		"one that is not listed is missing": {func(s *cluster.Snapshot, _ *appsv1.StatefulSet) {
			s.Ordinals[1].Class, s.Cluster.Voters = v1alpha1.ClassMissing, []cluster.Voter{{Ordinal: 0, Serving: true}}
		}, nil, nil, ""},
		"one is not listed, and another does not serve": {func(s *cluster.Snapshot, _ *appsv1.StatefulSet) {
			s.Ordinals[1].Class, s.Cluster.Voters = v1alpha1.ClassMissing, []cluster.Voter{{Ordinal: 0}}
		}, nil, nil, "not every member"},
		"a voter is missing beside one that is not listed": {func(s *cluster.Snapshot, _ *appsv1.StatefulSet) {
			s.Ordinals[1].Class, s.Cluster.Voters = v1alpha1.ClassMissing, []cluster.Voter{{Ordinal: 1, Serving: true}}
		}, nil, nil, "not every member"},
		"a surplus pod": {func(s *cluster.Snapshot, _ *appsv1.StatefulSet) { s.Surplus = []string{"m-2"} }, nil, nil, "not every member"},
		"claims are deleted with it": {func(_ *cluster.Snapshot, s *appsv1.StatefulSet) {
			s.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted = "Delete"
		}, nil, nil, "not retained"},
		"claims are deleted by scaling": {func(_ *cluster.Snapshot, s *appsv1.StatefulSet) {
			s.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled = "Delete"
		}, nil, nil, "not retained"},
		"it has no policy for claims": {func(_ *cluster.Snapshot, s *appsv1.StatefulSet) { s.Spec.PersistentVolumeClaimRetentionPolicy = nil }, nil, nil, "not retained"},
	} {
		t.Run(name, func(t *testing.T) {
			s, set := well(), newSet(2)
			if tc.change != nil {
				tc.change(s, set)
			}
			why := mayReplace(s, set, etcd, tc.claims, tc.tasks)
			if (why == "") != (tc.want == "") || !strings.Contains(why, tc.want) {
				t.Errorf("%q", why)
			}
		})
	}
}
