// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/status"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// pod creates a pod of a cluster, which has run since a time.
func (w *world) pod(since time.Time) *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespaceOf(0), Name: "main-0", UID: "pod", Labels: map[string]string{v1alpha1.LabelPartOf: "main"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "main", UID: "set", Controller: ptr.To(true)}},
	}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: v1alpha1.ContainerEtcd, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Time{Time: since}}}}}
	if err := w.api.Create(w.t.Context(), pod); err != nil {
		w.t.Fatal(err)
	}
	return pod
}

// etcd changes an Etcd.
func (w *world) etcd(change func(*v1alpha1.Etcd)) {
	w.t.Helper()
	etcd := &v1alpha1.Etcd{}
	if err := w.api.Get(w.t.Context(), types.NamespacedName{Namespace: namespaceOf(0), Name: "main"}, etcd); err != nil {
		w.t.Fatal(err)
	}
	change(etcd)
	if err := w.api.Status().Update(w.t.Context(), etcd.DeepCopy()); err != nil {
		w.t.Fatal(err)
	}
}

// readPod reads the pod of the first cluster.
func (w *world) readPod() *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{}
	if err := w.api.Get(w.t.Context(), types.NamespacedName{Namespace: namespaceOf(0), Name: "main-0"}, pod); err != nil {
		w.t.Fatal(err)
	}
	return pod
}

// unready has the etcd of the pod not be ready.
func (w *world) unready() {
	w.t.Helper()
	pod := w.readPod()
	pod.Status.ContainerStatuses[0].Ready = false
	if err := w.api.Status().Update(w.t.Context(), pod); err != nil {
		w.t.Fatal(err)
	}
}

func set(condition string, status metav1.ConditionStatus) func(*v1alpha1.Etcd) {
	return func(e *v1alpha1.Etcd) {
		e.Status.Conditions.Set(metav1.Condition{Type: condition, Status: status, Reason: "R", Message: "because"})
	}
}

// raise has an alarm be raised, by the reason of the condition; none if it is empty.
func raise(reason string) func(*v1alpha1.Etcd) {
	return func(e *v1alpha1.Etcd) {
		e.Status.Conditions.Remove(v1alpha1.ConditionAlarmRaised)
		if reason != "" {
			e.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionAlarmRaised, Status: metav1.ConditionTrue, Reason: reason, Message: "because of " + reason})
		}
	}
}

// watching returns an operator that watches a canary for ten minutes, whose task has just succeeded.
func watching(t *testing.T) (*world, *operator) {
	t.Helper()
	w := newWorld(t, 1, 1)
	policy := &v1alpha1.EtcdFleetPolicy{}
	if err := w.api.Get(t.Context(), types.NamespacedName{Name: "all"}, policy); err != nil {
		t.Fatal(err)
	}
	policy.Spec.Soak = &metav1.Duration{Duration: 10 * time.Minute}
	policy.Spec.Canary.Count = ptr.To(int32(1))
	if err := w.api.Update(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	w.pod(w.clock.Now())
	o := w.operator()
	if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool {
		l.Grant(fleet.Holder{Task: "task0", TaskName: "task", Namespace: "ns0", Etcd: "etcd0", EtcdName: "main", Policies: []string{"all"}, Change: "A", Canary: true, Granted: w.clock.Now()})
		l.Succeeded("task0", w.clock.Now())
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return w, o
}

// pass looks at the fleet for a while.
func (o *operator) pass(d time.Duration) {
	o.world.t.Helper()
	for range int(d / interval) {
		o.world.clock.Step(interval)
		if _, err := o.Reconcile(o.world.t.Context(), ctrl.Request{}); err != nil {
			o.world.t.Fatal(err)
		}
	}
}

// outcome is what has become of the change.
func (o *operator) outcome() string {
	o.world.t.Helper()
	l, err := o.Store.Read(o.world.t.Context())
	if err != nil {
		o.world.t.Fatal(err)
	}
	c := l.Change("all", "A")
	switch {
	case c.Done == 1:
		return "done"
	case len(c.Failures) == 1:
		return c.Failures[0].Reason
	case len(l.Holders) == 1:
		return "watched"
	}
	return "neither"
}

// Backups that failed while the task ran, and not before, are a failure of the change, unless they work within a minute of its end.
func TestBackupsThatBeganToFailWhileTheTaskRan(t *testing.T) {
	for name, c := range map[string]struct {
		before, after metav1.ConditionStatus
		want          string
	}{
		"they fail since":           {metav1.ConditionTrue, metav1.ConditionFalse, "while it was watched: BackupReady is False: because"},
		"there were none before":    {"", metav1.ConditionFalse, "while it was watched: BackupReady is False: because"},
		"they have always failed":   {metav1.ConditionFalse, metav1.ConditionFalse, "done"},
		"they work within a minute": {metav1.ConditionTrue, metav1.ConditionTrue, "done"},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := watching(t)
			if c.before != "" {
				w.etcd(set(v1alpha1.ConditionBackupReady, c.before))
			}
			if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool { l.Holders = nil; return true }); err != nil {
				t.Fatal(err)
			}
			o.pass(interval)
			w.mayStart(o.ask(0))
			if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool {
				l.Holders[0].Change, l.Holders[0].Canary = "A", true
				l.Succeeded("task0", w.clock.Now())
				return true
			}); err != nil {
				t.Fatal(err)
			}
			w.etcd(set(v1alpha1.ConditionBackupReady, metav1.ConditionFalse))
			if o.pass(30 * time.Second); o.outcome() != "watched" {
				t.Errorf("%q before its time", o.outcome())
			}
			w.etcd(set(v1alpha1.ConditionBackupReady, c.after))
			if o.pass(11 * time.Minute); o.outcome() != c.want {
				t.Errorf("%q, want %q", o.outcome(), c.want)
			}
		})
	}
}

// An alarm is a failure of the change if it is new: none of its kind was raised when the cluster began to be watched, and until then, when the
// task got the slot. One that a task has raised may go within a minute of its end.
func TestAlarmsThatAreNew(t *testing.T) {
	const none, noSpace, corrupt, other = "", v1alpha1.ReasonAlarmNoSpace, v1alpha1.ReasonAlarmCorrupt, v1alpha1.ReasonAlarmUnknown
	for name, c := range map[string]struct {
		// before the task got its slot, when it ends, half a minute later, and half of the soak later.
		before, ends, after, watched string
		want                         string
	}{
		"none":                           {none, none, none, none, "done"},
		"the task has raised it":         {none, noSpace, noSpace, noSpace, "while it was watched: because of NoSpace"},
		"and it was disarmed":            {none, noSpace, none, none, "done"},
		"it is raised while watched":     {none, none, none, noSpace, "while it was watched: because of NoSpace"},
		"it was there before":            {noSpace, noSpace, noSpace, noSpace, "done"},
		"and was disarmed":               {noSpace, noSpace, noSpace, none, "done"},
		"or was, and is raised again":    {noSpace, none, none, noSpace, "while it was watched: because of NoSpace"},
		"another kind":                   {noSpace, noSpace, noSpace, corrupt, "while it was watched: because of Corrupt"},
		"another kind, by the task":      {noSpace, corrupt, corrupt, corrupt, "while it was watched: because of Corrupt"},
		"a kind that is not known":       {none, none, none, other, "while it was watched: because of UnknownAlarm"},
		"one that CORRUPT may have hid":  {corrupt, noSpace, noSpace, noSpace, "done"},
		"and does while it is watched":   {corrupt, corrupt, corrupt, noSpace, "done"},
		"none is left, and then NOSPACE": {corrupt, none, none, noSpace, "while it was watched: because of NoSpace"},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := watching(t)
			w.etcd(raise(c.before))
			if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool { l.Holders = nil; return true }); err != nil {
				t.Fatal(err)
			}
			o.pass(interval)
			w.mayStart(o.ask(0))
			if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool {
				l.Holders[0].Change, l.Holders[0].Canary = "A", true
				l.Succeeded("task0", w.clock.Now())
				return true
			}); err != nil {
				t.Fatal(err)
			}
			w.etcd(raise(c.ends))
			if o.pass(30 * time.Second); o.outcome() != "watched" {
				t.Errorf("%q before its time", o.outcome())
			}
			w.etcd(raise(c.after))
			o.pass(5 * time.Minute)
			w.etcd(raise(c.watched))
			if o.pass(6 * time.Minute); o.outcome() != c.want {
				t.Errorf("%q, want %q", o.outcome(), c.want)
			}
		})
	}
}

// A task that runs without having asked is not to blame for an alarm that there is when it is counted.
func TestAlarmsOfTasksThatAreCounted(t *testing.T) {
	w := newWorld(t, 1, 1)
	o := w.operator()
	task := w.task(0)
	raise(v1alpha1.ReasonAlarmNoSpace)(task.Etcd)
	task.Object.Status.State = v1alpha1.TaskStateInProgress
	v := &view{covering: map[string][]string{task.Object.Namespace: {"all"}}, etcds: map[types.UID]*v1alpha1.Etcd{task.Etcd.UID: task.Etcd}}
	if h := unasked(task.Object, v, w.clock.Now()); h.Alarm != v1alpha1.ReasonAlarmNoSpace {
		t.Errorf("%+v", h)
	}
	v.etcds = nil
	if h := unasked(task.Object, v, o.Clock.Now()); h.Alarm != "" {
		t.Errorf("its Etcd is not shown: %+v", h)
	}
}

// A soak ends by what members have answered since the task has ended, and a moment ago: an older status does not tell that no alarm was
// raised.
func TestASoakRestsOnWhatWasSeen(t *testing.T) {
	for name, c := range map[string]struct {
		// looked is when the members were asked, given when the task ended and the time; nil if another operator does that.
		looked func(ended, now time.Time) time.Time
		want   string
	}{
		"by another operator":       {nil, "done"},
		"never":                     {func(time.Time, time.Time) time.Time { return time.Time{} }, "watched"},
		"now":                       {func(_, now time.Time) time.Time { return now }, "done"},
		"a minute ago":              {func(_, now time.Time) time.Time { return now.Add(-maxGap) }, "done"},
		"more than that":            {func(_, now time.Time) time.Time { return now.Add(-maxGap - time.Second) }, "watched"},
		"only when the task ended":  {func(ended, _ time.Time) time.Time { return ended.Add(time.Second) }, "watched"},
		"by a clock that went back": {func(_, now time.Time) time.Time { return now.Add(time.Hour) }, "watched"},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := watching(t)
			ended := w.clock.Now()
			if c.looked != nil {
				o.Looked = func(e *v1alpha1.Etcd) time.Time {
					if e.Name != "main" {
						t.Errorf("asked for %s", e.Name)
					}
					return c.looked(ended, w.clock.Now())
				}
			}
			if o.pass(11 * time.Minute); o.outcome() != c.want {
				t.Errorf("%q, want %q", o.outcome(), c.want)
			}
			o.Looked = func(*v1alpha1.Etcd) time.Time { return w.clock.Now() }
			if o.pass(interval); o.outcome() != "done" {
				t.Errorf("%q once they were asked: the time counts", o.outcome())
			}
		})
	}
}

// With a soak that is shorter, it is not enough that they were asked while the task ran.
func TestAShortSoakRestsOnWhatWasSeenSince(t *testing.T) {
	w, o := watching(t)
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Soak = &metav1.Duration{Duration: 10 * time.Second} })
	looked := w.clock.Now()
	o.Looked = func(*v1alpha1.Etcd) time.Time { return looked }
	if o.pass(30 * time.Second); o.outcome() != "watched" {
		t.Errorf("%q by a look from before", o.outcome())
	}
	looked = w.clock.Now()
	if o.pass(interval); o.outcome() != "done" {
		t.Errorf("%q", o.outcome())
	}
}

// A canary is watched for as long as it is well, without a gap, and what breaks in that time is a failure of the change. Members that are
// unreachable are neither.
func TestSoak(t *testing.T) {
	restart := func(w *world) {
		pod := &corev1.Pod{}
		if err := w.api.Get(t.Context(), types.NamespacedName{Namespace: "ns0", Name: "main-0"}, pod); err != nil {
			t.Fatal(err)
		}
		pod.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.Time{Time: w.clock.Now()}
		if err := w.api.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	etcd := func(change func(*v1alpha1.Etcd)) func(*world) { return func(w *world) { w.etcd(change) } }
	for name, c := range map[string]struct {
		before  func(*world)
		happens func(*world)
		after   func(*world)
		want    string
	}{
		"all is well":         {nil, nil, nil, "done"},
		"it loses its quorum": {nil, etcd(set(v1alpha1.ConditionReady, metav1.ConditionFalse)), nil, "while it was watched: Ready is False: because"},
		"it loses a member":   {nil, etcd(set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse)), nil, "while it was watched: AllMembersReady is False: because"},
		"for a moment":        {nil, etcd(set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse)), etcd(set(v1alpha1.ConditionAllMembersReady, metav1.ConditionTrue)), "while it was watched: AllMembersReady is False: because"},
		"its backups fail":    {nil, etcd(set(v1alpha1.ConditionBackupReady, metav1.ConditionFalse)), nil, "while it was watched: BackupReady is False: because"},
		"they did before":     {etcd(set(v1alpha1.ConditionBackupReady, metav1.ConditionFalse)), nil, nil, "done"},
		"a member restarts":   {nil, restart, nil, "while it was watched: a member restarted, or its pod was replaced"},
		"a pod is not ready":  {nil, func(w *world) { w.unready() }, nil, "while it was watched: pod main-0 is not ready"},
		"an alarm":            {nil, etcd(raise(v1alpha1.ReasonAlarmNoSpace)), nil, "while it was watched: because of NoSpace"},
		"for a while":         {nil, etcd(raise(v1alpha1.ReasonAlarmNoSpace)), etcd(raise("")), "while it was watched: because of NoSpace"},
		"one of which no member is ready": {nil, etcd(func(e *v1alpha1.Etcd) {
			raise(v1alpha1.ReasonAlarmCorrupt)(e)
			set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse)(e)
		}), nil, "while it was watched: because of Corrupt"},
		"an alarm, as far as is known, and it is unreachable": {nil, etcd(func(e *v1alpha1.Etcd) {
			raise(v1alpha1.ReasonAlarmNoSpace)(e)
			set(v1alpha1.ConditionReady, metav1.ConditionUnknown)(e)
		}), nil, "watched"},
		"it is unreachable":        {nil, etcd(set(v1alpha1.ConditionReady, metav1.ConditionUnknown)), nil, "watched"},
		"and reachable again":      {nil, etcd(set(v1alpha1.ConditionReady, metav1.ConditionUnknown)), etcd(set(v1alpha1.ConditionReady, metav1.ConditionTrue)), "done"},
		"its status follows later": {etcd(set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse)), etcd(set(v1alpha1.ConditionAllMembersReady, metav1.ConditionTrue)), nil, "done"},
		"it is deleted": {nil, func(w *world) {
			if err := w.api.Delete(t.Context(), &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns0", Name: "main"}}); err != nil {
				t.Fatal(err)
			}
		}, nil, "neither"},
		"it is restored": {nil, func(w *world) {
			_, _, task := w.objects(0)
			task.Name, task.UID, task.Spec.Type, task.Status.State = "restore", "restore", v1alpha1.Restore, v1alpha1.TaskStateInProgress
			task.Status.InitiatedAt, task.Status.Recovery = &metav1.Time{Time: w.clock.Now()}, &v1alpha1.RecoveryStatus{Phase: v1alpha1.RecoveryStopping}
			if err := w.api.Create(t.Context(), task); err != nil {
				t.Fatal(err)
			}
			w.etcd(set(v1alpha1.ConditionReady, metav1.ConditionFalse))
		}, nil, "neither"},
		"its members change": {nil, func(w *world) {
			_, _, task := w.objects(0)
			task.Name, task.UID, task.Spec.Type, task.Status.State = "scale", "scale", v1alpha1.MembershipChange, v1alpha1.TaskStateInProgress
			if err := w.api.Create(t.Context(), task); err != nil {
				t.Fatal(err)
			}
			w.etcd(set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse))
		}, nil, "neither"},
		"its members change, and all are ready": {nil, func(w *world) {
			_, _, task := w.objects(0)
			task.Name, task.UID, task.Spec.Type, task.Status.State = "scale", "scale", v1alpha1.MembershipChange, v1alpha1.TaskStateInProgress
			if err := w.api.Create(t.Context(), task); err != nil {
				t.Fatal(err)
			}
		}, nil, "neither"},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := watching(t)
			if c.before != nil {
				c.before(w)
			}
			o.pass(30 * time.Second)
			if c.happens != nil {
				c.happens(w)
			}
			o.pass(30 * time.Second)
			if c.after != nil {
				c.after(w)
			}
			o.pass(9*time.Minute - 10*time.Second)
			if got := o.outcome(); c.want == "done" && got != "watched" {
				t.Errorf("%q before its time", got)
			}
			o.pass(2 * time.Minute)
			if got := o.outcome(); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// A rollout of the only member has succeeded before the one that stood in for it leaves. The canary is watched once it has left: it is neither
// released, as one whose members change later, nor blamed for what that does. What takes too long, and a restore, end the watch: only
// what is not well beside a change that began with the task fails.
func TestACanaryWhoseMembersStillChange(t *testing.T) {
	change := func(w *world, restore bool) *v1alpha1.EtcdOperatorTask {
		_, _, task := w.objects(0)
		task.Name, task.UID, task.Spec.Type, task.Status.State = "scale", "scale", v1alpha1.MembershipChange, v1alpha1.TaskStateInProgress
		if restore {
			task.Spec.Type, task.Status.Recovery = v1alpha1.Restore, &v1alpha1.RecoveryStatus{Phase: v1alpha1.RecoveryStopping}
		}
		task.Status.InitiatedAt = &metav1.Time{Time: w.clock.Now()}
		return task
	}
	for name, c := range map[string]struct {
		lasts            time.Duration
		restore, crashes bool
		want             string
	}{
		"for two minutes":          {2 * time.Minute, false, false, "done"},
		"and then its pod crashes": {2 * time.Minute, false, true, "while it was watched: pod main-0 is not ready"},
		"for ten minutes":          {10 * time.Minute, false, false, "while it was watched: AllMembersReady is False: because. Task scale, which changes its members, has not ended: "},
		"it is restored":           {interval, true, false, "neither"},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := watching(t)
			// Its pod terminates for longer than the change takes.
			leaving := w.readPod().DeepCopy()
			leaving.Name, leaving.UID, leaving.ResourceVersion, leaving.Finalizers = "main-3", "leaving", "", []string{"example.com/keep"}
			if err := errors.Join(w.api.Create(t.Context(), leaving), w.api.Delete(t.Context(), leaving)); err != nil {
				t.Fatal(err)
			}
			task := change(w, c.restore)
			if err := w.api.Create(t.Context(), task); err != nil {
				t.Fatal(err)
			}
			w.etcd(set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse))
			ends := c.restore || c.lasts == 10*time.Minute
			if o.pass(c.lasts); !ends && o.outcome() != "watched" {
				t.Errorf("%q while its members change", o.outcome())
			}
			if err := w.api.Delete(t.Context(), task); err != nil {
				t.Fatal(err)
			}
			w.etcd(set(v1alpha1.ConditionAllMembersReady, metav1.ConditionTrue))
			if o.pass(9 * time.Minute); !ends && o.outcome() != "watched" {
				t.Errorf("%q before its time", o.outcome())
			}
			if c.crashes {
				w.unready()
			}
			if o.pass(2 * time.Minute); o.outcome() != c.want {
				t.Errorf("%q, want %q", o.outcome(), c.want)
			}
		})
	}
}

// What a cluster is compared with has a bound: who gives other pods the label of an Etcd does not fill the ledger.
func TestTheSizeOfABaseline(t *testing.T) {
	w, o := watching(t)
	for i := range 100 {
		pod := w.readPod().DeepCopy()
		pod.Name, pod.UID, pod.ResourceVersion = fmt.Sprintf("main-%d", i+1), types.UID(strings.Repeat("u", 36)+fmt.Sprint(i)), ""
		if err := w.api.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	o.pass(interval)
	l, err := o.Store.Read(t.Context())
	if err != nil || len(l.Holders) != 1 || l.Holders[0].Baseline == "" || len(l.Holders[0].Baseline) > 300 {
		t.Fatalf("%+v %v", l.Holders, err)
	}
	if o.pass(11 * time.Minute); o.outcome() != "done" {
		t.Errorf("%q", o.outcome())
	}
}

// A cluster that does not become well after its task has failed; and a gap, such as a restart of the operator, begins the soak again.
func TestSoakWithoutABaselineAndWithAGap(t *testing.T) {
	w, o := watching(t)
	w.etcd(set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse))
	o.pass(settle)
	if got := o.outcome(); got != "watched" {
		t.Errorf("%q", got)
	}
	o.pass(2 * interval)
	if got := o.outcome(); !strings.Contains(got, "AllMembersReady is False") {
		t.Errorf("%q", got)
	}
	w, o = watching(t)
	o.pass(9 * time.Minute)
	o = w.operator()
	o.pass(9 * time.Minute)
	if got := o.outcome(); got != "watched" {
		t.Errorf("another operator: %q", got)
	}
	w.clock.Step(time.Hour)
	o.pass(time.Minute)
	if got := o.outcome(); got != "watched" {
		t.Errorf("a gap: %q", got)
	}
	o.pass(10 * time.Minute)
	if got := o.outcome(); got != "done" {
		t.Errorf("%q", got)
	}
}

// A policy that is deleted counts nothing that it has not seen the end of. Another one that selects the cluster watches it to its end.
func TestAPolicyThatIsDeletedWhileItsCanaryIsWatched(t *testing.T) {
	w, o := watching(t)
	other := w.read().DeepCopy()
	other.Name, other.UID, other.ResourceVersion = "other", "other", ""
	if err := w.api.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	o.pass(time.Minute)
	if err := w.api.Delete(t.Context(), w.read()); err != nil {
		t.Fatal(err)
	}
	o.pass(time.Minute)
	if got := o.outcome(); got != "watched" {
		t.Errorf("%q", got)
	}
	o.pass(9 * time.Minute)
	l, err := o.Store.Read(t.Context())
	if err != nil || len(l.Holders) > 0 || l.Change("all", "A").Passed > 0 || l.Change("other", "A").Passed != 1 {
		t.Errorf("%+v, %v", l, err)
	}
}

// stalled has a task run that has made no progress for so long.
func stalled(idle time.Duration) func(*world, *v1alpha1.EtcdOperatorTask) {
	return func(w *world, task *v1alpha1.EtcdOperatorTask) {
		task.Status.State = v1alpha1.TaskStateInProgress
		task.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonStalled, Message: "m-0 crashes"}}
		task.Status.Rollout = &v1alpha1.RolloutStatus{LastProgressTime: &metav1.Time{Time: w.clock.Now().Add(-idle)}}
	}
}

// stalledSince has a task be stalled for so long, which has made no progress for a week, by a deadline that its creator has cut to a minute.
func stalledSince(d time.Duration) func(*world, *v1alpha1.EtcdOperatorTask) {
	return func(w *world, task *v1alpha1.EtcdOperatorTask) {
		stalled(7*24*time.Hour)(w, task)
		task.Spec.Type, task.Spec.Config = v1alpha1.QuorumAwareRollout, "progressDeadline: 1m"
		task.Status.Conditions[0].LastTransitionTime = metav1.Time{Time: w.clock.Now().Add(-d)}
	}
}

// What has become of the task of a holder is read from the API server.
func TestHoldersAreReleased(t *testing.T) {
	state := func(s v1alpha1.TaskState) func(*world, *v1alpha1.EtcdOperatorTask) {
		return func(_ *world, task *v1alpha1.EtcdOperatorTask) {
			task.Status.State = s
			task.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionFalse, Reason: "R", Message: "no"}}
		}
	}
	lacking := func(w *world, _ *v1alpha1.EtcdOperatorTask) {
		w.etcd(set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse))
	}
	unready := func(w *world, _ *v1alpha1.EtcdOperatorTask) {
		w.pod(w.clock.Now())
		w.unready()
	}
	superseded := func(more ...func(*world, *v1alpha1.EtcdOperatorTask)) func(*world, *v1alpha1.EtcdOperatorTask) {
		return func(w *world, task *v1alpha1.EtcdOperatorTask) {
			status.RecordAdmission(task, "", "", w.clock.Now().Add(-time.Minute))
			status.RecordEnd(task, tasks.Reject, v1alpha1.ErrSuperseded, "the template has changed", w.clock.Now())
			for _, change := range more {
				change(w, task)
			}
		}
	}
	// A task may be superseded when its turn comes, or in the pass in which it was admitted.
	atOnce := func(admitted bool, of string) func(*world, *v1alpha1.EtcdOperatorTask) {
		return func(w *world, task *v1alpha1.EtcdOperatorTask) {
			lacking(w, task)
			if admitted {
				status.RecordAdmission(task, "", "", w.clock.Now())
			}
			if of != "" {
				status.RecordVerdict(task, tasks.Verdict{Step: &tasks.Step{Operation: of}}, w.clock.Now())
			}
			status.RecordEnd(task, tasks.Reject, v1alpha1.ErrSuperseded, "the template has changed", w.clock.Now())
		}
	}
	for name, c := range map[string]struct {
		change func(*world, *v1alpha1.EtcdOperatorTask)
		remove bool
		want   string
		canary bool
	}{
		"it runs":              {state(v1alpha1.TaskStateInProgress), false, "watched", false},
		"it succeeded":         {state(v1alpha1.TaskStateSucceeded), false, "watched", false},
		"it failed":            {state(v1alpha1.TaskStateFailed), false, "task task failed: no", false},
		"it was superseded":    {superseded(lacking), false, "neither", false},
		"so was a canary":      {superseded(), false, "neither", true},
		"that lacked a member": {superseded(lacking), false, "task task ended before it had succeeded, while AllMembersReady was False: because", true},
		"that may have lacked one": {superseded(func(w *world, _ *v1alpha1.EtcdOperatorTask) {
			w.etcd(set(v1alpha1.ConditionAllMembersReady, metav1.ConditionUnknown))
		}), false, "task task ended before it had succeeded, while AllMembersReady was Unknown: because", true},
		"of which nothing is known": {superseded(func(w *world, _ *v1alpha1.EtcdOperatorTask) {
			w.etcd(func(e *v1alpha1.Etcd) { e.Status.Conditions = nil })
		}), false, "task task ended before it had succeeded, while nothing was known of its members", true},
		"whose status lags": {superseded(func(_ *world, task *v1alpha1.EtcdOperatorTask) {
			task.Status.Rollout = &v1alpha1.RolloutStatus{Pods: []v1alpha1.RolloutPod{
				{Name: "m-1", LastOperation: v1alpha1.LastOperation{State: v1alpha1.OperationStateCompleted}}, {Name: "m-0", LastOperation: v1alpha1.LastOperation{State: v1alpha1.OperationStateInProgress}},
			}}
		}), false, "task task ended before it had succeeded, while pod m-0 was being replaced or updated", true},
		"whose pods were well": {superseded(func(_ *world, task *v1alpha1.EtcdOperatorTask) {
			task.Status.Rollout = &v1alpha1.RolloutStatus{Pods: []v1alpha1.RolloutPod{{Name: "m-1", LastOperation: v1alpha1.LastOperation{State: v1alpha1.OperationStateCompleted}}}}
		}), false, "neither", true},
		"that stops nothing yet": {superseded(lacking, func(_ *world, task *v1alpha1.EtcdOperatorTask) {
			task.Spec.Type, task.Status.Rollout = v1alpha1.RecreateRollout, nil
		}), false, "neither", true},
		"that was recreated": {superseded(func(_ *world, task *v1alpha1.EtcdOperatorTask) {
			task.Status.Rollout = &v1alpha1.RolloutStatus{Phase: v1alpha1.RecreateReadyForCreation}
		}), false, "task task ended before it had succeeded, while all pods were being replaced", true},
		"that had been recreated": {superseded(func(_ *world, task *v1alpha1.EtcdOperatorTask) {
			task.Status.Rollout = &v1alpha1.RolloutStatus{Phase: v1alpha1.RecreateComplete}
		}), false, "neither", true},
		"whose pod is not ready, which its status does not show yet": {superseded(unready), false, "task task ended before it had succeeded, while pod main-0 was not ready", true},
		"before it began":               {atOnce(false, ""), false, "neither", true},
		"in the pass in which it began": {atOnce(true, ""), false, "neither", true},
		"a moment after its first step": {atOnce(true, "DeletePod"), false, "task task ended before it had succeeded, while AllMembersReady was False: because", true},
		"of an Etcd that is gone": {superseded(lacking, func(w *world, _ *v1alpha1.EtcdOperatorTask) {
			if err := w.api.Delete(t.Context(), &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns0", Name: "main"}}); err != nil {
				t.Fatal(err)
			}
		}), false, "neither", true},
		"a canary was deleted":                                              {nil, true, "neither", true},
		"while it lacked a member":                                          {lacking, true, "task task ended before it had succeeded, while AllMembersReady was False: because", true},
		"it is stalled":                                                     {stalled(10 * time.Minute), false, "task task is stalled: m-0 crashes", false},
		"it is stalled for just as long as that":                            {stalled(10*time.Minute - interval), false, "task task is stalled: m-0 crashes", false},
		"it is stalled, by a deadline that its creator has cut":             {stalled(10*time.Minute - interval - time.Second), false, "watched", false},
		"a week after its last progress, because it had paused for as long": {stalledSince(9*time.Minute - interval - time.Second), false, "watched", false},
		"it is stalled for long after that":                                 {stalledSince(9 * time.Minute), false, "task task is stalled: m-0 crashes", false},
		"one that records no progress is stalled": {func(w *world, task *v1alpha1.EtcdOperatorTask) {
			stalled(0)(w, task)
			task.Status.Rollout = nil
		}, false, "task task is stalled: m-0 crashes", false},
		"the quorum is lost": {func(w *world, task *v1alpha1.EtcdOperatorTask) {
			task.Status.State = v1alpha1.TaskStateInProgress
			w.etcd(func(e *v1alpha1.Etcd) {
				e.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonQuorumLost, Message: "1 of 3"})
			})
		}, false, "the quorum was lost: 1 of 3", false},
		"it has not started, as it was": {nil, false, "watched", false},
		"it has changed, and not begun": {state(v1alpha1.TaskStatePending), false, "neither", false},
		"it was deleted":                {nil, true, "neither", false},
		"it was deleted, and a finalizer keeps it": {func(w *world, task *v1alpha1.EtcdOperatorTask) {
			state(v1alpha1.TaskStateInProgress)(w, task)
			task.Finalizers = []string{"example.com/keep"}
		}, true, "neither", false},
		"so was a canary, while it lacked a member": {func(w *world, task *v1alpha1.EtcdOperatorTask) {
			lacking(w, task)
			state(v1alpha1.TaskStateInProgress)(w, task)
			task.Finalizers = []string{"example.com/keep"}
		}, true, "task task ended before it had succeeded, while AllMembersReady was False: because", true},
		"while its cluster lacks a member": {lacking, true, "watched", false},
		"while its pod is not ready":       {unready, true, "watched", false},
		"while its pod terminates": {func(w *world, _ *v1alpha1.EtcdOperatorTask) {
			pod := w.pod(w.clock.Now())
			pod.Finalizers = []string{"example.com/keep"}
			if err := errors.Join(w.api.Update(t.Context(), pod), w.api.Delete(t.Context(), pod)); err != nil {
				t.Fatal(err)
			}
		}, true, "watched", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 1)
			o := w.operator()
			task := &v1alpha1.EtcdOperatorTask{}
			if err := w.api.Get(t.Context(), types.NamespacedName{Namespace: "ns0", Name: "task"}, task); err != nil {
				t.Fatal(err)
			}
			if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool {
				l.Grant(fleet.Holder{Task: "task0", TaskName: "task", Namespace: "ns0", Etcd: "etcd0", EtcdName: "main", Policies: []string{"all"}, Change: "A", Canary: c.canary, ResourceVersion: task.ResourceVersion})
				return true
			}); err != nil {
				t.Fatal(err)
			}
			// The ledger was made when the task was there: it was fenced.
			if err := w.api.Get(t.Context(), types.NamespacedName{Namespace: "ns0", Name: "task"}, task); err != nil {
				t.Fatal(err)
			}
			if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool { l.Holders[0].ResourceVersion = task.ResourceVersion; return true }); err != nil {
				t.Fatal(err)
			}
			if c.change != nil {
				before := task.DeepCopy()
				if c.change(w, task); task.Status.State != before.Status.State || len(task.Status.Conditions) > 0 {
					status := task.Status
					if err := w.api.Update(t.Context(), task); err != nil {
						t.Fatal(err)
					}
					task.Status = status
					if err := w.api.Status().Update(t.Context(), task); err != nil {
						t.Fatal(err)
					}
				}
			}
			if c.remove {
				if err := w.api.Delete(t.Context(), task); err != nil {
					t.Fatal(err)
				}
			}
			if o.pass(interval); c.remove {
				o.pass(settle + interval)
			}
			if got := o.outcome(); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// A finding about a task that had not started does not release one that has been granted again since.
func TestAFindingThatIsOutOfDate(t *testing.T) {
	l := &fleet.Ledger{}
	l.Grant(fleet.Holder{Task: "t", ResourceVersion: "2"})
	now := time.Now()
	if (finding{task: "t", kind: unstarted, version: "1"}).apply(l, now) || len(l.Holders) != 1 {
		t.Error("it was granted again")
	}
	if !(finding{task: "t", kind: unstarted, version: "2"}).apply(l, now) || len(l.Holders) != 0 || l.IsOver("t") {
		t.Error("it is as it was found")
	}
	if (finding{task: "t", kind: released}).apply(l, now) {
		t.Error("it is gone")
	}
}

// The same change of two clusters has the same fingerprint, and pods of an older revision count as where it begins.
func TestChangesOfTasks(t *testing.T) {
	w := newWorld(t, 3, 1)
	create := func(o client.Object) {
		t.Helper()
		if err := w.api.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 {
		owner := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "main", UID: types.UID("set" + namespaceOf(i)), Controller: ptr.To(true)}}
		s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(i), Name: "main", UID: owner[0].UID}}
		s.Status.UpdateRevision = "r3"
		create(s)
		for n, image := range []string{"etcd:1", "etcd:bad", "etcd:2"} {
			create(&appsv1.ControllerRevision{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(i), Name: "r" + string(rune('1'+n)), OwnerReferences: owner}, Revision: int64(n + 1),
				Data: runtime.RawExtension{Raw: []byte(`{"image":"` + image + `","args":["` + namespaceOf(i) + `"]}`)},
			})
		}
		// The second has a pod of a change that failed.
		for n, revision := range [][]string{{"r1", "r1"}, {"r2", "r1"}}[i] {
			create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: namespaceOf(i), Name: "main-" + string(rune('0'+n)), OwnerReferences: owner,
				Labels: map[string]string{v1alpha1.LabelPartOf: "main", appsv1.StatefulSetRevisionLabel: revision},
			}})
		}
	}
	o := w.operator()
	both := func(i int, taskType v1alpha1.TaskType, config string) fingerprints {
		t.Helper()
		_, etcd, task := w.objects(i)
		task.Spec.Type, task.Spec.Config = taskType, config
		found, err := o.change(t.Context(), tasks.Task{Object: task, Etcd: etcd})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	of := func(i int, taskType v1alpha1.TaskType, config string) string {
		t.Helper()
		return both(i, taskType, config).change
	}
	first, second := of(0, v1alpha1.QuorumAwareRollout, ""), of(1, v1alpha1.QuorumAwareRollout, "")
	if first != second || !strings.HasPrefix(first, "v1-") {
		t.Errorf("%s, %s", first, second)
	}
	if again := of(0, v1alpha1.QuorumAwareRollout, "targetRevision: r3"); again != first {
		t.Errorf("%s, want %s", again, first)
	}
	if other := of(0, v1alpha1.QuorumAwareRollout, "targetRevision: r2"); other == first {
		t.Error("another target")
	}
	if none := both(0, v1alpha1.OnDemandMaintenance, ""); none != (fingerprints{}) {
		t.Error(none)
	}
	// A restart follows the StatefulSet, so it brings pods that are outdated the new template. That of others only restarts.
	if restart := both(0, v1alpha1.QuorumAwareRollout, "restart: true"); restart != both(0, v1alpha1.QuorumAwareRollout, "") {
		t.Errorf("%+v", restart)
	}
	w.setPods(0, "r3", "r3")
	if restart := both(0, v1alpha1.QuorumAwareRollout, "restart: true"); restart != (fingerprints{change: fleet.Restart}) {
		t.Errorf("%+v", restart)
	}
	// From another template, the same one is another change.
	w.setPods(0, "r2", "r2")
	if other := both(0, v1alpha1.QuorumAwareRollout, ""); other.change == first || other.target == "" || other.target != both(1, v1alpha1.QuorumAwareRollout, "").target {
		t.Errorf("%+v", other)
	}
	w.setPods(0, "r1", "r1")
	// No revision of its pods is left: the change is all that is new, and no restart.
	for _, revision := range []string{"r1", "r2"} {
		if err := w.api.Delete(t.Context(), &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(1), Name: revision}}); err != nil {
			t.Fatal(err)
		}
	}
	o = w.operator()
	if lost := of(1, v1alpha1.QuorumAwareRollout, ""); !strings.HasPrefix(lost, "v1-") || lost == first {
		t.Error(lost)
	}
	if gone := of(0, v1alpha1.QuorumAwareRollout, "targetRevision: r9"); gone != "v1-unknown-r9" {
		t.Error(gone)
	}
	_, etcd, task := w.objects(2)
	task.Spec.Type = v1alpha1.QuorumAwareRollout
	if _, err := o.change(t.Context(), tasks.Task{Object: task, Etcd: etcd}); err == nil {
		t.Error("there is no StatefulSet")
	}
}

// How a task has left its members is not known while their pods cannot be read: it keeps its slot.
func TestPodsThatCannotBeRead(t *testing.T) {
	w := newWorld(t, 1, 1)
	o := w.operator()
	o.Live = interceptor.NewClient(w.api, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, pods := list.(*corev1.PodList); pods {
				return errors.New("the API server is away")
			}
			return c.List(ctx, list, options...)
		},
	})
	h := &fleet.Holder{Task: "task0", TaskName: "task", Namespace: "ns0", Etcd: "etcd0", EtcdName: "main", Canary: true}
	if f, err := o.deleted(t.Context(), h); err == nil || f != nil {
		t.Errorf("%+v, %v", f, err)
	}
	task := w.task(0).Object
	status.RecordAdmission(task, "", "", w.clock.Now().Add(-time.Minute))
	status.RecordEnd(task, tasks.Reject, v1alpha1.ErrSuperseded, "the template has changed", w.clock.Now())
	if f, err := o.superseded(t.Context(), h, task); err == nil || f != nil {
		t.Errorf("%+v, %v", f, err)
	}
}

// What was not watched, because there was no policy, is not judged: a node may have been drained since, and a task that has succeeded be gone.
func TestNothingIsSaidOfWhatWasNotWatched(t *testing.T) {
	watched := func(_ *world, o *operator) { o.pass(time.Minute) }
	runs := func(w *world, o *operator) {
		if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool { l.Holders[0].Ended = time.Time{}; return true }); err != nil {
			t.Fatal(err)
		}
		task := w.task(0).Object
		task.Status.State, task.Status.InitiatedAt = v1alpha1.TaskStateInProgress, &metav1.Time{Time: w.clock.Now()}
		if err := w.api.Status().Update(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		o.pass(time.Minute)
		if err := w.api.Delete(t.Context(), task); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		before func(*world, *operator)
		comes  string
	}{
		"it is watched":                  {watched, "all"},
		"its task runs":                  {runs, "all"},
		"it is watched, by another name": {watched, "later"},
		"its task runs, by another name": {runs, "later"},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := watching(t)
			c.before(w, o)
			policy := w.read()
			if err := w.api.Delete(t.Context(), policy); err != nil {
				t.Fatal(err)
			}
			o.pass(interval)
			pod := w.readPod()
			pod.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.Time{Time: w.clock.Now()}
			if err := w.api.Status().Update(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			w.clock.Step(24 * time.Hour)
			w.etcd(set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse))
			policy.Name, policy.UID, policy.ResourceVersion = c.comes, "later", ""
			if err := w.api.Create(t.Context(), policy); err != nil {
				t.Fatal(err)
			}
			o.pass(settle + 2*interval)
			w.etcd(set(v1alpha1.ConditionAllMembersReady, metav1.ConditionTrue))
			o.pass(settle + 2*interval)
			if all := append(o.failures("all", "A"), o.failures(c.comes, "A")...); len(all) > 0 {
				t.Errorf("%q", all)
			}
			l, err := o.Store.Read(t.Context())
			if err != nil || len(l.Holders) > 0 {
				t.Errorf("%+v %v", l, err)
			}
		})
	}
}

// What was not watched while passes failed is compared again from its beginning: a change does not fail by it, and is watched for all of its time.
func TestAWatchWithAGapComparesAnew(t *testing.T) {
	w, o := watching(t)
	o.pass(time.Minute)
	pod := w.readPod()
	pod.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.Time{Time: w.clock.Now()}
	if err := w.api.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	w.clock.Step(2 * maxGap)
	if o.pass(9 * time.Minute); o.outcome() != "watched" {
		t.Error(o.outcome())
	}
	if o.pass(2 * time.Minute); o.outcome() != "done" {
		t.Error(o.outcome())
	}
}
