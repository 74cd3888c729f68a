// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// template returns the template of a revision, by the memory of etcd.
func (s *scenario) template(memory string) *inplace.Template {
	t, err := inplace.ParseTemplate(fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":"etcd","resources":{"requests":{"memory":%q}}}]}}}}`, memory))
	if err != nil {
		s.t.Fatal(err)
	}
	return t
}

// recreate makes the pod of an actor, at its revision, if pods are updated in place.
func (s *scenario) recreate(a *actor) {
	t := s.templates[a.revision]
	if t == nil {
		return
	}
	a.whole = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: a.name, UID: a.uid(), Labels: map[string]string{appsv1.StatefulSetRevisionLabel: a.revision}},
		Spec:       *t.Spec.DeepCopy(),
	}
	s.kubelet(a, "resizes")
}

// version is that of the etcd of a pod.
func (s *scenario) version(a *actor) string {
	if a.revision == "old" {
		return s.etcd
	}
	return s.image
}

// assess adds an assessment of the outdated pods to what is known of them, as the task does.
func (s *scenario) assess(snapshot *cluster.Snapshot) {
	if s.templates == nil {
		return
	}
	assessed := map[types.UID]inplace.Assessment{}
	for i, a := range s.pods {
		if o := snapshot.Ordinals[i]; o.Pod != nil && !o.Pod.At(s.set.UpdateRevision) {
			a.whole.ResourceVersion = o.Pod.ResourceVersion
			assessed[o.Pod.UID] = inplace.Assess(inplace.Input{Pod: a.whole, TargetName: s.set.UpdateRevision, Templates: s.templates})
		}
	}
	s.task.Updates = s.task.Updates.Next(snapshot, assessed, MaxGap)
}

// write does what the API server does: the kubelet has yet to follow.
func (s *scenario) write(a *actor, w inplace.Write) {
	body, err := w.Body(a.uid(), strconv.Itoa(a.version+1))
	if err != nil {
		s.t.Fatal(err)
	}
	before, err := json.Marshal(a.whole)
	if err != nil {
		s.t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, body, corev1.Pod{})
	if err == nil {
		a.whole = &corev1.Pod{}
		err = json.Unmarshal(after, a.whole)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	a.version++
	a.revision = a.whole.Labels[appsv1.StatefulSetRevisionLabel]
}

// kubelet does what the kubelet does to a pod that is resized.
func (s *scenario) kubelet(a *actor, does string) {
	status := &a.whole.Status
	switch does {
	case "resizes":
		status.Conditions, status.ContainerStatuses = nil, nil
		for _, c := range a.whole.Spec.Containers {
			status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
				Name: v1alpha1.ContainerEtcd, ContainerID: "run", Resources: c.Resources.DeepCopy(), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			})
		}
	case "finds-it-infeasible":
		status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible, Message: "the node has no 64Gi"}}
	default:
		s.t.Fatalf("the kubelet does not do this: %s", does)
	}
	a.version++
}
