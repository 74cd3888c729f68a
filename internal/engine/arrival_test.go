// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/queue"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// What can be known on arrival is said on arrival, also to a task that would have to wait.
func TestRejectedOnArrival(t *testing.T) {
	inNamespace := func(ns string) func(*v1alpha1.EtcdOperatorTask) {
		return func(task *v1alpha1.EtcdOperatorTask) { task.Spec.OwnerEtcdReference.Namespace = ns }
	}
	for name, c := range map[string]struct {
		change  func(*v1alpha1.EtcdOperatorTask)
		prepare func(*engine)
		code    v1alpha1.ErrorCode
		says    string
	}{
		"in the namespace of the Etcd":               {change: inNamespace("ns")},
		"in another namespace":                       {change: inNamespace("other"), code: v1alpha1.ErrCrossNamespace, says: `spec.ownerEtcdReference.namespace is "other": a task may only refer to an Etcd in its own namespace, ns`},
		"of an unknown type":                         {change: func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Type = "Dance" }, code: v1alpha1.ErrUnsupportedType, says: "spec.type Dance is not supported by this version of the operator"},
		"with a config that cannot be":               {prepare: func(e *engine) { e.undecodable = "b" }, code: v1alpha1.ErrInvalidConfig, says: "it cannot be decoded"},
		"for what another one does":                  {change: func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Config = "a" }, code: v1alpha1.ErrDuplicateTask, says: "task a, which was created earlier and has not ended, does the same work"},
		"though another one's config cannot be read": {prepare: func(e *engine) { e.undecodable = "a" }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.add(t, "a", running)
			if c.change == nil {
				c.change = func(*v1alpha1.EtcdOperatorTask) {}
			}
			s.add(t, "b", "", c.change)
			e := newEngine(t, s)
			if c.prepare != nil {
				c.prepare(e)
			}
			e.look()
			task := s.get(t, "b")
			if c.code == "" {
				e.Expect(task.Status.State).To(Equal(pending))
				e.Expect(task.Status.Progressing().Reason).To(Equal(v1alpha1.ReasonQueued))
				return
			}
			e.Expect(task.Status.State).To(Equal(v1alpha1.TaskStateRejected))
			e.Expect(task.Status.LastErrors).To(HaveLen(1))
			e.Expect(task.Status.LastErrors[0].Code).To(Equal(c.code))
			e.Expect(task.Status.LastErrors[0].Description).To(Equal(c.says))
			e.Expect(task.Status.ArrivalResourceVersion).NotTo(BeEmpty())
			e.Expect(e.cleaned).To(BeEmpty(), "it has not begun")
		})
	}
}

// Whatever there is to be done for an Etcd that is gone, it is not done. A task of none is rejected, and cleaned up after if it ran.
func TestWithoutAnEtcd(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", running)
	s.add(t, "b", "")
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: mainKey.Namespace, Name: mainKey.Name}}
	if err := s.tracker.Delete(t.Context(), etcd); err != nil {
		t.Fatal(err)
	}
	e := newEngine(t, s)
	e.look()
	for _, name := range []string{"a", "b"} {
		e.Expect(s.get(t, name).Status.LastErrors[0].Code).To(Equal(v1alpha1.ErrEtcdNotFound))
		e.Expect(s.get(t, name).Status.LastErrors[0].Description).To(Equal(`spec.ownerEtcdReference names Etcd "main", which does not exist in namespace ns`))
	}
	e.Expect(e.cleaned).To(Equal([]string{"a"}))
	e.Expect(e.admitted).To(BeEmpty())
	e.look()
	e.Expect(collected(e)).NotTo(BeEmpty(), "as long as there are tasks")
	for _, name := range []string{"a", "b"} {
		e.Expect(s.tracker.Delete(t.Context(), s.get(t, name))).To(Succeed())
	}
	e.look()
	e.Expect(collected(e)).To(BeEmpty())
	e.Expect(e.books.etcds).To(BeEmpty())
}

// An Etcd adopts its tasks, once each, and a task arrives before it is adopted: the adoption changes the resourceVersion.
func TestAdoption(t *testing.T) {
	orphan := func(task *v1alpha1.EtcdOperatorTask) {
		task.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}}
		task.Status.ArrivalResourceVersion = ""
	}
	s := newServer(t)
	s.add(t, "a", "", orphan)
	e := newEngine(t, s)
	created := s.get(t, "a").ResourceVersion
	e.look()
	task := s.get(t, "a")
	e.Expect(task.Status.ArrivalResourceVersion).To(Equal(created))
	e.Expect(task.Status.State).To(Equal(pending))
	e.Expect(task.OwnerReferences).To(HaveLen(2))
	e.Expect(task.OwnerReferences[1].UID).To(BeEquivalentTo("etcd"))
	e.look()
	e.Expect(e.state("a")).To(Equal(running))
	e.Expect(s.get(t, "a").OwnerReferences).To(HaveLen(2))

	// A task whose arrival cannot be written is not adopted.
	s = newServer(t)
	s.add(t, "a", "", orphan)
	s.beforeStatus = func() error { return errors.New("the API server is away") }
	e = newEngine(t, s)
	e.Expect(e.look()).To(Equal(firstPause))
	e.Expect(s.get(t, "a").OwnerReferences).To(HaveLen(1))
	s.beforeStatus, s.beforePatch = nil, errors.New("the API server is away")
	e.pass(firstPause)
	e.Expect(e.look()).To(Equal(2*firstPause), "nor does it run before it is")
	e.Expect(e.state("a")).To(Equal(pending))
}

// An adoption keeps all owners of a task, of which the cache has a few, and is refused for another task than the one that was judged.
func TestAdoptionKeepsTheOwners(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", pending, func(task *v1alpha1.EtcdOperatorTask) {
		task.OwnerReferences = nil
		for i := range 20 {
			task.OwnerReferences = append(task.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: types.UID(fmt.Sprint(i))})
		}
	})
	all := s.get(t, "a").OwnerReferences
	e := newEngine(t, s)
	changed := false
	e.Client = interceptor.NewClient(s.Client.(client.WithWatch), interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		err := c.List(ctx, list, options...)
		if tasks, ok := list.(*v1alpha1.EtcdOperatorTaskList); ok && len(tasks.Items) == 1 {
			tasks.Items[0].OwnerReferences = tasks.Items[0].OwnerReferences[:8]
			if !changed {
				s.change(t, "a", func(task *v1alpha1.EtcdOperatorTask) { task.Labels = map[string]string{"a": "b"} })
			}
			changed = true
		}
		return err
	}})
	e.look()
	e.Expect(s.get(t, "a").OwnerReferences).To(Equal(all), "it has changed since it was read")
	e.look()
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: mainKey.Name, UID: "etcd"}}
	e.Expect(s.get(t, "a").OwnerReferences).To(Equal(append(all, etcdtasks.Owner(etcd))))
}

// A task that is being deleted, and that a finalizer keeps, neither runs nor delays another task.
func TestTaskThatIsBeingDeleted(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", pending, func(task *v1alpha1.EtcdOperatorTask) { task.Finalizers = []string{"example.com/keep"} })
	s.add(t, "b", pending)
	s.deleteA(t)
	e := newEngine(t, s)
	e.look()
	e.Expect(e.admitted).To(Equal([]string{"b"}))
	e.Expect(e.state("a")).To(Equal(pending))
}

// A task that waits says for what, and since no event may come of that, it is said again when the line moves.
func TestWaiting(t *testing.T) {
	task := func(name string, at int, change ...func(*v1alpha1.EtcdOperatorTask)) *v1alpha1.EtcdOperatorTask {
		t := newTask()
		t.Name, t.UID, t.CreationTimestamp = name, types.UID(name), metav1.Time{Time: epoch.Add(time.Duration(at) * time.Second)}
		for _, c := range change {
			c(t)
		}
		return t
	}
	suspended := func(t *v1alpha1.EtcdOperatorTask) { t.Spec.Suspend = true }
	runs := func(t *v1alpha1.EtcdOperatorTask) { t.Status.State = running }
	recovers := func(t *v1alpha1.EtcdOperatorTask) { t.Spec.Type = v1alpha1.QuorumLossRecovery }
	a, c, d := task("a", 0, runs), task("c", 1), task("d", 2, suspended)
	q := queue.New([]*v1alpha1.EtcdOperatorTask{a, c, d, task("e", 3)})
	for name, tc := range map[string]struct {
		q    queue.Queue
		t    *v1alpha1.EtcdOperatorTask
		want string
	}{
		"second":                       {q, q[1], "Queued: number 2 in line, behind a"},
		"suspended":                    {q, d, "Suspended: spec.suspend is set: the task is not started"},
		"third":                        {q, q[3], "Queued: number 3 in line, behind a"},
		"behind one that is suspended": {queue.New([]*v1alpha1.EtcdOperatorTask{task("s", 0, runs, suspended), c}), c, "Queued: number 2 in line, behind s, which is suspended (spec.suspend) and keeps its place: resume it, or delete it to abort it"},
		"preempted":                    {queue.New([]*v1alpha1.EtcdOperatorTask{a, task("r", 9, recovers)}), a, "Preempted: r has preempted this task between two steps; this task continues when that one has ended"},
	} {
		reason, message := waiting(tc.q, tc.t)
		if got := reason + ": " + message; got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// A work key that cannot be determined is no duplicate, and no reason to run: it is tried again. It is determined once in a reconcile.
func TestWorkKeys(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", running)
	s.add(t, "b", "")
	s.add(t, "c", "")
	s.add(t, "d", "", func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Config = "c" })
	e := newEngine(t, s)
	e.look()
	e.Expect(e.keys).To(Equal(4))
	e.Expect(s.get(t, "d").Status.LastErrors[0].Description).To(HavePrefix("task c, which was created earlier"))
	e.noKey = "c"
	e.Expect(e.look()).To(Equal(firstPause), "its own")
	e.pass(firstPause)
	e.noKey = "a"
	e.Expect(e.look()).To(Equal(firstPause), "that of one before it")
	for _, name := range []string{"b", "c"} {
		e.Expect(e.state(name)).To(Equal(pending))
	}
}

// A type that supersedes others does so only with a config that can be decoded, and only those before it.
func TestSuperseding(t *testing.T) {
	recreate := func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Type = v1alpha1.RecreateRollout }
	for name, c := range map[string]struct {
		undecodable string
		first       bool
		supersedes  []v1alpha1.TaskType
		want        v1alpha1.TaskState
	}{
		"a later one":                    {"", false, []v1alpha1.TaskType{v1alpha1.OnDemandSnapshot}, v1alpha1.TaskStateRejected},
		"an earlier one does not":        {"", true, []v1alpha1.TaskType{v1alpha1.OnDemandSnapshot}, pending},
		"nor one of another type":        {"", false, []v1alpha1.TaskType{v1alpha1.CopyBackups}, running},
		"nor one that cannot be decoded": {"b", false, []v1alpha1.TaskType{v1alpha1.OnDemandSnapshot}, running},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			e := newEngine(t, s)
			e.Registry[v1alpha1.RecreateRollout] = tasks.Type{Handler: e.actor, Supersedes: c.supersedes}
			e.undecodable = c.undecodable
			if c.first {
				s.add(t, "b", pending, recreate)
			}
			s.add(t, "a", pending)
			if !c.first {
				s.add(t, "b", pending, recreate)
			}
			e.look()
			e.Expect(e.state("a")).To(Equal(c.want))
			if c.want == v1alpha1.TaskStateRejected {
				e.Expect(s.get(t, "a").Status.LastErrors[0]).To(HaveField("Code", v1alpha1.ErrSuperseded))
				e.Expect(s.get(t, "a").Status.LastErrors[0].Description).To(Equal("task b supersedes it"))
			}
		})
	}
}

// One that was created earlier, and suspended, supersedes what has begun since, once it begins itself: otherwise that would continue after it.
func TestSupersedingOnceItBegins(t *testing.T) {
	of := func(kind v1alpha1.TaskType, suspend bool) func(*v1alpha1.EtcdOperatorTask) {
		return func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Type, task.Spec.Suspend = kind, suspend }
	}
	s := newServer(t)
	e := newEngine(t, s)
	e.Registry[v1alpha1.Restore] = tasks.Type{Handler: e.actor}
	e.Registry[v1alpha1.QuorumLossRecovery] = tasks.Type{Handler: e.actor, Supersedes: []v1alpha1.TaskType{v1alpha1.Restore}}
	s.add(t, "recovery", pending, of(v1alpha1.QuorumLossRecovery, true))
	s.add(t, "restore", pending, of(v1alpha1.Restore, false))
	s.add(t, "next", pending, of(v1alpha1.Restore, false))
	e.look()
	e.Expect(e.state("restore")).To(Equal(running))
	s.change(t, "recovery", func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Suspend = false })
	e.look()
	e.look()
	e.Expect(e.state("restore")).To(Equal(v1alpha1.TaskStateRejected))
	e.look()
	e.Expect(e.state("recovery")).To(Equal(running))
	e.Expect(s.get(t, "restore").Status.LastErrors[0]).To(HaveField("Description", "task recovery supersedes it"))
	e.Expect(e.state("next")).To(Equal(pending), "it has not begun, and does so after the recovery if that is possible")
}

// recovers returns an engine with a Restore that runs and a QuorumLossRecovery that was created since, with its owner.
func recovers(t *testing.T) (*server, *engine) {
	t.Helper()
	s := newServer(t)
	e := newEngine(t, s)
	e.Registry[v1alpha1.Restore] = tasks.Type{Handler: e.actor}
	e.Registry[v1alpha1.QuorumLossRecovery] = tasks.Type{Handler: e.actor, Supersedes: []v1alpha1.TaskType{v1alpha1.Restore}}
	s.add(t, "a", running, func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Type = v1alpha1.Restore })
	s.add(t, "b", "", func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Type = v1alpha1.QuorumLossRecovery })
	return s, e
}

// A recovery that is rejected, or cannot be judged, has ended no task that runs.
func TestRejectedSupersedesNone(t *testing.T) {
	s, e := recovers(t)
	e.onAdmit = func() (tasks.Verdict, error) { return tasks.Verdict{}, errors.New("no member answers") }
	for range 3 {
		e.look()
		e.Expect(e.state("a")).To(Equal(running))
		e.Expect(e.state("b")).To(Equal(pending))
		e.pass(time.Hour)
	}
	e.onAdmit = func() (tasks.Verdict, error) {
		return tasks.Rejected(v1alpha1.ErrQuorumNotLost, "there is a quorum"), nil
	}
	e.look()
	e.Expect(e.state("b")).To(Equal(v1alpha1.TaskStateRejected))
	e.Expect(s.get(t, "b").Status.Conditions).To(ContainElement(And(HaveField("Type", v1alpha1.ConditionAdmitted), HaveField("Status", metav1.ConditionFalse))))
	e.look()
	e.Expect(e.state("a")).To(Equal(running))
	e.Expect(e.cleaned).To(BeEmpty())
	e.Expect(e.progress("a")).To(HaveSuffix("it waits"), "it continues")
}

// A task without a turn has a deadline as any other, and says what it waits for: while a recovery cannot be judged, clients are kept away.
func TestDeadlineWithoutATurn(t *testing.T) {
	for name, c := range map[string]struct {
		b    v1alpha1.TaskState
		says string
	}{
		"a recovery is judged": {"", "Preempted: b is being judged: this task ends if b is admitted, and continues otherwise. To continue now, suspend or delete b"},
		"it is preempted":      {running, "Preempted: b has preempted this task between two steps; this task continues when that one has ended"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			e := newEngine(t, s)
			of := v1alpha1.Restore
			if c.b == running {
				of = v1alpha1.OnDemandSnapshot
			}
			e.Registry[of] = tasks.Type{Handler: e.actor, Deadline: time.Hour}
			e.Registry[v1alpha1.QuorumLossRecovery] = tasks.Type{Handler: e.actor, Supersedes: []v1alpha1.TaskType{v1alpha1.Restore}}
			s.add(t, "a", running, func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Type = of })
			s.add(t, "b", c.b, func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Type = v1alpha1.QuorumLossRecovery })
			e.onAdmit = func() (tasks.Verdict, error) { return tasks.Verdict{}, errors.New("no member answers") }
			again := e.look()
			e.Expect(e.progress("a")).To(Equal(c.says))
			if c.b == running {
				e.Expect(again).To(Equal(time.Hour - time.Minute))
			}
			e.pass(time.Hour - time.Minute)
			e.look()
			e.Expect(e.progress("a")).To(Equal("Failed: ERR_DEADLINE_EXCEEDED: the task did not end within 1h0m0s"))
			e.Expect(e.cleaned).To(Equal([]string{"a"}))
		})
	}
}

// A recovery that was admitted does not run yet while what it supersedes does: another controller would act on both. Until then it supersedes
// nothing if it is withdrawn.
func TestAdmittedBeforeItSupersedes(t *testing.T) {
	for name, c := range map[string]struct {
		withdraw func(*testing.T, *server, *engine)
		a, b     v1alpha1.TaskState
	}{
		"it supersedes": {func(*testing.T, *server, *engine) {}, v1alpha1.TaskStateRejected, running},
		"it is suspended": {func(t *testing.T, s *server, _ *engine) {
			s.change(t, "b", func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Suspend = true })
		}, running, pending},
		"it is deleted": {func(t *testing.T, s *server, e *engine) {
			e.Expect(s.tracker.Delete(t.Context(), s.get(t, "b"))).To(Succeed())
		}, running, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, e := recovers(t)
			e.look()
			e.Expect(e.state("a")).To(Equal(running))
			e.Expect(e.state("b")).To(Equal(pending))
			e.Expect(s.get(t, "b").Status.Conditions).To(ContainElement(And(HaveField("Type", v1alpha1.ConditionAdmitted), HaveField("Status", metav1.ConditionTrue))))
			e.Expect(e.progress("b")).To(Equal("Queued: it begins once task a, which it supersedes, has ended"))
			c.withdraw(t, s, e)
			for range 3 {
				e.look()
			}
			e.Expect(e.state("a")).To(Equal(c.a))
			if c.b != "" {
				e.Expect(e.state("b")).To(Equal(c.b))
			}
			if c.a == running {
				e.Expect(e.cleaned).To(BeEmpty())
			}
		})
	}
}

// What the cache does not show yet is superseded, too: the recovery does not begin beside it.
func TestSupersedesWhatTheCacheLacks(t *testing.T) {
	s, e := recovers(t)
	e.Client = lagging{Client: s.Client, cache: storage(t, s.get(t, "b"))}
	e.look()
	e.Expect(e.state("b")).To(Equal(pending))
	e.Expect(e.progress("b")).To(Equal("Queued: it begins once task a, which it supersedes, has ended"))
}

// What is superseded has ended before the other begins: if its cleanup fails until that has ended, it would continue.
func TestSupersededEndsFirst(t *testing.T) {
	s := newServer(t)
	e := newEngine(t, s)
	e.Registry[v1alpha1.Restore] = tasks.Type{Handler: e.actor}
	e.Registry[v1alpha1.QuorumLossRecovery] = tasks.Type{Handler: e.actor, Supersedes: []v1alpha1.TaskType{v1alpha1.Restore}}
	s.add(t, "restore", pending, func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Type = v1alpha1.Restore })
	e.look()
	e.Expect(e.state("restore")).To(Equal(running))
	e.cleanUp = func() error { return errors.New("refused") }
	s.add(t, "recovery", pending, func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Type = v1alpha1.QuorumLossRecovery })
	for range 3 {
		e.pass(time.Minute)
		e.look()
		e.Expect(e.state("restore")).To(Equal(running))
		e.Expect(e.state("recovery")).To(Equal(pending))
	}
	e.Expect(s.get(t, "recovery").Status.Progressing().Message).To(Equal("it begins once task restore, which it supersedes, has ended"))
	e.cleanUp = nil
	e.pass(time.Hour)
	e.look()
	e.Expect(e.state("restore")).To(Equal(v1alpha1.TaskStateRejected))
	e.look()
	e.Expect(e.state("recovery")).To(Equal(running))
}

// A recovery is judged until it begins. If there is a quorum again before what it supersedes has ended, that continues.
func TestJudgedUntilItBegins(t *testing.T) {
	for name, c := range map[string]struct {
		verdict tasks.Verdict
		err     error
		b       v1alpha1.TaskState
	}{
		"there is a quorum again": {tasks.Rejected(v1alpha1.ErrQuorumNotLost, "there is a quorum"), nil, v1alpha1.TaskStateRejected},
		"no member can be asked":  {tasks.Verdict{}, errors.New("the API server is away"), pending},
	} {
		t.Run(name, func(t *testing.T) {
			s, e := recovers(t)
			e.cleanUp = func() error { return errors.New("refused") }
			e.Expect(e.look()).To(Equal(retryInterval), "it is judged again soon, also if the other is retried later")
			e.look()
			e.Expect(s.get(t, "a").Status.LastErrors).To(ContainElement(HaveField("Description", "refused")))
			e.onAdmit = func() (tasks.Verdict, error) { return c.verdict, c.err }
			e.look()
			e.cleanUp = nil
			for range 3 {
				e.pass(time.Minute)
				e.look()
				e.Expect(e.state("a")).To(Equal(running))
				e.Expect(e.state("b")).To(Equal(c.b))
			}
		})
	}
}

// A recovery that has changed since it was admitted supersedes nothing before it is judged again.
func TestAdmittedAsItWas(t *testing.T) {
	s, e := recovers(t)
	e.look()
	s.change(t, "b", func(task *v1alpha1.EtcdOperatorTask) { task.Generation++ })
	e.Expect(s.get(t, "b").Generation).To(BeNumerically(">", 0))
	e.look()
	e.Expect(e.state("a")).To(Equal(running))
	e.look()
	e.Expect(e.state("a")).To(Equal(v1alpha1.TaskStateRejected))
}

// What cannot be read is no reason to do anything.
func TestReadsThatFail(t *testing.T) {
	away := errors.New("the API server is away")
	for name, c := range map[string]struct {
		cached, live reads
		returned     bool
	}{
		"the list":                  {reads{list: away}, reads{}, true},
		"the Etcd":                  {reads{etcd: away}, reads{}, true},
		"the list, at admission":    {reads{}, reads{list: away}, false},
		"the Etcd, at admission":    {reads{}, reads{etcd: away}, false},
		"the Etcd, before adoption": {reads{}, reads{etcd: away}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.add(t, "a", pending, func(task *v1alpha1.EtcdOperatorTask) {
				if name == "the Etcd, before adoption" {
					task.OwnerReferences = nil
				}
			})
			e := newEngine(t, s)
			c.cached.Client, c.live.Client = e.Client, s.tracker
			e.Client, e.Live = c.cached, c.live
			result, err := e.Reconcile(t.Context(), ctrl.Request{NamespacedName: mainKey})
			if c.returned || name == "the Etcd, before adoption" {
				e.Expect(err).To(MatchError(away))
			} else {
				e.Expect(err).NotTo(HaveOccurred())
				e.Expect(result.RequeueAfter).To(Equal(firstPause))
				e.Expect(e.progress("a")).To(HavePrefix("Retrying: "))
			}
			e.Expect(e.admitted).To(BeEmpty())
			e.Expect(e.state("a")).To(Equal(pending))
		})
	}
}

// reads is a client some of whose reads fail.
type reads struct {
	client.Client
	list, etcd error
}

func (r reads) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	if r.list != nil {
		return r.list
	}
	return r.Client.List(ctx, into, options...)
}

func (r reads) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if _, ok := into.(*v1alpha1.Etcd); ok && r.etcd != nil {
		return r.etcd
	}
	return r.Client.Get(ctx, key, into, options...)
}
