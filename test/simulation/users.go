// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Create has a user create the Etcd.
func (w *World) Create(name string, spec v1alpha1.EtcdSpec, annotations map[string]string) {
	e := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, Annotations: annotations}, Spec: spec}
	w.must(w.writer.Create(context.Background(), e))
}

// write has clients write, about once a second.
func (w *World) write() {
	w.After(w.between(200, 2000), "client", "", func() {
		if running := w.Etcd.Running(); len(running) > 0 {
			if m := running[w.pace.IntN(len(running))]; !w.of(m.Name).fenced() {
				w.Etcd.Write(m)
			}
		}
		w.write()
	})
}

// Task has a user create a task.
func (j *judge) Task(name string, of v1alpha1.TaskType, config string) {
	w := j.world
	w.Log("user", fmt.Sprintf("creates task %s, a %s: %s", name, of, config))
	w.must(w.writer.Create(context.Background(), &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: of, Config: config, OwnerEtcdReference: v1alpha1.EtcdReference{Name: j.name}, TTLSecondsAfterFinished: ptr.To([]int32{30, 180, 600}[w.keeps.IntN(3)])},
	}))
}

// Unfinished returns what an Etcd waits for; empty once every operation has ended and all of its members serve.
func (j *judge) Unfinished() string {
	w, etcd, set := j.world, j.etcd(), j.set()
	switch {
	case etcd == nil:
		return "the Etcd does not exist"
	case set == nil:
		return "the StatefulSet does not exist" + saidOf(etcd)
	}
	var open []string
	for _, t := range apiserver.Of[*v1alpha1.EtcdOperatorTask](w.API.Live()) {
		if t.Spec.OwnerEtcdReference.Name == j.name && !t.Status.State.IsFinal() {
			open = append(open, fmt.Sprintf("task %s (%s) is %s: %s", t.Name, t.Spec.Type, t.Status.State, said(t)))
			if strings.Contains(said(t), "is deleted, since that keeps there") {
				j.letGo()
			}
		}
	}
	if len(open) > 0 {
		return strings.Join(open, "; ") + saidOf(etcd)
	}
	leader, list := j.leader()
	if leader == nil {
		return "no member leads with a quorum"
	}
	if len(list) != int(etcd.Spec.Replicas) || etcd.Status.ClusterSize != etcd.Spec.Replicas {
		return fmt.Sprintf("%d members are listed, the Etcd says %d, and it is to have %d", len(list), etcd.Status.ClusterSize, etcd.Spec.Replicas)
	}
	for _, p := range list {
		if p.Learner || !p.Started || !j.serves(p.ID) {
			return fmt.Sprintf("member %x (%s) does not serve, or has no vote", p.ID, p.Name)
		}
	}
	for _, p := range w.podsOf(set) {
		if p.Labels[appsv1.StatefulSetRevisionLabel] != w.revision(set) {
			return fmt.Sprintf("pod %s is outdated", p.Name)
		}
	}
	if left := j.volumes(etcd); left != "" {
		return left
	}
	switch {
	case j.fenced():
		return "clients are kept away"
	case !ptr.Deref(etcd.Status.Ready, false):
		return fmt.Sprintf("the Etcd is not ready: %+v", etcd.Status.Conditions)
	case etcd.Status.ClusterID != leader.Disk.Cluster:
		return fmt.Sprintf("the Etcd says that its cluster is %q, and it is %q", etcd.Status.ClusterID, leader.Disk.Cluster)
	case set.Generation != set.Status.ObservedGeneration || etcd.Generation != etcd.Status.ObservedGeneration:
		return "a generation was not observed"
	}
	return ""
}

// volumes returns what is left to do about the volumes: each is of the class that the Etcd asks for, and none is there that was for a while.
func (j *judge) volumes(etcd *v1alpha1.Etcd) string {
	for _, c := range apiserver.Of[*corev1.PersistentVolumeClaim](j.world.API.Live()) {
		pod := podOfClaim(c.Name)
		switch {
		case etcdOf(pod) != j.name:
		case c.Annotations[v1alpha1.AnnotationTemporary] == string(c.UID) && ordinalOf(pod) >= int(etcd.Spec.Replicas):
			return fmt.Sprintf("claim %s was temporary, and is there", c.Name)
		case ordinalOf(pod) < int(etcd.Spec.Replicas) && ptr.Deref(c.Spec.StorageClassName, "") != ptr.Deref(etcd.Spec.StorageClass, ""):
			j.letGo()
			return fmt.Sprintf("claim %s is of class %q", c.Name, ptr.Deref(c.Spec.StorageClassName, ""))
		}
	}
	return ""
}

// letGo deletes the tasks of Restores, as the condition VolumesMoved says, and a task that waits for it: no volume moves that has what one keeps.
func (j *judge) letGo() {
	for _, t := range apiserver.Of[*v1alpha1.EtcdOperatorTask](j.world.API.Live()) {
		if t.Spec.OwnerEtcdReference.Name == j.name && t.Spec.Type == v1alpha1.Restore && t.Status.State.IsFinal() && t.DeletionTimestamp == nil {
			j.world.Log("user", "lets go of what "+t.Name+" keeps")
			j.world.remove(t)
		}
	}
}

// podOfClaim is the pod that a claim is for; the claim template has the name of the Etcd.
func podOfClaim(claim string) string { return claim[strings.Index(claim, "-")+1:] }

// said returns what the status of a task says that it waits for.
func said(t *v1alpha1.EtcdOperatorTask) string {
	for _, of := range []string{v1alpha1.ConditionProgressing, v1alpha1.ConditionAdmitted} {
		if c := meta.FindStatusCondition(t.Status.Conditions, of); c != nil {
			return fmt.Sprintf("%s is %s (%s): %s", of, c.Status, c.Reason, c.Message)
		}
	}
	return "it says nothing"
}

// saidOf returns what the status of the Etcd complains of.
func saidOf(e *v1alpha1.Etcd) (says string) {
	for _, c := range e.Status.Conditions {
		if c.Status != metav1.ConditionTrue {
			says += fmt.Sprintf("; %s is %s (%s): %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	for _, l := range e.Status.LastErrors {
		says += fmt.Sprintf("; %s: %s", l.Code, l.Description)
	}
	return says
}
