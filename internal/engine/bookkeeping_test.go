// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
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

func first(wait time.Duration, _ bool) time.Duration { return wait }

// The record of a step that failed wakes its task, which still waits.
func TestTaskIsLeftAloneAfterAStepThatFailed(t *testing.T) {
	g := NewWithT(t)
	var m bookkeeping
	task := newTask()
	g.Expect(m.pausedFor(task, epoch)).To(BeNumerically("<=", 0))
	g.Expect(m.retry(task, epoch)).To(Equal(retryInterval))
	m.resume(task, epoch)
	g.Expect(m.pausedFor(task, epoch)).To(Equal(retryInterval), "a pause that has just begun stays")
	g.Expect(m.pausedFor(task, epoch.Add(retryInterval))).To(BeZero())
	g.Expect(first(m.backOff(task, epoch))).To(Equal(2 * retryInterval))
	for range 9 {
		m.backOff(task, epoch)
	}
	g.Expect(m.pausedFor(task, epoch)).To(Equal(maxPause))
	m.resume(task, epoch.Add(2*maxPause-1))
	g.Expect(first(m.backOff(task, epoch))).To(Equal(maxPause), "one that has just ended, too")
	m.resume(task, epoch.Add(2*maxPause))
	g.Expect(first(m.backOff(task, epoch))).To(Equal(firstPause))
	m.resume(task, epoch.Add(firstPause+detailInterval-1))
	g.Expect(first(m.backOff(task, epoch))).To(Equal(2*firstPause), "however short it was")
	m.resume(task, epoch.Add(2*firstPause+detailInterval))
	g.Expect(first(m.backOff(task, epoch))).To(Equal(firstPause))
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
		"nothing was written":                 {"", 0, false},
		"it shows what was there before":      {"100", 0, true},
		"it shows what was written":           {"99", 0, false},
		"another writer has written it since": {"98", 0, false},
		"it never shows it":                   {"100", maxCacheLag, false},
	} {
		got := written{at: epoch, resourceVersion: c.written}.isBehind(cached, epoch.Add(c.after))
		g.Expect(got).To(Equal(c.want), name)
	}
}

// What is kept of tasks goes with them. Whatever is left of one keeps the rest of its Etcd's books from being thrown away.
func TestBooksAreKept(t *testing.T) {
	var m bookkeeping
	task := func(name string, state v1alpha1.TaskState) *v1alpha1.EtcdOperatorTask {
		t := inState(newTask(), state)
		t.Namespace, t.Spec.OwnerEtcdReference.Name, t.Name, t.UID = "ns", "main", name, types.UID(name)
		return t
	}
	here, ended, gone := task("here", pending), task("ended", succeeded), task("gone", pending)
	for name, c := range map[string]struct {
		enter func(*v1alpha1.EtcdOperatorTask)
		has   func(record) bool
		// kept for a task that has ended, and for one that is gone.
		ended, gone bool
	}{
		"a write":  {func(t *v1alpha1.EtcdOperatorTask) { m.wrote(t, written{at: epoch}) }, func(r record) bool { return r.write != (written{}) }, true, false},
		"a pause":  {func(t *v1alpha1.EtcdOperatorTask) { m.retry(t, epoch) }, func(r record) bool { return r.pause != (pause{}) }, true, false},
		"a config": {func(t *v1alpha1.EtcdOperatorTask) { _, _ = m.decode(t, &actor{}) }, func(r record) bool { return r.config != nil }, false, false},
		"a reading": {func(t *v1alpha1.EtcdOperatorTask) {
			m.elapsed(t, epoch, clocktesting.NewFakePassiveClock(epoch))
		}, func(r record) bool { return r.lasts != (reading{}) || r.over != (reading{}) }, true, false},
		"a run": {func(t *v1alpha1.EtcdOperatorTask) { m.running(tasks.Task{Object: t}) }, func(r record) bool { return r.run != nil }, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			m = bookkeeping{}
			for _, task := range []*v1alpha1.EtcdOperatorTask{here, ended, gone} {
				c.enter(task)
			}
			m.keep(mainKey, []*v1alpha1.EtcdOperatorTask{here, ended})
			of := func(uid types.UID) bool { return c.has(ptr.Deref(m.etcds[mainKey][uid], record{})) }
			g.Expect([]bool{of("here"), of("ended"), of("gone")}).To(Equal([]bool{true, c.ended, c.gone}))
			m.keep(mainKey, nil)
			g.Expect(m.etcds).To(HaveLen(map[bool]int{true: 1}[c.gone]))
		})
	}
}

// An admission that could not be written is repeated: what passed before does not count. One that was written has lost its
// fractions of a second.
func TestElapsedSinceTheLastAdmission(t *testing.T) {
	g := NewWithT(t)
	var m bookkeeping
	now, task := clocktesting.NewFakePassiveClock(epoch.Add(time.Second/2)), newTask()
	elapsed := func(initiated time.Time, at time.Duration) time.Duration {
		now.SetTime(epoch.Add(at))
		elapsed, _ := m.elapsed(task, initiated, now)
		return elapsed
	}
	g.Expect(elapsed(epoch.Add(time.Second/2), time.Second/2)).To(BeZero())
	g.Expect(elapsed(epoch, time.Second)).To(Equal(time.Second / 2))
	g.Expect(elapsed(epoch.Add(time.Hour), time.Hour)).To(BeZero())
	g.Expect(elapsed(epoch.Add(time.Hour), 2*time.Hour)).To(Equal(time.Hour))
}

// A config is decoded once, and once more if it is another one, which the API server does not allow.
func TestConfigsAreDecodedOnce(t *testing.T) {
	g := NewWithT(t)
	var m bookkeeping
	task, handler := newTask(), &actor{undecodable: "b"}
	for _, c := range []struct {
		config string
		fails  bool
	}{{"a", false}, {"a", false}, {"b", true}, {"b", true}, {"c", false}} {
		task.Spec.Config = c.config
		config, err := m.decode(task, handler)
		g.Expect(err != nil).To(Equal(c.fails))
		if !c.fails {
			g.Expect(config).To(Equal(c.config))
		}
	}
	handler.undecodable = "c"
	_, err := m.decode(task, handler)
	g.Expect(err).NotTo(HaveOccurred(), "it is not decoded again")
}

// Deleted tasks are cleaned up after in the order of their names, and told of once each.
func TestDeletedTasks(t *testing.T) {
	g := NewWithT(t)
	var m bookkeeping
	var all []*v1alpha1.EtcdOperatorTask
	for _, name := range []string{"c", "a", "d", "b"} {
		task := newTask()
		task.Name, task.UID = name, types.UID(name)
		all = append(all, task)
		m.running(tasks.Task{Object: task})
	}
	names := func(all []tasks.Task) (names string) {
		for _, t := range all {
			names += t.Object.Name
		}
		return names
	}
	key := all[0].EtcdKey()
	g.Expect(names(m.deleted(key, nil))).To(Equal("abcd"))
	g.Expect(names(m.deleted(key, all[:1]))).To(Equal("abd"))
	g.Expect(m.trouble(all[0])).To(BeTrue())
	g.Expect(m.trouble(all[0])).To(BeFalse())
	g.Expect(m.trouble(all[1])).To(BeTrue())
	m.ended(all[0])
	g.Expect(names(m.deleted(key, nil))).To(Equal("abd"))
	g.Expect(m.trouble(all[0])).To(BeTrue(), "it was forgotten with its end")
}
