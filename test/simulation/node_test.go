// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Nodes reach each other on either side of a cut, and none that is cut off alone, has no power, or is apart.
func TestWhoReachesWhom(t *testing.T) {
	near, far, other := &node{}, &node{cut: true, zone: 1}, &node{cut: true, zone: 2}
	for name, test := range map[string]struct {
		a, b *node
		want bool
	}{
		"both there":         {near, &node{}, true},
		"itself":             {near, near, true},
		"cut off together":   {far, &node{cut: true, zone: 1}, true},
		"one cut off":        {near, far, false},
		"cut off at a time":  {far, other, false},
		"cut off alone":      {&node{cut: true}, &node{cut: true}, false},
		"itself, cut off":    {far, far, true},
		"itself, off":        {&node{off: true}, &node{off: true}, false},
		"apart":              {near, &node{apart: true}, false},
		"one without power":  {near, &node{off: true}, false},
		"one of a zone, off": {far, &node{cut: true, off: true, zone: 1}, false},
	} {
		w := &World{}
		if w.connected(test.a, test.b) != test.want || w.connected(test.b, test.a) != test.want {
			t.Errorf("%s: %t expected", name, test.want)
		}
	}
}

// running makes a pod on a node, whose member runs.
func running(t *testing.T, w *World, n *node) *pod {
	t.Helper()
	live := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "main-0"}, Spec: corev1.PodSpec{NodeName: n.name, Containers: []corev1.Container{{Name: v1alpha1.ContainerEtcd}}}}
	if err := w.writer.Create(context.Background(), live); err != nil {
		t.Fatal(err)
	}
	p := w.pods[live.UID]
	p.ip, p.disk = "192.0.2.1", &members.Disk{}
	p.disk.Bootstrap("a", 1, []members.Peer{{ID: 1, Name: p.name, Started: true}})
	p.run()
	return p
}

// A kubelet that reaches nothing starts a member again that has ended, and cannot say so; one that had no power begins with the init container.
func TestAMemberStartsAgainOnALostNode(t *testing.T) {
	for name, test := range map[string]struct {
		power           bool
		after, prepared bool
	}{"cut off": {false, true, true}, "without power": {true, false, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				p := running(t, w, w.nodes[0])
				p.crash("it is killed")
				p.node.lose(test.power)
				w.Run(w.Now()+30*time.Second, func() bool { return false })
				if (p.member != nil) != test.after {
					t.Errorf("its member runs: %t", p.member != nil)
				}
				if live := apiserver.Find[*corev1.Pod](w.API.Live(), Namespace, p.name); live.Status.ContainerStatuses[0].State.Waiting == nil {
					t.Error("the kubelet has said that it runs")
				}
				p.node.comeBack()
				if p.prepared != test.prepared {
					t.Errorf("prepared: %t", p.prepared)
				}
				w.Close()
			})
		})
	}
}

// What a kubelet has said is excused for as long as the operator may believe it, once the member has started again out of sight.
func TestTheLastWordOfAKubelet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := running(t, w, w.nodes[0])
		excused := func(want bool, when string) {
			t.Helper()
			if w.reportedDown(p.name, w.Now()) != want {
				t.Errorf("%s: %t", when, !want)
			}
		}
		excused(false, "it runs")
		p.crash("it is killed")
		excused(false, "its node is there")
		p.node.lose(false)
		w.Run(w.Now()+time.Minute, func() bool { return p.member != nil })
		excused(true, "it has just started")
		w.Run(w.Now()+heard+observation-time.Second, func() bool { return false })
		excused(true, "what the operator saw may be that old")
		w.Run(w.Now()+2*time.Second, func() bool { return false })
		excused(false, "its node has been silent for too long")
		w.Close()
	})
}

// A task may say that its Job did not start in time, once it had the time.
func TestJobsThatHadTime(t *testing.T) {
	for lasted, breaks := range map[time.Duration]bool{time.Minute: true, mayStart: false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			said := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Name: "task", CreationTimestamp: metav1.Time{Time: time.Now().Add(-lasted)}}}
			w.judgeEnd(said)
			said.Status.LastErrors = []v1alpha1.LastError{{Code: v1alpha1.ErrJobFailed}}
			w.judgeEnd(said)
			if len(w.Broken) > 0 {
				t.Errorf("it says nothing of a start: %s", w.Broken)
			}
			said.Status.LastErrors[0].Code = v1alpha1.ErrJobNotStarted
			w.judgeEnd(said)
			if got := strings.Join(w.Broken, "; "); (got != "") != breaks {
				t.Errorf("after %s: %q", lasted, got)
			}
			w.Close()
		})
	}
}
