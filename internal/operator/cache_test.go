// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// No decision can depend on what the cache leaves out.
func TestTrimmedObjects(t *testing.T) {
	g := NewWithT(t)
	fat := metav1.ObjectMeta{
		Name: "n", UID: "u", ResourceVersion: "1", Labels: map[string]string{corev1.LabelHostname: "n"}, OwnerReferences: []metav1.OwnerReference{{UID: "o"}},
		DeletionTimestamp: &metav1.Time{}, Annotations: map[string]string{"long": "story"},
	}
	lean := *fat.DeepCopy()
	lean.Annotations = nil

	node := trimmedNode(&corev1.Node{
		ObjectMeta: fat, Spec: corev1.NodeSpec{Unschedulable: true, ProviderID: "x"},
		Status: corev1.NodeStatus{
			Images: []corev1.ContainerImage{{}},
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue},
				{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastHeartbeatTime: metav1.Now()},
			},
		},
	})
	g.Expect(node).To(Equal(&corev1.Node{
		ObjectMeta: lean, Spec: corev1.NodeSpec{Unschedulable: true},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}},
	}))
	ports, claims := []corev1.ContainerPort{{Name: "client", ContainerPort: 2379}}, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}
	containers := []corev1.ContainerStatus{{Name: "etcd", Ready: true, LastTerminationState: ended}}
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, Reason: "r", Message: "m", PodIP: "10.0.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodReady}},
		ContainerStatuses: containers, InitContainerStatuses: []corev1.ContainerStatus{{Name: "prepare", State: ended}},
	}
	slim := *status.DeepCopy()
	slim.Conditions = append(slim.Conditions, corev1.PodCondition{Type: corev1.PodInitialized})
	slim.HostIP, slim.QOSClass = "10.0.0.2", corev1.PodQOSBurstable
	slim.ContainerStatuses[0].ImageID, slim.ContainerStatuses[0].ContainerID, slim.ContainerStatuses[0].RestartCount = "long", "longer", 7
	pod := trimmedPod(&corev1.Pod{ObjectMeta: fat, Status: slim, Spec: corev1.PodSpec{
		NodeName: "n", ServiceAccountName: "x", Volumes: []corev1.Volume{{Name: "config"}, claims},
		Containers: []corev1.Container{{Name: "etcd", Image: "x", Ports: ports, Env: []corev1.EnvVar{{Name: "x"}}, ReadinessProbe: &corev1.Probe{PeriodSeconds: 1}}, {Name: "backup-restore", Image: "y", Env: []corev1.EnvVar{{Name: "x"}}}},
	}})
	g.Expect(pod).To(Equal(&corev1.Pod{ObjectMeta: lean, Status: status, Spec: corev1.PodSpec{
		NodeName: "n", Volumes: []corev1.Volume{claims}, Containers: []corev1.Container{{Name: "etcd", Image: "x", Ports: ports, ReadinessProbe: &corev1.Probe{}}, {Name: "backup-restore", Image: "y"}},
	}}))

	affinity := &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{}}
	volume := trimmedVolume(&corev1.PersistentVolume{ObjectMeta: fat, Spec: corev1.PersistentVolumeSpec{NodeAffinity: affinity, StorageClassName: "x", ClaimRef: &corev1.ObjectReference{Name: "c", UID: "c"}}})
	g.Expect(volume).To(Equal(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", ResourceVersion: "1"}, Spec: corev1.PersistentVolumeSpec{NodeAffinity: affinity, ClaimRef: &corev1.ObjectReference{UID: "c"}}}))
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: fat, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v"}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
	claim.Name, lean.Name, lean.Labels = "n-0", "n-0", nil
	g.Expect(trimmedClaim(claim)).To(Equal(&corev1.PersistentVolumeClaim{ObjectMeta: lean, Spec: claim.Spec, Status: claim.Status}))
	requested, other := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	for _, capacity := range []corev1.ResourceList{requested.DeepCopy(), other} {
		claim.Spec.Resources.Requests, claim.Status.Capacity = requested, capacity
		kept := trimmedClaim(claim)
		g.Expect(kept.Spec).To(Equal(claim.Spec))
		g.Expect(kept.Status).To(Equal(claim.Status))
	}
	claim.Annotations = map[string]string{"long": "story", v1alpha1.AnnotationAdoptedBy: "etcd"}
	g.Expect(trimmedClaim(claim).Annotations).To(Equal(map[string]string{v1alpha1.AnnotationAdoptedBy: "etcd"}), "the adoption is kept")
}

// Of an Etcd everything is kept but what kubectl keeps in it.
func TestWhatIsKeptOfEtcds(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "etcd", ResourceVersion: "7", Annotations: map[string]string{
		corev1.LastAppliedConfigAnnotation: "{}", v1alpha1.AnnotationOperation: "reconcile",
	}}}
	etcd.Spec.Replicas = 3
	etcd.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue})
	etcd.Status.Members = []v1alpha1.Member{{Name: "etcd-0"}}
	etcd.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
	whole := etcd.DeepCopy()
	want := etcd.DeepCopy()
	want.ManagedFields, want.Annotations = nil, map[string]string{v1alpha1.AnnotationOperation: "reconcile"}
	g.Expect(trimmedEtcd(etcd)).To(Equal(func() *v1alpha1.Etcd { kept := want.DeepCopy(); kept.ManagedFields = whole.ManagedFields; return kept }()))
	g.Expect(etcd).To(Equal(whole), "what was read is left as it is")
	g.Expect(keep(trimmedEtcd)(etcd)).To(Equal(want))
}

// A task is kept whole for as long as it may be decoded.
func TestWhatIsKeptOfTasks(t *testing.T) {
	for state, dropped := range map[v1alpha1.TaskState]bool{
		"": false, v1alpha1.TaskStatePending: false, v1alpha1.TaskStateInProgress: false,
		v1alpha1.TaskStateSucceeded: true, v1alpha1.TaskStateFailed: true, v1alpha1.TaskStateRejected: true,
	} {
		g := NewWithT(t)
		task := &v1alpha1.EtcdOperatorTask{
			ObjectMeta: metav1.ObjectMeta{Name: "task", ResourceVersion: "7"},
			Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.OnDemandSnapshot, Config: "type: full"},
			Status:     v1alpha1.EtcdOperatorTaskStatus{State: state, Config: "{}", Progress: "1/1"},
		}
		want := task.DeepCopy()
		task.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
		if dropped {
			want.Spec.Config, want.Status.Config = "", ""
		}
		g.Expect(keep(trimmedTask)(task)).To(Equal(want), string(state))
	}
}

// A config in its status says that a task of a type which only a newer operator knows was started there: what it keeps, it keeps.
func TestATaskOfANewerOperatorIsKnownInTheCache(t *testing.T) {
	for taskType, newer := range map[v1alpha1.TaskType]bool{v1alpha1.Restore: false, "Dance": true} {
		for _, state := range []v1alpha1.TaskState{v1alpha1.TaskStateSucceeded, v1alpha1.TaskStateFailed, v1alpha1.TaskStateRejected} {
			g := NewWithT(t)
			task := &v1alpha1.EtcdOperatorTask{Spec: v1alpha1.EtcdOperatorTaskSpec{Type: taskType, Config: "steps: 3"}, Status: v1alpha1.EtcdOperatorTaskStatus{State: state, Config: "{}"}}
			kept := trimmedTask(task)
			g.Expect(kept.OfNewerOperator()).To(Equal(newer), "%s, %s", taskType, state)
			g.Expect(kept.Spec.Config).To(BeEmpty())
		}
	}
}
