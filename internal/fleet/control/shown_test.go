// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// The metrics of the fleet are what its policies' statuses say, and go with the policies.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	series := func() int {
		n, err := testutil.GatherAndCount(registry, "etcd_foreman_fleet_slots", "etcd_foreman_fleet_slots_used", "etcd_foreman_fleet_waiting", "etcd_foreman_fleet_paused", "etcd_foreman_fleet_slot_awaited_since_timestamp_seconds")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	paused := func(reason string) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.ConditionPaused, Status: metav1.ConditionTrue, Reason: reason}}
	}
	for reason, want := range map[string]float64{"": 0, v1alpha1.ReasonPausedBySpec: 0, v1alpha1.ReasonChangeFailed: 1, v1alpha1.ReasonInvalidPolicy: 1} {
		s := &v1alpha1.EtcdFleetPolicyStatus{Limit: 3, Used: 2, Waiting: 5}
		if reason != "" {
			s.Conditions = paused(reason)
		}
		m.show("all", s)
		for vec, value := range map[*prometheus.GaugeVec]float64{m.slots: 3, m.used: 2, m.waiting: 5, m.paused: want} {
			if got := testutil.ToFloat64(vec.WithLabelValues("all")); got != value {
				t.Errorf("%q: %v, want %v", reason, got, value)
			}
		}
	}
	at := time.Unix(1_700_000_000, 0)
	policies := map[string]*fleet.Policy{"all": {}, "other": {}}
	m.keep(policies)
	m.await(policies, map[string]time.Time{"all": at})
	if all, other := testutil.ToFloat64(m.awaited.WithLabelValues("all")), testutil.ToFloat64(m.awaited.WithLabelValues("other")); all != 1_700_000_000 || other != 0 {
		t.Errorf("%v, %v", all, other)
	}
	m.ledger(&fleet.Ledger{})
	if got := testutil.ToFloat64(m.rebuilt); got != 0 {
		t.Error(got)
	}
	m.ledger(&fleet.Ledger{Rebuilt: at})
	if got := testutil.ToFloat64(m.rebuilt); got != 1_700_000_000 {
		t.Error(got)
	}
	if n := series(); n != 6 {
		t.Error(n)
	}
	if m.keep(map[string]*fleet.Policy{"all": {}}); series() != 5 {
		t.Errorf("%d are left", series())
	}
	if m.keep(nil); series() != 0 {
		t.Errorf("%d are left", series())
	}
	m.waited(3 * time.Second)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		h := f.GetMetric()[0].GetHistogram()
		if f.GetName() != "etcd_foreman_fleet_slot_wait_seconds" {
			continue
		}
		if longest := h.GetBucket()[len(h.GetBucket())-1].GetUpperBound(); h.GetSampleCount() != 1 || h.GetSampleSum() != 3 || longest != 65536 {
			t.Errorf("%+v: waits are told apart up to %v s, want those of 18 hours", h, longest)
		}
	}
}

// A pass publishes the metrics, looks at what there is now, and is over once there is nothing to do.
func TestWhatAPassPublishes(t *testing.T) {
	w := newWorld(t, 2, 1)
	o := w.operator()
	o.pass(interval)
	if o.start(0); o.ask(1) == nil {
		t.Fatal("there is one slot")
	}
	w.clock.Step(time.Minute)
	since := float64(w.clock.Now().Add(-time.Minute).Unix())
	o.pass(interval)
	if limit, used, waiting, awaited := testutil.ToFloat64(o.Metrics.slots), testutil.ToFloat64(o.Metrics.used), testutil.ToFloat64(o.Metrics.waiting), testutil.ToFloat64(o.Metrics.awaited); limit != 1 || used != 1 || waiting != 1 || awaited != since {
		t.Errorf("%v %v %v %v, want %v", limit, used, waiting, awaited, since)
	}
	// Within the second, a policy changes.
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.MaxConcurrent = ptr.To(intstr.FromInt32(2)) })
	result, err := o.Reconcile(t.Context(), ctrl.Request{})
	if err != nil || result.RequeueAfter != interval || w.read().Status.Limit != 2 || len(o.wakes) == 0 {
		t.Errorf("%+v %v %+v, %d woken", result, err, w.read().Status, len(o.wakes))
	}
	if w.limit = 2; o.ask(1) != nil {
		t.Error("there is a slot")
	}
	// One waited for a minute, and the other not at all.
	registry := prometheus.NewRegistry()
	registry.MustRegister(o.Metrics.wait)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if h := families[0].GetMetric()[0].GetHistogram(); h.GetSampleCount() != 2 || h.GetSampleSum() < 60 || h.GetSampleSum() > 90 {
		t.Errorf("%+v", h)
	}
	w.lose()
	o = w.operator()
	if o.pass(interval); testutil.ToFloat64(o.Metrics.rebuilt) != float64(w.clock.Now().Unix()) {
		t.Error(testutil.ToFloat64(o.Metrics.rebuilt))
	}
	if err := w.api.Delete(t.Context(), w.read()); err != nil {
		t.Fatal(err)
	}
	if o.pass(interval); testutil.CollectAndCount(o.Metrics.slots) != 0 {
		t.Error("there is no policy any more")
	}
}

// A status counts the tasks that wait for the policy, also by their change.
func TestWhatAStatusCounts(t *testing.T) {
	w := newWorld(t, 2, 1)
	o := w.operator()
	v, err := o.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	in := fleet.Input{Now: w.clock.Now(), Policies: v.policies, Covering: v.covering, Ledger: &fleet.Ledger{}}
	for _, namespace := range []string{"ns0", "ns1", "elsewhere"} {
		in.Waiting = append(in.Waiting, fleet.Candidate{Task: types.UID(namespace), Namespace: namespace, Change: "A"})
	}
	s := o.status(v, in, &v.objects[0])
	if s.Waiting != 2 || len(s.Changes) != 1 || s.Changes[0].Waiting != 2 {
		t.Errorf("%+v", s)
	}
}

// Of a policy that is deleted, nothing is published any more, although there are others: an alert that it is paused would fire for ever.
func TestTheMetricsOfADeletedPolicy(t *testing.T) {
	w := newWorld(t, 1, 1)
	w.limiting("other")
	o := w.operator()
	published := func() (counts []int) {
		for _, v := range []*prometheus.GaugeVec{o.Metrics.slots, o.Metrics.used, o.Metrics.waiting, o.Metrics.paused, o.Metrics.awaited} {
			counts = append(counts, testutil.CollectAndCount(v))
		}
		return counts
	}
	if o.pass(interval); !slices.Equal(published(), []int{2, 2, 2, 2, 2}) {
		t.Fatal(published())
	}
	if err := w.api.Delete(t.Context(), &v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: "other"}}); err != nil {
		t.Fatal(err)
	}
	if o.pass(interval); !slices.Equal(published(), []int{1, 1, 1, 1, 1}) || testutil.ToFloat64(o.Metrics.slots) != 1 {
		t.Error(published())
	}
}

// A change that fails is announced once, and its tasks say so at once; again if it was resumed and fails again.
func TestAFailedChangeIsAnnouncedOnce(t *testing.T) {
	w := newWorld(t, 1, 1)
	o := w.operator()
	recorder := o.Recorder.(*events.FakeRecorder)
	l := &fleet.Ledger{Policies: []fleet.Recorded{{Name: "all"}, {Name: "other"}}}
	fail := func(policy, change string) {
		l.Grant(fleet.Holder{Task: "t", Etcd: "e", EtcdName: "main", Policies: []string{policy}, Change: change})
		l.Failed("t", "it crashes", w.clock.Now())
		l.Release("t", w.clock.Now())
	}
	v, err := o.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	in := fleet.Input{Ledger: l, Waiting: []fleet.Candidate{{Task: "1", Change: "A"}, {Task: "2", Change: "B"}}}
	report := func(want string, warnings int) {
		t.Helper()
		if got := fmt.Sprint(o.report(v, in)); got != want || len(recorder.Events) != warnings {
			t.Errorf("%s and %d events, want %s and %d", got, len(recorder.Events), want, warnings)
		}
		for len(recorder.Events) > 0 {
			if e := <-recorder.Events; !strings.Contains(e, v1alpha1.ReasonChangeFailed) || !strings.Contains(e, "it crashes") {
				t.Error(e)
			}
		}
	}
	report("[]", 0)
	fail("other", "A")
	report("[]", 0)
	fail("all", "A")
	report("[1]", 1)
	report("[]", 0)
	if !l.ResumeBy("all", l.Change("all", "A").ResumeToken()) {
		t.Fatal("it is not resumed")
	}
	report("[]", 0)
	fail("all", "A")
	report("[1]", 1)
}

// An API server refuses an event with a note of more than 1024 bytes.
func TestAnEventIsBounded(t *testing.T) {
	o := newWorld(t, 1, 1).operator()
	v, err := o.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o.warn(v, "all", v1alpha1.ReasonChangeFailed, strings.Repeat("x", 2000))
	if note, ok := strings.CutPrefix(<-o.Recorder.(*events.FakeRecorder).Events, "Warning "+v1alpha1.ReasonChangeFailed+" "); !ok || len(note) > 1024 {
		t.Errorf("%d bytes: %s", len(note), note)
	}
}

// A status shows so many holders, changes and failures, and no more, whatever the ledger has.
func TestAStatusIsBounded(t *testing.T) {
	w := newWorld(t, 1, 1)
	o := w.operator()
	v, err := o.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l := &fleet.Ledger{Policies: []fleet.Recorded{{Name: "all", UID: "policy"}}}
	now := w.clock.Now()
	for i := range maxHolders + 1 {
		l.Holders = append(l.Holders, fleet.Holder{Task: types.UID(fmt.Sprint(i)), Etcd: types.UID(fmt.Sprint(i)), EtcdName: "main", Policies: []string{"all"}, Change: "A", Granted: now})
	}
	l.Holders[1].Ended = now.Add(time.Minute)
	l.Holders = append([]fleet.Holder{{Task: "other", Policies: []string{"other"}, Change: "A"}}, l.Holders...)
	for i := range maxChanges + 1 {
		l.Changes = append(l.Changes, fleet.Change{Policy: "all", Name: fmt.Sprintf("%c", 'A'+i), Since: now.Add(time.Duration(i) * time.Second)})
	}
	for range maxFailures + 1 {
		l.Changes[maxChanges].Failures = append(l.Changes[maxChanges].Failures, fleet.Failure{EtcdName: "main", Reason: "it crashes"})
	}
	in := fleet.Input{Now: now, Policies: v.policies, Covering: v.covering, Ledger: l}
	s := o.status(v, in, &v.objects[0])
	if len(s.Holders) != maxHolders || s.Holders[0].WatchedSince != nil || s.Holders[1].WatchedSince == nil || !s.Holders[1].WatchedSince.Time.Equal(now.Add(time.Minute)) {
		t.Errorf("%d holders: %+v", len(s.Holders), s.Holders[:2])
	}
	failed, last := s.Changes[1], s.Changes[maxChanges-1]
	if len(s.Changes) != maxChanges || s.Changes[0].Change != "A" || failed.Failed != maxFailures+1 || len(failed.Failures) != maxFailures || failed.Paused == "" || last.Change != "C" {
		t.Errorf("%d changes: %+v, %+v … %+v", len(s.Changes), s.Changes[0], failed, last)
	}
	all := changesOf(in, &fleet.Policy{Name: "all", MaxFailures: 100}, nil, nil)
	if i := slices.IndexFunc(all, func(c v1alpha1.FleetChange) bool { return c.Change == "B" }); i < 0 || all[i].Running != 0 || all[i].Paused != "" {
		t.Errorf("%+v", all)
	}
	l.Changes = l.Changes[:1]
	if c := changesOf(in, &fleet.Policy{Name: "all"}, nil, nil)[0]; c.Running != maxHolders || c.Watched != 1 {
		t.Errorf("%+v", c)
	}
}

// A change that is paused and asked for is shown before those that are newer, however many there are.
func TestAPausedChangeIsShownFirst(t *testing.T) {
	w := newWorld(t, 1, 1)
	asks := w.task(0).Object
	asks.Status.Change = "old"
	if err := w.api.Status().Update(t.Context(), asks); err != nil {
		t.Fatal(err)
	}
	o := w.operator()
	v, err := o.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l := &fleet.Ledger{Policies: []fleet.Recorded{{Name: "all", UID: "policy"}}}
	l.Changes = []fleet.Change{{Policy: "all", Name: "old", Since: w.clock.Now(), Failures: []fleet.Failure{{EtcdName: "main", Reason: "it crashes"}}}}
	for i := range maxChanges {
		l.Changes = append(l.Changes, fleet.Change{Policy: "all", Name: fmt.Sprint("new", i), Since: w.clock.Now().Add(time.Hour)})
	}
	s := o.status(v, fleet.Input{Now: w.clock.Now(), Policies: v.policies, Covering: v.covering, Ledger: l}, &v.objects[0])
	if len(s.Changes) != maxChanges || s.Changes[0].Change != "old" || s.Changes[0].Paused == "" {
		t.Errorf("%d changes: %+v", len(s.Changes), s.Changes[0])
	}
	if len(s.Conditions) != 1 || s.Conditions[0].Reason != v1alpha1.ReasonChangeFailed {
		t.Errorf("%+v", s.Conditions)
	}
}

// manyPaused returns a ledger in which the oldest change is paused, and more newer ones than a status shows.
func manyPaused(now time.Time) *fleet.Ledger {
	l := &fleet.Ledger{Policies: []fleet.Recorded{{Name: "all", UID: "policy"}}}
	for i := range maxChanges + 5 {
		name := fmt.Sprint("new", i)
		if i == 0 {
			name = "old"
		}
		l.Changes = append(l.Changes, fleet.Change{Policy: "all", Name: name, Since: now.Add(time.Duration(i) * time.Second), Failures: []fleet.Failure{{Etcd: "e", EtcdName: name, Reason: "it crashes", Target: name}}})
	}
	return l
}

// However many changes are paused, a status shows those that tasks ask for or run with, and its condition is that of a paused one among them. A
// ledger that is made again of the status remembers that it failed.
func TestWhatTasksAskForIsShown(t *testing.T) {
	now := newWorld(t, 1, 1).clock.Now()
	asks := func(v *view, namespace, change string) {
		task := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, UID: types.UID(namespace + change)}}
		task.Status.Change = change
		v.tasks[task.UID] = task
	}
	for name, c := range map[string]struct {
		prepare func(v *view, in *fleet.Input)
		shown   []string
		message string
	}{
		"nothing asks": {func(*view, *fleet.Input) {}, []string{"new24", "new23"}, ""},
		"none of the policy asks": {func(v *view, in *fleet.Input) {
			asks(v, "elsewhere", "old")
			in.Waiting = []fleet.Candidate{{Task: "w", Etcd: "w", Namespace: "elsewhere", Change: "old", Target: "old"}}
		}, []string{"new24", "new23"}, ""},
		"one asks": {func(v *view, _ *fleet.Input) { asks(v, "ns0", "old") }, []string{"old", "new24"}, "change old is paused"},
		"others run and wait": {func(v *view, in *fleet.Input) {
			asks(v, "ns0", "old")
			in.Ledger.Changes = append(in.Ledger.Changes, fleet.Change{Policy: "all", Name: "runs", Since: now.Add(-time.Hour)}, fleet.Change{Policy: "all", Name: "soaks", Since: now.Add(-2 * time.Hour)}, fleet.Change{Policy: "all", Name: "done", Since: now.Add(time.Hour)})
			in.Ledger.Holders = []fleet.Holder{{Task: "r", Etcd: "r", Policies: []string{"all"}, Change: "runs"}, {Task: "s", Etcd: "s", Policies: []string{"all"}, Change: "soaks", Ended: now}}
			in.Waiting = []fleet.Candidate{{Task: "w", Namespace: "ns0", Change: "waits", Since: now}}
		}, []string{"old", "waits", "runs", "soaks", "new24"}, "change old is paused"},
		"each of those of one namespace is asked for, too": {func(v *view, in *fleet.Input) {
			for i := range in.Ledger.Changes {
				asks(v, "ns0", in.Ledger.Changes[i].Name)
			}
			asks(v, "ns1", "old")
		}, []string{"old", "new24"}, "change old is paused"},
		"another change to its template waits": {func(v *view, in *fleet.Input) {
			in.Waiting = []fleet.Candidate{{Task: "w", Etcd: "w", Namespace: "ns0", Change: "waits", Target: "old", Since: now}}
		}, []string{"old", "waits", "new24"}, "change old is paused"},
	} {
		w := newWorld(t, 2, 1)
		o := w.operator()
		v, err := o.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		in := fleet.Input{Now: now, Policies: v.policies, Covering: v.covering, Ledger: manyPaused(now)}
		c.prepare(v, &in)
		s := o.status(v, in, &v.objects[0])
		var shown []string
		for i := range s.Changes {
			shown = append(shown, s.Changes[i].Change)
		}
		if len(shown) != maxChanges || !slices.Equal(shown[:len(c.shown)], c.shown) {
			t.Errorf("%s: %q, want %q first", name, shown, c.shown)
		}
		paused := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionPaused)
		if c.message == "" && paused != nil || c.message != "" && (paused == nil || paused.Reason != v1alpha1.ReasonChangeFailed || !strings.Contains(paused.Message, c.message)) {
			t.Errorf("%s: %+v, want %q", name, paused, c.message)
		}
		v.objects[0].Status = s
		again := &fleet.Ledger{}
		remember(again, &v.objects[0], now)
		if old := again.Change("all", "old"); c.message != "" && (old == nil || !old.Paused(v.policies["all"])) {
			t.Errorf("%s: %+v is remembered", name, old)
		}
	}
}

// Of the changes to a template that failed, those are shown as paused for which a task waits, and no other.
func TestWhichChangesAreShownAsPaused(t *testing.T) {
	l := &fleet.Ledger{Changes: []fleet.Change{
		{Policy: "all", Name: "failed", Failures: []fleet.Failure{{Etcd: "e0", EtcdName: "main", Reason: "it crashes", Target: "bad"}}},
		{Policy: "all", Name: "recorded"},
		{Policy: "all", Name: "other"},
	}}
	in := fleet.Input{Covering: map[string][]string{"ns": {"all"}}, Ledger: l, Waiting: []fleet.Candidate{
		{Etcd: "e1", Namespace: "ns", Change: "recorded", Target: "bad"},
		{Etcd: "e2", Namespace: "ns", Change: "unrecorded", Target: "bad"},
		{Etcd: "e3", Namespace: "ns", Change: "good", Target: "good"},
	}}
	for _, c := range changesOf(in, &fleet.Policy{Name: "all"}, nil, nil) {
		if want := c.Change != "other" && c.Change != "good"; (c.Paused != "") != want {
			t.Errorf("%s: paused: %q, want that: %t", c.Change, c.Paused, want)
		}
	}
}

// answering has an operator's client answer some requests with an error.
func (o *operator) answering(refuses func(verb string, object any) error) {
	o.Client = interceptor.NewClient(o.client, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := refuses("patch", object); err != nil {
				return err
			}
			return c.Patch(ctx, object, patch, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if err := refuses(name, object); err != nil {
				return err
			}
			return c.SubResource(name).Patch(ctx, object, patch, options...)
		},
	})
}

// What is deleted before it is written to is no error: a task that is to be fenced, and a policy whose status is to be shown.
func TestWhatIsGoneIsNoError(t *testing.T) {
	w := newWorld(t, 1, 1)
	o := w.operator()
	asked := map[string]int{}
	o.answering(func(verb string, _ any) error {
		asked[verb]++
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("any").GroupResource(), "any")
	})
	if _, err := o.Reconcile(t.Context(), ctrl.Request{}); err != nil || asked["patch"] == 0 || asked["status"] == 0 {
		t.Errorf("%v %v", err, asked)
	}
	if l, err := o.Store.Read(t.Context()); err != nil || l.Recorded("all") == nil {
		t.Errorf("%+v %v", l, err)
	}
}

// A ledger that is made for the first time has not been lost.
func TestTheFirstLedger(t *testing.T) {
	w := newWorld(t, 1, 1)
	if l, err := w.operator().Store.Read(t.Context()); err != nil || !l.Rebuilt.IsZero() {
		t.Errorf("%+v %v", l, err)
	}
}

// The default has no canaries and pauses no change, so it follows none.
func TestTheDefaultFollowsNoChange(t *testing.T) {
	w := newWorld(t, 6, 6)
	w.automate()
	task := w.task(0).Object
	task.Spec.Config = "restart: true"
	if err := errors.Join(w.api.Update(t.Context(), task), w.api.Delete(t.Context(), w.read())); err != nil {
		t.Fatal(err)
	}
	if err := w.begin(w.task(0)); err != nil {
		t.Fatal(err)
	}
	o := w.operator()
	o.pass(interval)
	if l, err := o.Store.Read(t.Context()); err != nil || len(l.Holders) != 1 || l.Holders[0].Change != "" || len(l.Changes) > 0 {
		t.Errorf("%+v %v", l, err)
	}
	if v, err := o.look(t.Context()); err != nil {
		t.Error(err)
	} else if c, err := o.candidate(t.Context(), v, w.task(0)); err != nil || c.Change != "" || c.Class != fleet.Automatic {
		t.Errorf("%+v %v", c, err)
	}
}
