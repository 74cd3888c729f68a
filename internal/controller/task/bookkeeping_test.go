// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// newTask makes a pending task that was created at the epoch.
func newTask() *v1alpha1.EtcdOperatorTask {
	return &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "1", CreationTimestamp: metav1.Time{Time: epoch}},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.OnDemandSnapshot},
		Status:     v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStatePending},
	}
}

func inState(t *v1alpha1.EtcdOperatorTask, state v1alpha1.TaskState) *v1alpha1.EtcdOperatorTask {
	t.Status.State = state
	return t
}

// The record of a step that failed wakes its task, which still waits.
func TestTaskIsLeftAloneAfterAStepThatFailed(t *testing.T) {
	g := NewWithT(t)
	var m bookkeeping
	task := newTask()
	g.Expect(m.pausedFor(task, epoch)).To(BeNumerically("<=", 0))
	m.pause(task, epoch, retryInterval)
	m.resume(task, epoch)
	g.Expect(m.pausedFor(task, epoch)).To(Equal(retryInterval), "a pause that has just begun stays")
	g.Expect(m.pausedFor(task, epoch.Add(retryInterval))).To(BeZero())
	g.Expect(m.backOff(task, epoch)).To(Equal(2 * retryInterval))
	for range 9 {
		m.backOff(task, epoch)
	}
	g.Expect(m.pausedFor(task, epoch)).To(Equal(maxPause))
	m.resume(task, epoch.Add(maxPause))
	g.Expect(m.backOff(task, epoch)).To(Equal(firstPause))
	m.keep(task.EtcdKey(), nil)
	g.Expect(m.pausedFor(task, epoch)).To(BeNumerically("<=", 0))
}

// A task that the cache shows as it was before it was last written is not worked on: the next write would be refused.
func TestCacheIsBehind(t *testing.T) {
	g := NewWithT(t)
	cached := newTask()
	cached.ResourceVersion = "99"
	for name, c := range map[string]struct {
		written string
		after   time.Duration
		want    bool
	}{
		"nothing was written":                {"", 0, false},
		"it shows what was there before":     {"100", 0, true},
		"it shows what was written":          {"99", 0, false},
		"somebody else has written it since": {"98", 0, false},
		"it never shows it":                  {"100", maxCacheLag, false},
	} {
		got := written{at: epoch, resourceVersion: c.written}.isBehind(cached, epoch.Add(c.after))
		g.Expect(got).To(Equal(c.want), name)
	}
}
