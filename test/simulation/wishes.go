// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// wish is an operation that users begin.
type wish struct {
	name  string
	begin func(s *session, j *judge, task string, random *rand.Rand)
}

// wishes are the operations of users of one Etcd.
var wishes = []wish{
	{"changes the pod template", changeTemplate},
	{"restarts", func(_ *session, j *judge, task string, _ *rand.Rand) {
		j.Task(task, v1alpha1.QuorumAwareRollout, "restart: true")
	}},
	{"maintains", func(_ *session, j *judge, task string, _ *rand.Rand) {
		j.Task(task, v1alpha1.OnDemandMaintenance, "{etcdCompaction: true, etcdDefragmentation: true}")
	}},
	{"recreates", recreate},
	{"scales", scale},
	{"hibernates, and wakes up", hibernate},
	{"replaces the only pod behind a second member", surge},
	{"moves the volumes to another class", move},
	{"removes a member with etcdctl", etcdctl},
	{"deletes the Etcd, and creates it again", createAgain},
	{"goes back to an earlier state", goBack},
	{"restarts by eviction", func(_ *session, j *judge, task string, _ *rand.Rand) {
		j.Task(task, v1alpha1.QuorumAwareRollout, "{restart: true, podRemoval: Evict}")
	}},
	{"restarts, whatever some guards say", overrides},
	{"has rollouts start suspended", manual},
	{"deletes a task that runs", abort},
	{"suspends a task that runs, which is resumed", suspend},
	{"undoes the newest Restore that is still there", undoLate},
	{"recovers, needed or not", func(_ *session, j *judge, task string, _ *rand.Rand) { j.Task(task, v1alpha1.QuorumLossRecovery, "") }},
}

// scriptWishes are operations that scripts have, and no seed draws.
var scriptWishes = []wish{
	{"scales the StatefulSet by hand", scaleByHand},
}

func (j *judge) etcd() *v1alpha1.Etcd {
	return apiserver.Find[*v1alpha1.Etcd](j.world.API.Live(), Namespace, j.name)
}

func (j *judge) set() *appsv1.StatefulSet {
	return apiserver.Find[*appsv1.StatefulSet](j.world.API.Live(), Namespace, j.name)
}

// asked is how many members users ask for.
func (j *judge) asked() int32 {
	if e := j.etcd(); e != nil {
		return e.Spec.Replicas
	}
	return 0
}

func changeTemplate(_ *session, j *judge, task string, _ *rand.Rand) {
	edit(j.world, Namespace, j.name, "", func(e *v1alpha1.Etcd) { e.Spec.Annotations = map[string]string{"changed": task} })
}

func recreate(_ *session, j *judge, task string, _ *rand.Rand) {
	changeTemplate(nil, j, task, nil)
	j.Task(task, v1alpha1.RecreateRollout, "")
}

// scale asks for another number of members, and agrees to one.
func scale(_ *session, j *judge, _ string, random *rand.Rand) {
	edit(j.world, Namespace, j.name, "", func(e *v1alpha1.Etcd) {
		metav1.SetMetaDataAnnotation(&e.ObjectMeta, v1alpha1.AnnotationAllowSingleMember, "true")
		if e.Spec.Replicas > 0 {
			e.Spec.Replicas = (e.Spec.Replicas + 2*(1+random.Int32N(2))) % 6
		}
	})
}

// scaleByHand has a user scale the StatefulSet, whatever its members are. Now and then a member loses its volume after it was scaled down: what
// the cluster has is on volumes that have no pod then, unless that comes back.
func scaleByHand(s *session, j *judge, _ string, random *rand.Rand) {
	n := j.healthy()
	if n < 3 || j.set() == nil {
		return
	}
	to := 1 + random.IntN(n)
	if to == n {
		to++ // up
	}
	s.Log("user", fmt.Sprintf("scales the StatefulSet to %d", to))
	j.byHand = true
	edit(s.World, Namespace, j.name, "", func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To(int32(to)) })
	j.byHand = false
	if loses := random.IntN(2) == 0; !loses || to > n {
		return
	}
	s.open++
	s.After(time.Duration(5+random.IntN(60))*time.Second, "user", "", func() {
		s.open--
		if i := slices.IndexFunc(j.running(), func(m *members.Member) bool { return ordinalOf(m.Name) == 0 }); i >= 0 {
			s.wipe(j.running()[i])
		}
	})
}

// surge changes the pod template of a cluster in which a second member stands in for the only one. Three of four times users ask for one member
// before, and now and then they do without the second one.
func surge(_ *session, j *judge, task string, random *rand.Rand) {
	edit(j.world, Namespace, j.name, "", func(e *v1alpha1.Etcd) {
		metav1.SetMetaDataAnnotation(&e.ObjectMeta, v1alpha1.AnnotationAllowSingleMember, "true")
		e.Spec.SurgePolicy = v1alpha1.SurgeSingleMember
		switch random.IntN(8) {
		case 0:
			e.Spec.SurgePolicy = v1alpha1.SurgeNever
		case 1, 2:
		default:
			e.Spec.Replicas = min(e.Spec.Replicas, 1)
		}
	})
	changeTemplate(nil, j, task, random)
}

// move asks for volumes of another class, and now and then for the one before while they move.
func move(s *session, j *judge, _ string, random *rand.Rand) {
	to := func(class string) {
		edit(s.World, Namespace, j.name, "", func(e *v1alpha1.Etcd) { e.Spec.StorageClass = &class })
	}
	if j.etcd() == nil {
		return
	}
	was := ptr.Deref(j.etcd().Spec.StorageClass, "slow")
	to(map[string]string{"slow": "fast", "fast": "slow"}[was])
	if random.IntN(4) > 0 {
		return
	}
	s.open++
	s.After(time.Duration(20+random.IntN(100))*time.Second, "user", "asks for the class of volumes before", func() {
		s.open--
		to(was)
	})
}

// hibernate asks for no members for a while.
func hibernate(s *session, j *judge, _ string, random *rand.Rand) {
	before := j.asked()
	if before == 0 {
		return
	}
	wakes := time.Duration(20+random.IntN(100)) * time.Second
	edit(s.World, Namespace, j.name, "", func(e *v1alpha1.Etcd) {
		e.Spec.Replicas = 0
		if j.backups != nil && random.IntN(2) == 0 {
			e.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.PersistentVolumeClaimRetentionPolicy{WhenScaled: v1alpha1.VolumesDeleted}
		}
	})
	s.open++
	s.After(wakes, "user", "wakes the Etcd up", func() {
		s.open--
		edit(s.World, Namespace, j.name, "", func(e *v1alpha1.Etcd) { e.Spec.Replicas = before })
	})
}

// etcdctl has a user remove a member of a cluster in which all is well.
func etcdctl(s *session, j *judge, _ string, random *rand.Rand) {
	if j.healthy() < 3 {
		return
	}
	leader, list := j.leader()
	gone := list[random.IntN(len(list))]
	if err := s.Etcd.Remove(leader, gone.ID); err == nil {
		s.Log("user", "removes member "+gone.Name)
	}
}

// createAgain deletes the Etcd, whose volumes stay, and creates another one of its name.
func createAgain(s *session, j *judge, _ string, random *rand.Rand) {
	before := j.etcd()
	if j.healthy() == 0 {
		return
	}
	s.remove(before)
	s.open++
	squats, after := random.IntN(6), time.Duration(random.IntN(60))*time.Second
	loses := random.IntN(4)
	s.After(after, "user", "", func() { s.createOnce(j, before, squats, loses) })
}

// createOnce creates the Etcd once that before it is gone, now and then after a stranger has taken one of its names, or after some of the volumes are
// lost that it has left behind.
func (s *session) createOnce(j *judge, before *v1alpha1.Etcd, squats, loses int) {
	if j.etcd() != nil || len(j.running()) > 0 && loses > 0 {
		s.After(time.Second, "user", "", func() { s.createOnce(j, before, squats, loses) })
		return
	}
	s.open--
	s.loseVolumes(j, loses)
	s.squat(j, squats)
	s.Log("user", "creates the Etcd again")
	s.Create(j.name, before.Spec, before.Annotations)
}

// loseVolumes loses what is on some of the volumes of an Etcd that is gone, but for the last one. What a removed member has is none of them.
func (s *session) loseVolumes(j *judge, most int) {
	var held []*members.Disk
	for _, c := range apiserver.Of[*corev1.PersistentVolumeClaim](s.API.Live()) {
		if d := s.disks[c.Spec.VolumeName]; d != nil && d.Cluster != "" && !d.Removed() && etcdOf(podOfClaim(c.Name)) == j.name {
			held = append(held, d)
		}
	}
	for i := range min(most, len(held)-1) {
		s.Log("user", "loses a volume that the Etcd has left behind")
		*held[len(held)-1-i] = members.Disk{}
	}
}

// squat has a stranger create an object of a name that the Etcd needs, if that is free, and delete it after a while.
func (s *session) squat(j *judge, which int) {
	meta := metav1.ObjectMeta{Namespace: Namespace, Name: j.name, Annotations: map[string]string{strangers: "true"}}
	all := []client.Object{&corev1.ConfigMap{ObjectMeta: meta}, &corev1.Service{ObjectMeta: meta}, &appsv1.StatefulSet{ObjectMeta: meta}}
	if which >= len(all) {
		return
	}
	o := all[which]
	switch o := o.(type) {
	case *corev1.ConfigMap:
		o.SetName(j.name + "-config")
	case *corev1.Service:
		o.SetName(j.name + "-client")
	case *appsv1.StatefulSet:
		o.Spec = appsv1.StatefulSetSpec{Replicas: ptr.To[int32](0), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "stranger"}}}
	}
	if err := s.writer.Create(context.Background(), o); err != nil {
		return // that of the Etcd before is still there
	}
	s.Log("user", fmt.Sprintf("creates a %T of the name %s", o, o.GetName()))
	s.open++
	s.After(time.Minute, "user", "deletes it", func() {
		s.open--
		s.remove(o)
	})
}
