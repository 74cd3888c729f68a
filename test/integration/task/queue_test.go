// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/taskconfig"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func budget(namespace string, minAvailable int) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt(minAvailable)),
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelPartOf: name}},
		},
	}
}

// gate is a handler whose tasks run until they are let go.
type gate struct {
	mu   sync.Mutex
	open map[string]bool
	// reasons are those of tasks that do not just wait.
	reasons map[string]string
	// outdated are the tasks that are superseded when they arrive.
	outdated []string
	started  []string
	// looks are the calls of Execute.
	looks   int
	cleaned []string
}

// noted is the config of its tasks.
type noted struct {
	Note string `json:"note,omitempty"`
}

func (*noted) Default()        {}
func (*noted) Validate() error { return nil }

func (g *gate) Decode(config string) (any, error) {
	return taskconfig.Decode[noted](config)
}
func (g *gate) Recorded(string) (any, error) { return nil, nil }
func (g *gate) WorkKey(_ context.Context, task tasks.Task) (string, error) {
	return task.Object.Spec.Config, nil
}
func (g *gate) Superseded(_ context.Context, task tasks.Task) (string, error) {
	if slices.Contains(g.outdated, task.Object.Name) {
		return "it is too late for " + task.Object.Name, nil
	}
	return "", nil
}
func (g *gate) Admit(_ context.Context, task tasks.Task) (tasks.Verdict, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.started = append(g.started, task.Object.Name)
	return tasks.Verdict{Outcome: tasks.Continue}, nil
}
func (g *gate) Execute(_ context.Context, task tasks.Task) (tasks.Verdict, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.looks++
	if g.open[task.Object.Name] {
		return tasks.Verdict{Outcome: tasks.Done, Message: "let go"}, nil
	}
	return tasks.Verdict{Outcome: tasks.Continue, Reason: cmp.Or(g.reasons[task.Object.Name], "Waiting"), Message: "not let go", RequeueAfter: 20 * time.Millisecond}, nil
}
func (g *gate) Perform(context.Context, tasks.Task, tasks.Step) error { return nil }
func (g *gate) Cleanup(_ context.Context, task tasks.Task) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cleaned = append(g.cleaned, task.Object.Name)
	return nil
}

func (g *gate) letGo(names ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, n := range names {
		g.open[n] = true
	}
}

// order is that of the admissions. One whose write fails, as the cache was behind, is repeated.
func (g *gate) order() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Compact(slices.Clone(g.started))
}

func (g *gate) cleanedUp() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.cleaned...)
}

func gated() (*gate, tasks.Registry) {
	g := &gate{open: map[string]bool{}}
	return g, tasks.Registry{v1alpha1.OnDemandSnapshot: {Handler: g}}
}

func TestTasksOfTheSameSecondRunInOrderOfCreation(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	g, registry := gated()
	// Names in no order; all of them are there before the operator is.
	names := []string{"d", "b", "e", "a", "c"}
	for _, n := range names {
		c.CreateTask(n, v1alpha1.OnDemandSnapshot, "note: "+n)
	}
	c.start(registry)
	c.UntilTask("d", v1alpha1.TaskStateInProgress)
	c.Eventually(func(g Gomega) {
		queued := meta.FindStatusCondition(c.Task(g, "e").Status.Conditions, v1alpha1.ConditionProgressing)
		g.Expect(queued).NotTo(BeNil())
		g.Expect(queued.Message).To(Equal("number 3 in line, behind d"))
	}).Should(Succeed())
	g.letGo(names...)
	for _, n := range names {
		c.UntilTask(n, v1alpha1.TaskStateSucceeded)
	}
	c.Expect(g.order()).To(Equal(names))
}

func TestSuspendedPendingTaskBlocksNobody(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	g, registry := gated()
	first := c.NewTask("first", v1alpha1.OnDemandSnapshot, "note: first")
	first.Spec.Suspend = true
	c.Create(first)
	c.CreateTask("second", v1alpha1.OnDemandSnapshot, "note: second")
	c.start(registry)
	g.letGo("first", "second")
	c.UntilTask("second", v1alpha1.TaskStateSucceeded)
	c.Expect(c.Task(c, "first").Status.State).To(Equal(v1alpha1.TaskStatePending))
}

func TestDeletionAbortsAndTheNextRuns(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	g, registry := gated()
	c.CreateTask("first", v1alpha1.OnDemandSnapshot, "note: first")
	c.CreateTask("second", v1alpha1.OnDemandSnapshot, "note: second")
	c.start(registry)
	first := c.UntilTask("first", v1alpha1.TaskStateInProgress)
	c.Expect(testEnv.Client.Delete(t.Context(), first)).To(Succeed())
	c.UntilTask("second", v1alpha1.TaskStateInProgress)
	c.Expect(g.cleanedUp()).To(Equal([]string{"first"}))
	g.letGo("second")
}

func TestRecoveryPassesWhateverRuns(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	g, registry := gated()
	registry[v1alpha1.QuorumLossRecovery] = tasks.Type{Handler: g}
	c.CreateTask("snapshot", v1alpha1.OnDemandSnapshot, "")
	c.start(registry)
	c.UntilTask("snapshot", v1alpha1.TaskStateInProgress)
	c.CreateTask("recovery", v1alpha1.QuorumLossRecovery, "")
	recovery := c.UntilTask("recovery", v1alpha1.TaskStateInProgress)
	c.Expect(meta.FindStatusCondition(recovery.Status.Conditions, v1alpha1.ConditionAdmitted).Message).To(ContainSubstring("preempts snapshot"))
	// It would end if it were carried on.
	g.letGo("snapshot")
	c.Eventually(func(g Gomega) {
		passed := c.Task(g, "snapshot")
		g.Expect(passed.Status.State).To(Equal(v1alpha1.TaskStateInProgress))
		g.Expect(meta.FindStatusCondition(passed.Status.Conditions, v1alpha1.ConditionProgressing).Reason).To(Equal(v1alpha1.ReasonPreempted))
	}).Should(Succeed())
	g.letGo("recovery")
	c.UntilTask("recovery", v1alpha1.TaskStateSucceeded)
	c.UntilTask("snapshot", v1alpha1.TaskStateSucceeded)
}

func TestDeletedTasksThatRanBesideEachOtherAreCleanedUpAfter(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	g, registry := gated()
	registry[v1alpha1.QuorumLossRecovery] = tasks.Type{Handler: g}
	c.CreateTask("snapshot", v1alpha1.OnDemandSnapshot, "")
	c.start(registry)
	snapshot := c.UntilTask("snapshot", v1alpha1.TaskStateInProgress)
	c.CreateTask("recovery", v1alpha1.QuorumLossRecovery, "")
	recovery := c.UntilTask("recovery", v1alpha1.TaskStateInProgress)
	c.Expect(testEnv.Client.Delete(t.Context(), snapshot)).To(Succeed())
	c.Expect(testEnv.Client.Delete(t.Context(), recovery)).To(Succeed())
	c.Eventually(g.cleanedUp).Should(ConsistOf("snapshot", "recovery"))
}

func TestSnapshotRunsBesideAStalledRollout(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	g, registry := gated()
	g.reasons = map[string]string{"rollout": v1alpha1.ReasonStalled}
	registry[v1alpha1.QuorumAwareRollout] = tasks.Type{Handler: g}
	registry[v1alpha1.OnDemandMaintenance] = tasks.Type{Handler: g}
	c.CreateTask("rollout", v1alpha1.QuorumAwareRollout, "")
	c.CreateTask("maintenance", v1alpha1.OnDemandMaintenance, "")
	c.CreateTask("snapshot", v1alpha1.OnDemandSnapshot, "")
	c.start(registry)
	snapshot := c.UntilTask("snapshot", v1alpha1.TaskStateInProgress)
	c.Expect(meta.FindStatusCondition(snapshot.Status.Conditions, v1alpha1.ConditionAdmitted).Message).To(ContainSubstring("beside rollout, which is stalled"))
	g.letGo("snapshot", "maintenance")
	c.UntilTask("snapshot", v1alpha1.TaskStateSucceeded)
	c.Expect(c.Task(c, "rollout").Status.State).To(Equal(v1alpha1.TaskStateInProgress))
	c.Expect(c.Task(c, "maintenance").Status.State).To(Equal(v1alpha1.TaskStatePending))
	g.letGo("rollout")
	c.UntilTask("maintenance", v1alpha1.TaskStateSucceeded)
	c.Expect(g.order()).To(Equal([]string{"rollout", "snapshot", "maintenance"}))
}

// A task that is itself rejected when it arrives ends none that it would supersede, and a rollout that somebody stopped
// stays stopped.
func TestTaskThatIsRejectedSupersedesNobody(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	g, registry := gated()
	g.outdated = []string{"late"}
	registry[v1alpha1.QuorumAwareRollout] = tasks.Type{Handler: g}
	registry[v1alpha1.RecreateRollout] = tasks.Type{Handler: g, Supersedes: []v1alpha1.TaskType{v1alpha1.QuorumAwareRollout}}
	c.CreateTask("rollout", v1alpha1.QuorumAwareRollout, "")
	c.start(registry)
	rollout := c.UntilTask("rollout", v1alpha1.TaskStateInProgress)
	patch := client.MergeFrom(rollout.DeepCopy())
	rollout.Spec.Suspend = true
	c.Expect(testEnv.Client.Patch(t.Context(), rollout, patch)).To(Succeed())
	c.CreateTask("late", v1alpha1.RecreateRollout, "")
	c.UntilTask("late", v1alpha1.TaskStateRejected)
	c.CreateTask("after", v1alpha1.OnDemandSnapshot, "")
	c.UntilTask("after", v1alpha1.TaskStateInProgress)
	c.Expect(c.Task(c, "rollout").Status.State).To(Equal(v1alpha1.TaskStateInProgress))
	c.CreateTask("recreate", v1alpha1.RecreateRollout, "")
	c.UntilTask("rollout", v1alpha1.TaskStateRejected)
}

// Nobody wakes a task that is suspended when its time is up.
func TestDeadlineOfASuspendedTask(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	g, _ := gated()
	c.CreateTask("slow", v1alpha1.OnDemandSnapshot, "")
	c.start(tasks.Registry{v1alpha1.OnDemandSnapshot: {Handler: g, Deadline: machine.Scaled(3 * time.Second)}})
	slow := c.UntilTask("slow", v1alpha1.TaskStateInProgress)
	patch := client.MergeFrom(slow.DeepCopy())
	slow.Spec.Suspend = true
	c.Expect(testEnv.Client.Patch(t.Context(), slow, patch)).To(Succeed())
	failed := c.UntilTask("slow", v1alpha1.TaskStateFailed)
	c.Expect(failed.Status.LastErrors[0].Code).To(Equal(v1alpha1.ErrDeadlineExceeded))
}

// A task that has expired and cannot be deleted keeps no other from running, nor from being looked at as often as it
// wants.
func TestErrorOfOneTaskDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	g, registry := gated()
	g.letGo("gone")
	refused := make(chan struct{}, 100)
	refuse := testEnv.Through(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodDelete {
			refused <- struct{}{}
			return nil, errors.New("a webhook is away")
		}
		return next.RoundTrip(r)
	})
	gone := c.NewTask("gone", v1alpha1.OnDemandSnapshot, "note: gone")
	gone.Spec.TTLSecondsAfterFinished = ptr.To(int32(0))
	c.Create(gone)
	c.startWith(refuse, registry)
	c.UntilTask("gone", v1alpha1.TaskStateSucceeded)
	c.CreateTask("next", v1alpha1.OnDemandSnapshot, "note: next")
	c.UntilTask("next", v1alpha1.TaskStateInProgress)
	for range 5 {
		<-refused
	}
	g.mu.Lock()
	looks := g.looks
	g.mu.Unlock()
	c.Eventually(func() int { g.mu.Lock(); defer g.mu.Unlock(); return g.looks }).WithTimeout(machine.Scaled(5*time.Second)).Should(BeNumerically(">", looks+20), "it is polled every 20 ms")
	g.letGo("next")
	c.UntilTask("next", v1alpha1.TaskStateSucceeded)
	c.UntilTask("gone", v1alpha1.TaskStateSucceeded)
}

// clumsy is a handler whose first step fails.
type clumsy struct {
	gate
	tried []time.Time
}

func (h *clumsy) Execute(context.Context, tasks.Task) (tasks.Verdict, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.tried) == 2 {
		return tasks.Verdict{Outcome: tasks.Done, Message: "carried out"}, nil
	}
	return tasks.Verdict{Outcome: tasks.Continue, Step: &tasks.Step{Operation: "Try", Reason: fmt.Sprintf("step %d", len(h.tried)+1), RecheckAfter: 20 * time.Millisecond}}, nil
}

func (h *clumsy) Perform(context.Context, tasks.Task, tasks.Step) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tried = append(h.tried, time.Now()); len(h.tried) == 1 {
		return errors.New("it slipped")
	}
	return nil
}

func TestStepThatFailsIsToldOfAsAFailure(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	h := &clumsy{}
	c.start(tasks.Registry{v1alpha1.OnDemandSnapshot: {Handler: h}})
	c.CreateTask("clumsy", v1alpha1.OnDemandSnapshot, "")
	done := c.UntilTask("clumsy", v1alpha1.TaskStateSucceeded)
	c.Expect(done.Status.LastErrors).To(HaveLen(1))
	c.Expect(done.Status.LastErrors[0].Description).To(Equal("it slipped"))
	c.Eventually(c.tried).Should(ConsistOf("Warning: it slipped", "Normal: step 2"))
	c.Expect(h.tried[1].Sub(h.tried[0])).To(BeNumerically(">=", time.Second), "the record of the failure does not wake it")
}

// tried are the events of steps, each with its type.
func (c *cluster) tried(g Gomega) []string {
	events := &eventsv1.EventList{}
	g.Expect(testEnv.Client.List(c.T.Context(), events, client.InNamespace(c.Namespace))).To(Succeed())
	var tried []string
	for _, e := range events.Items {
		if e.Reason == "Try" {
			tried = append(tried, e.Type+": "+e.Note)
		}
	}
	return tried
}

func TestTimeToLive(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	g, registry := gated()
	g.letGo("gone", "kept")
	gone := c.NewTask("gone", v1alpha1.OnDemandSnapshot, "note: gone")
	gone.Spec.TTLSecondsAfterFinished = ptr.To(int32(1))
	c.Create(gone)
	c.CreateTask("kept", v1alpha1.OnDemandSnapshot, "note: kept")
	c.start(registry)
	c.Eventually(func() bool {
		return apierrors.IsNotFound(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(gone), gone))
	}).Should(BeTrue())
	kept := c.UntilTask("kept", v1alpha1.TaskStateSucceeded)
	c.Expect(*kept.Spec.TTLSecondsAfterFinished).To(Equal(v1alpha1.DefaultTTLSecondsAfterFinished))
}

func TestTasksThatAreRejected(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	g, registry := gated()
	elsewhere := c.NewTask("elsewhere", v1alpha1.QuorumAwareRollout, "")
	elsewhere.Spec.OwnerEtcdReference.Name = "nobody"
	cases := map[*v1alpha1.EtcdOperatorTask]struct {
		code v1alpha1.ErrorCode
		says string
	}{
		elsewhere: {v1alpha1.ErrEtcdNotFound, "nobody"},
		c.NewTask("unknown-field", v1alpha1.QuorumAwareRollout, "restrat: true"):               {v1alpha1.ErrInvalidConfig, `"restrat"`},
		c.NewTask("twice", v1alpha1.QuorumAwareRollout, "restart: true\nrestart: false"):       {v1alpha1.ErrInvalidConfig, `"restart"`},
		c.NewTask("alias", v1alpha1.QuorumAwareRollout, "a: &x [1]\nb: [*x, *x]"):              {v1alpha1.ErrInvalidConfig, "aliases"},
		c.NewTask("no-yaml", v1alpha1.QuorumAwareRollout, "{{"):                                {v1alpha1.ErrInvalidConfig, "not valid YAML"},
		c.NewTask("wrong-kind", v1alpha1.QuorumAwareRollout, "restart: maybe"):                 {v1alpha1.ErrInvalidConfig, "restart"},
		c.NewTask("negative", v1alpha1.QuorumAwareRollout, "unreadyGracePeriod: -1s"):          {v1alpha1.ErrInvalidConfig, "unreadyGracePeriod"},
		c.NewTask("other-revision", v1alpha1.QuorumAwareRollout, "targetRevision: main-12345"): {v1alpha1.ErrSuperseded, "main-12345"},
	}
	for task := range cases {
		c.Create(task)
	}
	c.start(registry)
	for task, want := range cases {
		rejected := c.UntilTask(task.Name, v1alpha1.TaskStateRejected)
		c.Expect(rejected.Status.LastErrors).To(HaveLen(1), task.Name)
		c.Expect(rejected.Status.LastErrors[0].Code).To(Equal(want.code), task.Name)
		c.Expect(rejected.Status.LastErrors[0].Description).To(ContainSubstring(want.says), task.Name)
		c.Expect(meta.IsStatusConditionFalse(rejected.Status.Conditions, v1alpha1.ConditionSucceeded)).To(BeTrue())
		t.Logf("%s: %s", task.Name, rejected.Status.LastErrors[0].Description)
	}
	c.CreateTask("one", v1alpha1.OnDemandSnapshot, "note: same")
	c.UntilTask("one", v1alpha1.TaskStateInProgress)
	c.CreateTask("again", v1alpha1.OnDemandSnapshot, "note: same")
	again := c.UntilTask("again", v1alpha1.TaskStateRejected)
	c.Expect(again.Status.LastErrors[0].Code).To(Equal(v1alpha1.ErrDuplicateTask))
	c.Expect(again.Status.LastErrors[0].Description).To(ContainSubstring("task one"))
	g.letGo("one")
}

func TestEtcdWithoutStatefulSet(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.Create(&v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: "bare"}, Spec: v1alpha1.EtcdSpec{Replicas: 1}})
	c.start(nil)
	task := c.NewTask("roll", v1alpha1.QuorumAwareRollout, "")
	task.Spec.OwnerEtcdReference.Name = "bare"
	c.Create(task)
	rejected := c.UntilTask("roll", v1alpha1.TaskStateRejected)
	c.Expect(rejected.Status.LastErrors[0].Code).To(Equal(v1alpha1.ErrStatefulSetNotFound))
}

func TestWhatTheAPIServerRefuses(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	refused := func(says string, change func(*v1alpha1.EtcdOperatorTask)) {
		t.Helper()
		task := c.NewTask("refused", v1alpha1.QuorumAwareRollout, "")
		change(task)
		err := testEnv.Client.Create(t.Context(), task)
		c.Expect(apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsRequestEntityTooLargeError(err)).To(BeTrue(), fmt.Sprint(err))
		c.Expect(err.Error()).To(ContainSubstring(says))
		t.Log(err)
	}
	refused("spec.type", func(t *v1alpha1.EtcdOperatorTask) { t.Spec.Type = "Nothing" })
	refused("spec.ttlSecondsAfterFinished", func(t *v1alpha1.EtcdOperatorTask) { t.Spec.TTLSecondsAfterFinished = ptr.To(int32(-1)) })
	refused("spec.config", func(t *v1alpha1.EtcdOperatorTask) { t.Spec.Config = strings.Repeat("a", 1<<20) })
	refused("namespace", func(t *v1alpha1.EtcdOperatorTask) { t.Spec.OwnerEtcdReference.Namespace = "kube-system" })
	refused("overrideGuards", func(t *v1alpha1.EtcdOperatorTask) {
		t.Spec.OverrideGuards = []v1alpha1.OverridableGuard{v1alpha1.OverridableGuard(v1alpha1.GuardQuorumKept)}
	})

	fixed := c.NewTask("fixed", v1alpha1.QuorumAwareRollout, "")
	c.Create(fixed)
	for _, change := range []func(){
		func() { fixed.Spec.Type = v1alpha1.RecreateRollout },
		func() { fixed.Spec.Config = "restart: true" },
		func() { fixed.Spec.OwnerEtcdReference.Name = "other" },
	} {
		fixed = c.Task(c, "fixed")
		change()
		err := testEnv.Client.Update(t.Context(), fixed)
		c.Expect(apierrors.IsInvalid(err)).To(BeTrue(), fmt.Sprint(err))
		c.Expect(err.Error()).To(ContainSubstring("immutable"))
	}
}
