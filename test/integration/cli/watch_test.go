// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/kstatus"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// observed writes the status of the Etcd, as an operator does that has applied its newest spec.
func (p *person) observed(updated metav1.ConditionStatus) {
	p.T.Helper()
	ctx := p.T.Context()
	p.Expect(testEnv.Client.Get(ctx, client.ObjectKeyFromObject(p.Etcd), p.Etcd)).To(Succeed())
	p.Etcd.Status.ObservedGeneration = p.Etcd.Generation
	p.Etcd.Status.Conditions.Set(metav1.Condition{
		Type: v1alpha1.ConditionAllMembersUpdated, Status: updated, Reason: "Test", Message: "As the test says.",
		ObservedGeneration: p.Etcd.Generation, LastTransitionTime: metav1.Now(),
	})
	p.Expect(testEnv.Client.Status().Update(ctx, p.Etcd)).To(Succeed())
}

// patch changes the pod template of the Etcd.
func (p *person) patch(note string) {
	p.T.Helper()
	before := p.Etcd.DeepCopy()
	p.Etcd.Spec.Annotations = map[string]string{"example.com/note": note}
	p.Expect(testEnv.Client.Patch(p.T.Context(), p.Etcd, client.MergeFrom(before))).To(Succeed())
}

// Right after a change of the spec, the task of the change before has succeeded and the next one does not exist yet. The
// watch is about the change that was made.
func TestWatchOfAnEtcdWaitsForTheTaskOfTheNewestSpec(t *testing.T) {
	p := newPerson(t)
	p.make("earlier", v1alpha1.TaskStateSucceeded)
	p.observed(metav1.ConditionTrue)
	got := p.run("watch", "main")
	p.Expect(got.code).To(BeZero(), "nothing is pending: %s", got)
	p.Expect(got.out).To(ContainSubstring("succeeded"))

	p.patch("1")
	got = p.run("watch", "main", "--timeout", machine.Scaled(time.Second).String())
	p.Expect(got.code).To(Equal(3), got.String())
	p.Expect(got.err).To(ContainSubstring("the operator has not applied the newest spec yet"))
	p.Expect(got.out).To(BeEmpty(), "the task of the change before is not shown")

	for state, code := range map[v1alpha1.TaskState]int{v1alpha1.TaskStateSucceeded: 0, v1alpha1.TaskStateFailed: 1} {
		p.patch(string(state))
		end := p.start(t.Context(), "watch", "etcd/main")
		p.observed(metav1.ConditionFalse)
		task := p.make("next", v1alpha1.TaskStateInProgress)
		p.operate(task, state, "as the test says")
		p.observed(metav1.ConditionTrue)
		got = end()
		p.Expect(got.code).To(Equal(code), got.String())
		p.Expect(got.out).To(ContainSubstring("as the test says"))
		p.Expect(testEnv.Client.Delete(t.Context(), task)).To(Succeed())
	}
}

// An object that the operator has not seen yet is in progress, not current.
func TestAnObjectThatTheOperatorHasNotSeen(t *testing.T) {
	p := newPerson(t)
	task := p.make("new", "")
	p.Expect(p.Etcd.Status.ObservedGeneration).To(Equal(int64(-1)))
	for _, object := range []any{p.Etcd, task} {
		got, why, err := kstatus.Compute(object)
		p.Expect(err).NotTo(HaveOccurred())
		p.Expect(got).To(Equal(kstatus.InProgress), why)
	}
}

// A task that is superseded by that of a later change is not the end.
func TestWatchOfAnEtcdGoesOnAfterASupersededTask(t *testing.T) {
	p := newPerson(t)
	p.observed(metav1.ConditionFalse)
	first := p.make("first", v1alpha1.TaskStateInProgress)
	end := p.start(t.Context(), "watch", "main")
	p.patch("2")
	first.Status.LastErrors = []v1alpha1.LastError{{Code: v1alpha1.ErrSuperseded, Description: "there is a newer revision", ObservedAt: metav1.Now()}}
	p.operate(first, v1alpha1.TaskStateRejected, "superseded by the test")
	second := p.make("second", v1alpha1.TaskStateInProgress)
	p.operate(second, v1alpha1.TaskStateSucceeded, "the end of the second")
	p.observed(metav1.ConditionTrue)
	got := end()
	p.Expect(got.code).To(BeZero(), got.String())
}

// A spec that is suspended is not waited for.
func TestWatchOfAnEtcdWhoseSpecIsSuspended(t *testing.T) {
	p := newPerson(t)
	before := p.Etcd.DeepCopy()
	p.Etcd.Annotations = map[string]string{v1alpha1.AnnotationSuspendSpecReconcile: ""}
	p.Expect(testEnv.Client.Patch(t.Context(), p.Etcd, client.MergeFrom(before))).To(Succeed())
	got := p.run("watch", "main")
	p.Expect(got.code).To(Equal(1), got.String())
	p.Expect(got.err).To(ContainSubstring("suspends it"))
}

// Without a terminal, list --watch prints the list, and then each task that changes, until it is interrupted.
func TestListWatch(t *testing.T) {
	p := newPerson(t)
	task := p.make("a", v1alpha1.TaskStateInProgress)
	other := p.make("b", v1alpha1.TaskStateSucceeded)
	ctx, interrupt := context.WithCancel(t.Context())
	var rows, names watched
	ends := []func() outcome{
		p.startInto(ctx, &rows, "list", "--watch"), p.startInto(ctx, &names, "list", "main", "-w", "-o", "name"),
	}
	p.Eventually(rows.String).Should(MatchRegexp(`^NAME +TYPE .*\na +QuorumAwareRollout +main +InProgress .*\nb +.* Succeeded .*\n$`))
	const kind = "etcdoperatortask.druid.gardener.cloud/"
	p.Eventually(names.String).Should(Equal(kind + "a\n" + kind + "b\n"))
	p.operate(task, v1alpha1.TaskStateSucceeded, "done")
	p.Eventually(rows.String).Should(MatchRegexp(`\na +QuorumAwareRollout +main +Succeeded [^\n]+\n$`))
	p.Expect(testEnv.Client.Delete(t.Context(), other)).To(Succeed())
	p.Eventually(rows.String).Should(MatchRegexp(`\nb +QuorumAwareRollout +main +Deleted [^\n]+\n$`))
	p.make("c", "")
	p.Eventually(rows.String).Should(MatchRegexp(`\nc +QuorumAwareRollout +main +Pending +- +- +1 +\d+s\n$`))
	p.Eventually(names.String).Should(Equal(kind + "a\n" + kind + "b\n" + kind + "a\n" + kind + "b\n" + kind + "c\n"))
	interrupt()
	for _, end := range ends {
		got := end()
		p.Expect(got.code).To(BeZero(), got.String())
	}
	p.kubeconfig = p.impersonating("unprivileged")
	got := p.run("list", "--watch")
	p.Expect(got.code).To(Equal(1), got.String())
	p.Expect(got.err).To(HavePrefix("error: not permitted: "))
}

// On a terminal, the three live views renew a page in place, and restore the terminal at the end.
func TestLiveViewsOnATerminal(t *testing.T) {
	p := newPerson(t)
	p.observed(metav1.ConditionTrue)
	task := p.make("a", v1alpha1.TaskStateInProgress)
	p.terminal = true
	ctx, interrupt := context.WithCancel(t.Context())
	var list, status, watch watched
	endOfWatch := p.startInto(ctx, &watch, "watch", "a")
	ends := []func() outcome{p.startInto(ctx, &list, "list", "-w"), p.startInto(ctx, &status, "status", "-w")}
	const up, restored = `\x1b\[\d+A\r`, "\x1b[?7h\x1b[?25h"
	p.Eventually(list.String).Should(MatchRegexp(`\na +QuorumAwareRollout +main +InProgress .*\n(?s:.*)` + up + "NAME"))
	p.Eventually(status.String).Should(MatchRegexp(`\nmain .*\n(?s:.*)` + up + "NAME"))
	p.Eventually(watch.String).Should(MatchRegexp(`QuorumAwareRollout of Etcd .*/main: InProgress, (?s:.*)` + up + "QuorumAwareRollout"))
	p.operate(task, v1alpha1.TaskStateSucceeded, "done")
	got := endOfWatch()
	p.Expect(got.code).To(BeZero(), got.String())
	p.Expect(got.out).To(MatchRegexp(`: \S*Succeeded\S*, (?s:.*)task a succeeded after .*: done\n$`))
	p.Expect(got.out).To(ContainSubstring(restored))
	p.Eventually(list.String).Should(MatchRegexp(`\na +QuorumAwareRollout +main +\S*Succeeded`))
	interrupt()
	for _, end := range ends {
		got := end()
		p.Expect(got.code).To(BeZero(), got.String())
		p.Expect(got.out).To(HaveSuffix(restored))
	}
}

func TestStatusWatch(t *testing.T) {
	p := newPerson(t)
	p.observed(metav1.ConditionTrue)
	ctx, interrupt := context.WithCancel(t.Context())
	var page, line watched
	ends := []func() outcome{p.startInto(ctx, &page, "status", "main", "--watch"), p.startInto(ctx, &line, "status", "-w")}
	p.Eventually(page.String).Should(ContainSubstring("No condition reports trouble."))
	p.Eventually(line.String).Should(MatchRegexp(`(?m)^main .* -$`))
	p.observed(metav1.ConditionFalse)
	p.Eventually(page.String).Should(ContainSubstring("AllMembersUpdated is False (Test)"))
	p.Eventually(line.String).Should(MatchRegexp(`(?m)^main .* AllMembersUpdated$`))
	p.Expect(testEnv.Client.Delete(t.Context(), p.Etcd)).To(Succeed())
	p.Eventually(page.String).Should(ContainSubstring(`This is not the newest state: there is no Etcd "main"`))
	interrupt()
	for _, end := range ends {
		got := end()
		p.Expect(got.code).To(BeZero(), got.String())
	}
	got := p.run("status", "main", "--watch")
	p.Expect(got.code).To(Equal(1), got.String())
}

// watched is an output that is read while it is written.
type watched struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.Write(b)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.String()
}
