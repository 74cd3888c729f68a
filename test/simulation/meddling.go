// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tasks returns the tasks of an Etcd, by name.
func (j *judge) tasks() []*v1alpha1.EtcdOperatorTask {
	return slices.DeleteFunc(apiserver.Of[*v1alpha1.EtcdOperatorTask](j.world.API.Live()), func(t *v1alpha1.EtcdOperatorTask) bool { return t.Spec.OwnerEtcdReference.Name != j.name })
}

// whileOneRuns has a user do something to a task that runs, but for previews, up to a minute after it has begun; to none if none begins for two minutes.
func (s *session) whileOneRuns(j *judge, random *rand.Rand, do func(t *v1alpha1.EtcdOperatorTask)) {
	until, later, which := s.Now()+2*time.Minute, time.Duration(random.IntN(1+random.IntN(60_000)))*time.Millisecond, random.IntN(4)
	s.then(func() (*v1alpha1.EtcdOperatorTask, bool) {
		run := slices.DeleteFunc(j.tasks(), func(t *v1alpha1.EtcdOperatorTask) bool {
			return t.Status.State != v1alpha1.TaskStateInProgress || t.Spec.Type == v1alpha1.Restore && !replacesData(t)
		})
		if len(run) == 0 {
			return nil, s.Now() < until
		}
		return run[which%len(run)], false
	}, func(t *v1alpha1.EtcdOperatorTask) {
		s.open++
		s.After(later, "user", "", func() {
			s.open--
			if live, runs := s.ended(t.Name)(); runs && live.UID == t.UID {
				do(live)
			}
		})
	})
}

// begins has a user begin something that stops all members, every second time.
func begins(s *session, j *judge, task string, random *rand.Rand) {
	switch random.IntN(4) {
	case 0:
		goBack(s, j, task, random)
	case 1:
		recreate(s, j, task, random)
	}
}

// abort has a user delete a task while it runs, of whatever type.
func abort(s *session, j *judge, task string, random *rand.Rand) {
	begins(s, j, task, random)
	s.whileOneRuns(j, random, func(t *v1alpha1.EtcdOperatorTask) {
		s.Log("user", fmt.Sprintf("deletes task %s, a %s that runs", t.Name, t.Spec.Type))
		s.faults.injected[fmt.Sprintf("a %s that runs is deleted", t.Spec.Type)]++
		if t.Spec.Type == v1alpha1.RecreateRollout || j.replaces() {
			j.hibernated = s.Now() // the members may be stopped by a request that is late
		}
		s.remove(t)
	})
}

// suspend has a user suspend a task while it runs. Those who help resume it.
func suspend(s *session, j *judge, task string, random *rand.Rand) {
	begins(s, j, task, random)
	s.whileOneRuns(j, random, func(t *v1alpha1.EtcdOperatorTask) {
		s.Log("user", fmt.Sprintf("suspends task %s, a %s that runs", t.Name, t.Spec.Type))
		s.faults.injected[fmt.Sprintf("a %s that runs is suspended", t.Spec.Type)]++
		edit(s.World, Namespace, t.Name, "", func(t *v1alpha1.EtcdOperatorTask) { t.Spec.Suspend = true })
	})
}

// unsuspend has a user resume what is suspended.
func (s *session) unsuspend(j *judge) {
	for _, t := range j.tasks() {
		if t.Spec.Suspend && !t.Status.State.IsFinal() {
			s.Log("user", "resumes task "+t.Name)
			edit(s.World, Namespace, t.Name, "", func(t *v1alpha1.EtcdOperatorTask) { t.Spec.Suspend = false })
		}
	}
}

// manual has the rollouts of an Etcd start suspended from now on, or no longer.
func manual(s *session, j *judge, task string, random *rand.Rand) {
	edit(s.World, Namespace, j.name, "", func(e *v1alpha1.Etcd) {
		if delete(e.Annotations, v1alpha1.AnnotationRollout); random.IntN(3) > 0 {
			metav1.SetMetaDataAnnotation(&e.ObjectMeta, v1alpha1.AnnotationRollout, v1alpha1.RolloutManual)
		}
	})
	changeTemplate(s, j, task, random)
}

// overridden are guards that a user has not block a restart. That of a second member is none of them: the judge does without that one only if users do.
var overridden = []v1alpha1.OverridableGuard{"OthersParticipating", "OthersServing", "VotersOdd", "NodesStable", "UnreadyConfirmed", "SuccessorCaughtUp", "LearnerPromoted", "RemovalGranted"}

// overrides has a user restart the members although up to three guards may block that.
func overrides(s *session, j *judge, task string, random *rand.Rand) {
	j.Task(task, v1alpha1.QuorumAwareRollout, "{restart: true, nonParticipatingPods: "+[]string{"OneByOne", "AllAtOnce"}[random.IntN(2)]+"}")
	edit(s.World, Namespace, task, "", func(t *v1alpha1.EtcdOperatorTask) {
		for _, i := range random.Perm(len(overridden))[:1+random.IntN(3)] {
			t.Spec.OverrideGuards = append(t.Spec.OverrideGuards, overridden[i])
		}
	})
}

// undoLate has a user undo the newest Restore that is still there, whatever was since.
func undoLate(_ *session, j *judge, task string, _ *rand.Rand) {
	var newest *v1alpha1.EtcdOperatorTask
	for _, t := range j.tasks() {
		if t.Status.State == v1alpha1.TaskStateSucceeded && t.Spec.Type == v1alpha1.Restore && t.SetsAside() && (newest == nil || newest.CreationTimestamp.Before(&t.CreationTimestamp)) {
			newest = t
		}
	}
	if newest != nil {
		j.Task(task, v1alpha1.Restore, fmt.Sprintf("{undo: %s}", newest.Name))
		j.promise(task, promise{undoes: newest.UID})
	}
}
