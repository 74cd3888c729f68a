// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"math/rand/v2"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// wish is an operation that users begin.
type wish struct {
	name  string
	begin func(s *session, task string, random *rand.Rand)
}

// wishes are drawn with equal chances: those that are more likely are there twice.
var wishes = []wish{
	{"changes the pod template", changeTemplate},
	{"changes the pod template", changeTemplate},
	{"restarts", func(s *session, task string, _ *rand.Rand) {
		s.Task(task, v1alpha1.QuorumAwareRollout, "restart: true")
	}},
	{"maintains", func(s *session, task string, _ *rand.Rand) {
		s.Task(task, v1alpha1.OnDemandMaintenance, "{etcdCompaction: true, etcdDefragmentation: true}")
	}},
	{"recreates", func(s *session, task string, _ *rand.Rand) {
		changeTemplate(s, task, nil)
		s.Task(task, v1alpha1.RecreateRollout, "")
	}},
	{"scales", scale},
	{"scales", scale},
	{"hibernates, and wakes up", hibernate},
	{"removes a member with etcdctl", etcdctl},
	{"deletes the Etcd, and creates it again", createAgain},
}

func (w *World) etcd() *v1alpha1.Etcd {
	return apiserver.Find[*v1alpha1.Etcd](w.API.Live(), Namespace, Name)
}

// asked is how many members users ask for.
func (w *World) asked() int32 {
	if e := w.etcd(); e != nil {
		return e.Spec.Replicas
	}
	return 0
}

func changeTemplate(s *session, task string, _ *rand.Rand) {
	edit(s.World, Namespace, Name, "", func(e *v1alpha1.Etcd) { e.Spec.Annotations = map[string]string{"changed": task} })
}

// scale asks for another number of members, and agrees to one.
func scale(s *session, _ string, random *rand.Rand) {
	edit(s.World, Namespace, Name, "", func(e *v1alpha1.Etcd) {
		metav1.SetMetaDataAnnotation(&e.ObjectMeta, v1alpha1.AnnotationAllowSingleMember, "true")
		if e.Spec.Replicas > 0 {
			e.Spec.Replicas = (e.Spec.Replicas + 2*(1+random.Int32N(2))) % 6
		}
	})
}

// hibernate asks for no members for a while.
func hibernate(s *session, _ string, random *rand.Rand) {
	before := s.asked()
	if before == 0 {
		return
	}
	edit(s.World, Namespace, Name, "", func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 })
	s.open++
	s.After(time.Duration(20+random.IntN(100))*time.Second, "user", "wakes the Etcd up", func() {
		s.open--
		edit(s.World, Namespace, Name, "", func(e *v1alpha1.Etcd) { e.Spec.Replicas = before })
	})
}

// etcdctl has a user remove a member of a cluster in which all is well.
func etcdctl(s *session, _ string, random *rand.Rand) {
	if s.healthy() < 3 {
		return
	}
	leader, list := s.judge.leader()
	gone := list[random.IntN(len(list))]
	if err := s.Etcd.Remove(leader, gone.ID); err == nil {
		s.Log("user", "removes member "+gone.Name)
	}
}

// createAgain deletes the Etcd, whose volumes stay, and creates another one of its name.
func createAgain(s *session, _ string, random *rand.Rand) {
	before := s.etcd()
	if s.healthy() == 0 {
		return
	}
	s.remove(before)
	s.open++
	s.After(time.Duration(random.IntN(60))*time.Second, "user", "", func() { s.createOnce(before) })
}

// createOnce creates the Etcd once that before it is gone.
func (s *session) createOnce(before *v1alpha1.Etcd) {
	if s.etcd() != nil {
		s.After(time.Second, "user", "", func() { s.createOnce(before) })
		return
	}
	s.open--
	s.Log("user", "creates the Etcd again")
	s.Create(before.Spec.Replicas, before.Annotations)
}
