// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func recreation(state v1alpha1.TaskState, phase v1alpha1.RecreatePhase) v1alpha1.EtcdOperatorTask {
	return v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{UID: "task"},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.RecreateRollout},
		Status:     v1alpha1.EtcdOperatorTaskStatus{State: state, Rollout: &v1alpha1.RolloutStatus{Phase: phase}},
	}
}

func TestHoldsAtZero(t *testing.T) {
	const running = v1alpha1.TaskStateInProgress
	deleted := recreation(running, v1alpha1.RecreateNeedsDeletion)
	deleted.DeletionTimestamp = &metav1.Time{}
	other := recreation(running, v1alpha1.RecreateNeedsDeletion)
	other.Spec.Type = v1alpha1.QuorumAwareRollout
	for name, c := range map[string]struct {
		task v1alpha1.EtcdOperatorTask
		want bool
	}{
		"stopping":         {recreation(running, v1alpha1.RecreateNeedsDeletion), true},
		"waiting":          {recreation(running, v1alpha1.RecreateWaitingTermination), true},
		"starting":         {recreation(running, v1alpha1.RecreateReadyForCreation), false},
		"not started":      {recreation(running, ""), false},
		"ended halfway":    {recreation(v1alpha1.TaskStateRejected, v1alpha1.RecreateWaitingTermination), false},
		"deleted halfway":  {deleted, false},
		"of another type":  {other, false},
		"without a status": {v1alpha1.EtcdOperatorTask{Spec: v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.RecreateRollout}, Status: v1alpha1.EtcdOperatorTaskStatus{State: running}}, false},
	} {
		if got := holder([]v1alpha1.EtcdOperatorTask{c.task}, nil, nil) != nil; got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestHoldPatch(t *testing.T) {
	holder := recreation(v1alpha1.TaskStateInProgress, v1alpha1.RecreateNeedsDeletion)
	set := func(replicas int32, by string) *appsv1.StatefulSet {
		s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{UID: "set", ResourceVersion: "7"}, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To(replicas)}}
		if by != "" {
			s.Annotations = map[string]string{v1alpha1.AnnotationHeldAtZeroBy: by}
		}
		return s
	}
	for name, c := range map[string]struct {
		set      *appsv1.StatefulSet
		holder   *v1alpha1.EtcdOperatorTask
		replicas any
	}{
		"no task holds it":       {set(3, ""), nil, nil},
		"to be held":             {set(3, ""), &holder, 0},
		"held":                   {set(0, "task"), &holder, nil},
		"a user scaled it up":    {set(3, "task"), &holder, 0},
		"held by a deleted task": {set(0, "gone"), &holder, 0},
		"released":               {set(0, "task"), nil, int32(3)},
		"hibernated":             {set(0, ""), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			patch := holdPatch(c.set, c.holder, 3)
			if c.replicas == nil {
				g.Expect(patch).To(BeNil())
				return
			}
			spec := patch["spec"].(map[string]any)
			g.Expect(spec["replicas"]).To(Equal(c.replicas))
			if c.replicas == 0 {
				g.Expect(spec["persistentVolumeClaimRetentionPolicy"]).To(HaveKeyWithValue("whenScaled", appsv1.RetainPersistentVolumeClaimRetentionPolicyType))
			}
		})
	}
}

func recovery(phase v1alpha1.RecoveryPhase, source v1alpha1.RecoverySource) v1alpha1.EtcdOperatorTask {
	return v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Name: "recover", UID: "recovery"},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.QuorumLossRecovery},
		Status: v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStateInProgress, Recovery: &v1alpha1.RecoveryStatus{
			Phase: phase, Source: source, Member: "etcd-main-2", PreviousClusterID: "cafe",
		}},
	}
}

// newer is a running task of a type that only a newer operator knows.
func newer(uid types.UID) v1alpha1.EtcdOperatorTask {
	return v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Name: "newer", UID: uid}, Spec: v1alpha1.EtcdOperatorTaskSpec{Type: "Dance"}, Status: v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStateInProgress},
	}
}

func TestRecoveryHoldsAtZero(t *testing.T) {
	const data = v1alpha1.RecoverFromData
	recorded := &v1alpha1.ClusterRecovery{TaskUID: "recovery"}
	waiting := recreation(v1alpha1.TaskStateInProgress, v1alpha1.RecreateWaitingTermination)
	deleted := recovery(v1alpha1.RecoverySurveying, "")
	deleted.DeletionTimestamp = &metav1.Time{}
	for name, c := range map[string]struct {
		tasks    []v1alpha1.EtcdOperatorTask
		recorded *v1alpha1.ClusterRecovery
		want     string
	}{
		"while it confirms":                     {[]v1alpha1.EtcdOperatorTask{recovery(v1alpha1.RecoveryConfirming, "")}, nil, ""},
		"while it stops the members":            {[]v1alpha1.EtcdOperatorTask{recovery(v1alpha1.RecoveryStopping, "")}, nil, "recover"},
		"while it surveys":                      {[]v1alpha1.EtcdOperatorTask{recovery(v1alpha1.RecoverySurveying, "")}, nil, "recover"},
		"until the choice is recorded":          {[]v1alpha1.EtcdOperatorTask{recovery(v1alpha1.RecoveryStarting, data)}, nil, "recover"},
		"an earlier recovery is recorded":       {[]v1alpha1.EtcdOperatorTask{recovery(v1alpha1.RecoveryStarting, data)}, &v1alpha1.ClusterRecovery{TaskUID: "earlier"}, "recover"},
		"once it is recorded":                   {[]v1alpha1.EtcdOperatorTask{recovery(v1alpha1.RecoveryStarting, data)}, recorded, ""},
		"if nothing is rebuilt":                 {[]v1alpha1.EtcdOperatorTask{recovery(v1alpha1.RecoveryStarting, "")}, nil, ""},
		"while the cluster grows":               {[]v1alpha1.EtcdOperatorTask{recovery(v1alpha1.RecoveryGrowing, data)}, recorded, ""},
		"deleted":                               {[]v1alpha1.EtcdOperatorTask{deleted}, nil, ""},
		"what a newer operator holds":           {[]v1alpha1.EtcdOperatorTask{newer("it")}, nil, "newer"},
		"what it held for another task":         {[]v1alpha1.EtcdOperatorTask{newer("another")}, nil, ""},
		"before a recreation that it preempted": {[]v1alpha1.EtcdOperatorTask{waiting, recovery(v1alpha1.RecoveryGrowing, data)}, recorded, ""},
	} {
		got := ""
		if t := holder(c.tasks, c.recorded, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationHeldAtZeroBy: "it"}}}); t != nil {
			got = t.Name
		}
		if got != c.want {
			t.Errorf("%s: held by %q, want %q", name, got, c.want)
		}
	}
}
