// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
)

// goBack has a user preview an earlier state, go back to exactly that, and now and then undo it.
func goBack(s *session, j *judge, task string, random *rand.Rand) {
	if j.backups.newest() == nil || j.asked() == 0 {
		return
	}
	// Two of the snapshots say which revision: the state is between them.
	list := j.backups.list
	last := list[random.IntN(len(list))]
	revision := max(last.LastRevision-random.Int64N(5), 1)
	if _, err := j.backups.at(backup.Target{Revision: revision}); err != nil {
		revision = last.LastRevision
	}
	j.Task(task, v1alpha1.Restore, fmt.Sprintf("{to: {revision: %d}}", revision))
	undoes := random.IntN(3) == 0
	s.then(s.ended(task), func(preview *v1alpha1.EtcdOperatorTask) {
		found := preview.Status.Result
		target := backup.Target{Revision: revision, Base: found["base"]}
		if goal, err := j.backups.at(target); found["confirm"] != "" && err == nil {
			j.confirm(s, task+"-confirmed", fmt.Sprintf("{to: {revision: %d, base: %s}, confirm: %q}", revision, found["base"], found["confirm"]), goal.writes, undoes)
		}
	})
}

// confirm has a user confirm a restore, and tells the judge what it is to bring.
func (j *judge) confirm(s *session, task, config string, goal []int, undoes bool) {
	j.Task(task, v1alpha1.Restore, config)
	j.promise(task, promise{goal: goal})
	if !undoes {
		return
	}
	s.then(s.ended(task), func(restored *v1alpha1.EtcdOperatorTask) {
		if restored.Status.State == v1alpha1.TaskStateSucceeded {
			j.Task(task+"-undone", v1alpha1.Restore, fmt.Sprintf("{undo: %s}", task))
			j.promise(task+"-undone", promise{undoes: restored.UID})
		}
	})
}

// promise notes what a task has to bring that a user has created.
func (j *judge) promise(task string, p promise) {
	if t := apiserver.Find[*v1alpha1.EtcdOperatorTask](j.world.API.Live(), Namespace, task); t != nil {
		j.promises[t.UID] = p
	}
}

// replaces reports whether users have a task replace the data of the Etcd.
func (j *judge) replaces() bool {
	return slices.ContainsFunc(apiserver.Of[*v1alpha1.EtcdOperatorTask](j.world.API.Live()), func(t *v1alpha1.EtcdOperatorTask) bool {
		return t.Spec.OwnerEtcdReference.Name == j.name && t.Spec.Type == v1alpha1.Restore && replacesData(t) && !t.Status.State.IsFinal()
	})
}

// replacesData reports whether a Restore is more than a preview.
func replacesData(t *v1alpha1.EtcdOperatorTask) bool {
	return strings.Contains(t.Spec.Config, "confirm: ") || strings.Contains(t.Spec.Config, "undo: ")
}

// ended returns a task once it has ended, and whether it is still to be waited for.
func (s *session) ended(name string) func() (t *v1alpha1.EtcdOperatorTask, waits bool) {
	return func() (*v1alpha1.EtcdOperatorTask, bool) {
		t := apiserver.Find[*v1alpha1.EtcdOperatorTask](s.API.Live(), Namespace, name)
		return t, t != nil && !t.Status.State.IsFinal()
	}
}

// then has a user do something once a task has ended, if it is still there; not if it takes very long.
func (s *session) then(ended func() (*v1alpha1.EtcdOperatorTask, bool), do func(t *v1alpha1.EtcdOperatorTask)) {
	s.open++
	until := s.Now() + 20*time.Minute
	var look func()
	look = func() {
		s.After(2*time.Second, "user", "", func() {
			t, waits := ended()
			if waits && s.Now() < until {
				look()
				return
			}
			if s.open--; t != nil && !waits {
				do(t)
			}
		})
	}
	look()
}
