// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// newTask makes a pending task that was created some seconds after the epoch and is at a resourceVersion.
func newTask(name string, second int, resourceVersion string) *v1alpha1.EtcdOperatorTask {
	return &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: resourceVersion, CreationTimestamp: metav1.Time{Time: epoch.Add(time.Duration(second) * time.Second)}},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.OnDemandSnapshot},
		Status:     v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStatePending},
	}
}

func inState(t *v1alpha1.EtcdOperatorTask, state v1alpha1.TaskState) *v1alpha1.EtcdOperatorTask {
	t.Status.State = state
	return t
}

func suspended(t *v1alpha1.EtcdOperatorTask) *v1alpha1.EtcdOperatorTask {
	t.Spec.Suspend = true
	return t
}

func arrived(t *v1alpha1.EtcdOperatorTask, resourceVersion string) *v1alpha1.EtcdOperatorTask {
	t.Status.ArrivalResourceVersion = resourceVersion
	return t
}

func names(q Queue) string {
	var all []string
	for _, t := range q {
		all = append(all, t.Name)
	}
	return strings.Join(all, " ")
}

func TestQueueOrder(t *testing.T) {
	tasks := []*v1alpha1.EtcdOperatorTask{
		newTask("earlier", 0, "900"),
		// Of one second: by the resourceVersion at which each was first seen, as a number. A task that was
		// changed since keeps its place.
		arrived(newTask("first", 1, "2000"), "99"),
		newTask("second", 1, "100"),
		arrived(newTask("third", 1, "101"), "101"),
		newTask("later", 2, "50"),
		inState(newTask("over", 0, "1"), v1alpha1.TaskStateSucceeded),
	}
	for range 20 {
		rand.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
		if got := names(New(tasks)); got != "earlier first second third later" {
			t.Fatalf("the order is %q", got)
		}
	}
}

func TestHead(t *testing.T) {
	for name, c := range map[string]struct {
		tasks []*v1alpha1.EtcdOperatorTask
		want  string
	}{
		"nobody":                     {nil, ""},
		"the first":                  {[]*v1alpha1.EtcdOperatorTask{newTask("a", 0, "1"), newTask("b", 1, "2")}, "a"},
		"suspended lets pass":        {[]*v1alpha1.EtcdOperatorTask{suspended(newTask("a", 0, "1")), newTask("b", 1, "2")}, "b"},
		"all suspended":              {[]*v1alpha1.EtcdOperatorTask{suspended(newTask("a", 0, "1"))}, ""},
		"who runs stays":             {[]*v1alpha1.EtcdOperatorTask{newTask("a", 0, "1"), inState(newTask("b", 1, "2"), v1alpha1.TaskStateInProgress)}, "b"},
		"who runs stays, suspended":  {[]*v1alpha1.EtcdOperatorTask{newTask("a", 0, "1"), suspended(inState(newTask("b", 1, "2"), v1alpha1.TaskStateInProgress))}, "b"},
		"who has ended is not there": {[]*v1alpha1.EtcdOperatorTask{inState(newTask("a", 0, "1"), v1alpha1.TaskStateFailed), newTask("b", 1, "2")}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if head := New(c.tasks).Head(); head != nil {
				got = head.Name
			}
			if got != c.want {
				t.Errorf("the head is %q, want %q", got, c.want)
			}
		})
	}
}

func TestPlaceInLine(t *testing.T) {
	q := New([]*v1alpha1.EtcdOperatorTask{
		newTask("a", 0, "1"), suspended(newTask("b", 1, "2")), newTask("c", 2, "3"), inState(newTask("d", 3, "4"), v1alpha1.TaskStateInProgress), newTask("e", 4, "5"),
	})
	for i, want := range []int{1, 2, 2, 0, 3} {
		if got := q.Behind(q[i]); got != want {
			t.Errorf("%d tasks come before %s, want %d", got, q[i].Name, want)
		}
	}
}

func TestEarlier(t *testing.T) {
	other := newTask("other", 1, "2")
	other.Spec.Type = v1alpha1.CopyBackups
	q := New([]*v1alpha1.EtcdOperatorTask{newTask("a", 0, "1"), other, suspended(newTask("b", 2, "3")), newTask("c", 3, "4"), newTask("d", 4, "5")})
	if got := names(q.Earlier(q[3])); got != "a" {
		t.Errorf("earlier than c: %q", got)
	}
}
