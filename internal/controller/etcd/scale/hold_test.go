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

func TestWhoHoldsAtZero(t *testing.T) {
	const running = v1alpha1.TaskStateInProgress
	deleted := recreation(running, v1alpha1.RecreateNeedsDeletion)
	deleted.DeletionTimestamp = &metav1.Time{}
	other := recreation(running, v1alpha1.RecreateNeedsDeletion)
	other.Spec.Type = v1alpha1.QuorumAwareRollout
	for name, c := range map[string]struct {
		task v1alpha1.EtcdOperatorTask
		want bool
	}{
		"stopping":              {recreation(running, v1alpha1.RecreateNeedsDeletion), true},
		"waiting":               {recreation(running, v1alpha1.RecreateWaitingTermination), true},
		"starting":              {recreation(running, v1alpha1.RecreateReadyForCreation), false},
		"not begun":             {recreation(running, ""), false},
		"ended in the middle":   {recreation(v1alpha1.TaskStateRejected, v1alpha1.RecreateWaitingTermination), false},
		"deleted in the middle": {deleted, false},
		"of another type":       {other, false},
		"without a status":      {v1alpha1.EtcdOperatorTask{Spec: v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.RecreateRollout}, Status: v1alpha1.EtcdOperatorTaskStatus{State: running}}, false},
	} {
		if got := holder([]v1alpha1.EtcdOperatorTask{c.task}, nil) != nil; got != c.want {
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
		"nobody holds":             {set(3, ""), nil, nil},
		"to be held":               {set(3, ""), &holder, 0},
		"held":                     {set(0, "task"), &holder, nil},
		"somebody scaled it up":    {set(3, "task"), &holder, 0},
		"held by one that is gone": {set(0, "gone"), &holder, 0},
		"let go":                   {set(0, "task"), nil, int32(3)},
		"hibernated":               {set(0, ""), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			patch := holdPatch(c.set, c.holder, 3)
			if c.replicas == nil {
				g.Expect(patch).To(BeNil())
				return
			}
			g.Expect(patch["metadata"]).To(And(HaveKeyWithValue("uid", types.UID("set")), HaveKeyWithValue("resourceVersion", "7")))
			spec := patch["spec"].(map[string]any)
			g.Expect(spec["replicas"]).To(Equal(c.replicas))
			if c.replicas == 0 {
				g.Expect(spec["persistentVolumeClaimRetentionPolicy"]).To(HaveKeyWithValue("whenScaled", appsv1.RetainPersistentVolumeClaimRetentionPolicyType))
			}
		})
	}
}
