// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/status"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var errBroken = errors.New("broken")

func failing(name string, err error, passable bool) stage {
	return stage{name: name, code: v1alpha1.ErrApply, run: func(*pass, context.Context) error { return err }, passable: passable}
}

func TestThrough(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{}, "x", errBroken)
	for name, tc := range map[string]struct {
		err         error
		passable    bool
		complete    bool
		interrupted bool
		errs        int
		reached     bool
	}{
		"success":                    {nil, false, true, false, 0, true},
		"skipped":                    {errSkipped, false, true, false, 0, true},
		"failed":                     {errBroken, false, false, false, 1, false},
		"failed, the rest continues": {errBroken, true, true, false, 1, true},
		"behind":                     {state.ErrBehind, true, false, true, 0, false},
		"a conflict":                 {conflict, true, false, true, 0, false},
		"canceled":                   {context.Canceled, true, false, true, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := &pass{parts: &parts{Access: state.Access{Clock: clock.RealClock{}}}, etcd: &v1alpha1.Etcd{}}
			reached := false
			last := stage{name: "last", run: func(*pass, context.Context) error { reached = true; return nil }}
			complete, interrupted := p.through(t.Context(), []stage{failing("first", tc.err, tc.passable), last})
			g.Expect(complete).To(Equal(tc.complete))
			g.Expect(interrupted != nil).To(Equal(tc.interrupted))
			g.Expect(p.errs).To(HaveLen(tc.errs))
			g.Expect(reached).To(Equal(tc.reached))
		})
	}
}

// A transient error enters the status when it occurs for the second time in a row and has lasted for two seconds, and leaves it
// at the first success. A stage that is not reached, or is skipped, keeps its error.
func TestWhenAFailureIsReported(t *testing.T) {
	g := NewWithT(t)
	var f failures
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	soon, later := noon.Add(reportAfter-1), noon.Add(reportAfter)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "main", UID: "etcd"}}
	named := func(name string) stage {
		return stages[slices.IndexFunc(stages, func(s stage) bool { return s.name == name })]
	}
	spec, volumes := named("spec"), named("volumes")
	g.Expect(f.reported(etcd, noon)).To(BeEmpty())
	f.note(etcd, spec, errBroken, noon.Add(-time.Hour))
	g.Expect(f.reported(etcd, noon)).To(BeEmpty(), "once")
	f.note(etcd, spec, nil, noon)
	f.note(etcd, spec, errBroken, noon)
	g.Expect(f.reported(etcd, later)).To(BeEmpty(), "the first failure after a success")
	f.note(etcd, volumes, errBroken, noon)
	g.Expect(f.reported(etcd, later)).To(BeEmpty(), "an error of another stage does not count")
	f.note(etcd, spec, errBroken, soon)
	g.Expect(f.reported(etcd, soon)).To(BeEmpty(), "twice within milliseconds")
	g.Expect(f.reported(etcd, later)).To(HaveLen(1))
	g.Expect(f.summary(etcd, later, false)).To(Equal("spec"))
	g.Expect(f.summary(etcd, later, true)).To(Equal("spec,foreign objects"))
	f.note(etcd, volumes, errBroken, later)
	g.Expect(f.reported(etcd, later)).To(HaveLen(2))
	f.note(etcd, spec, nil, later)
	g.Expect(f.reported(etcd, later)).To(HaveLen(1))
	f.note(etcd, volumes, nil, later)
	g.Expect(f.reported(etcd, later)).To(BeEmpty())

	// A new operator does not know how long the stage has failed: the reported error stays.
	etcd.Status.LastErrors = []v1alpha1.LastError{{Code: v1alpha1.ErrApply, Description: "another"}}
	f.note(etcd, spec, errBroken, later)
	g.Expect(f.reported(etcd, later)).To(BeEmpty(), "an error of the same code")
	etcd.Status.LastErrors[0].Description = errBroken.Error()
	g.Expect(f.reported(etcd, later)).To(HaveLen(1))
}

// What a stage waits for does not hide a failure that it has had, and a failure does not wait for a minute because the stage has waited before.
func TestAWaitBesideAFailure(t *testing.T) {
	g := NewWithT(t)
	var f failures
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "main", UID: "etcd"}}
	spec := stages[slices.IndexFunc(stages, func(s stage) bool { return s.name == "spec" })]
	for range 2 {
		f.note(etcd, spec, errBroken, noon)
	}
	f.await(etcd, spec, state.Awaits("later"), noon.Add(time.Hour))
	g.Expect(f.reported(etcd, noon.Add(time.Hour))).To(ConsistOf(HaveField("Err", errBroken)))
	f.note(etcd, spec, nil, noon)

	f.await(etcd, spec, state.Awaits("later"), noon)
	g.Expect(f.reported(etcd, noon.Add(awaitAfter))).To(BeEmpty(), "once")
	f.await(etcd, spec, state.Awaits("later"), noon.Add(time.Second))
	g.Expect(f.reported(etcd, noon.Add(awaitAfter-1))).To(BeEmpty())
	g.Expect(f.reported(etcd, noon.Add(awaitAfter))).To(ConsistOf(And(HaveField("Waits", true), HaveField("Code", v1alpha1.ErrApply))))
	g.Expect(f.summary(etcd, noon.Add(awaitAfter), false)).To(HavePrefix("spec"))
	f.note(etcd, spec, errBroken, noon.Add(awaitAfter))
	g.Expect(f.reported(etcd, noon.Add(awaitAfter+reportAfter))).To(BeEmpty(), "it has failed once")
	f.note(etcd, spec, errBroken, noon.Add(awaitAfter+1))
	g.Expect(f.reported(etcd, noon.Add(awaitAfter+reportAfter))).To(ConsistOf(HaveField("Err", errBroken)))
}

// A stage that has failed once, and waits from then on, says after a minute what it waits for; so does one that has failed before, and nothing
// that was waited for is said once the stage does not wait.
func TestAWaitAfterAFailure(t *testing.T) {
	g := NewWithT(t)
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "main", UID: "etcd"}}
	spec := stages[slices.IndexFunc(stages, func(s stage) bool { return s.name == "spec" })]
	later := noon.Add(awaitAfter)
	waits := func(f *failures) {
		f.await(etcd, spec, state.Awaits("later"), noon)
		f.await(etcd, spec, state.Awaits("later"), later)
	}
	for failed := range 3 {
		var f failures
		for range failed {
			f.note(etcd, spec, errBroken, noon)
		}
		waits(&f)
		g.Expect(f.reported(etcd, later)).To(ConsistOf(HaveField("Waits", true)), "failed %d times before", failed)
		g.Expect(f.summary(etcd, later, false)).To(ContainSubstring("spec"))
	}
	for name, end := range map[string]func(*failures){
		"it has failed":    func(f *failures) { f.note(etcd, spec, errBroken, later) },
		"it has succeeded": func(f *failures) { f.note(etcd, spec, nil, later) },
		"it does not wait": func(f *failures) { f.endWaits(etcd, []stage{spec}) },
		"it waits again":   func(f *failures) { f.endWaits(etcd, []stage{spec}); f.await(etcd, spec, state.Awaits("later"), later) },
		"it has failed once": func(f *failures) {
			f.note(etcd, spec, errBroken, later)
			f.await(etcd, spec, state.Awaits("later"), later)
		},
	} {
		var f failures
		waits(&f)
		end(&f)
		g.Expect(f.reported(etcd, later.Add(reportAfter))).To(BeEmpty(), name)
	}
}

// A wait ends with its cause also if its stage is skipped then, is not reached, or conflicts.
func TestAWaitOfAStageThatIsNotReached(t *testing.T) {
	behind := state.Awaits("later")
	for name, stages := range map[string][]stage{
		"skipped":                {failing("spec", errSkipped, false)},
		"not reached":            {failing("read", errBroken, false), failing("spec", behind, false)},
		"not reached, by a wait": {failing("read", state.Awaits("another"), false), failing("spec", behind, false)},
		"a conflict":             {failing("spec", apierrors.NewConflict(schema.GroupResource{}, "x", errBroken), false)},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := &pass{parts: &parts{Access: state.Access{Clock: clock.RealClock{}}}, etcd: &v1alpha1.Etcd{}}
			for range 2 {
				_, _ = p.through(t.Context(), []stage{failing("spec", behind, false)})
			}
			later := time.Now().Add(awaitAfter)
			g.Expect(p.failures.summary(p.etcd, later, false)).To(HavePrefix("spec"))
			_, _ = p.through(t.Context(), stages)
			g.Expect(p.failures.summary(p.etcd, later, false)).To(BeEmpty())
		})
	}
}

// A conflict of a stage that nothing rests on does not keep the others from their work.
func TestConflictOfAStageThatStandsAlone(t *testing.T) {
	g := NewWithT(t)
	p := &pass{parts: &parts{Access: state.Access{Clock: clock.RealClock{}}}, etcd: &v1alpha1.Etcd{}}
	alone := failing("first", apierrors.NewConflict(schema.GroupResource{}, "x", errBroken), true)
	alone.independent = true
	complete, interrupted := p.through(t.Context(), []stage{alone, failing("last", nil, false)})
	g.Expect(complete).To(BeTrue())
	g.Expect(interrupted).To(Satisfy(apierrors.IsConflict))
	g.Expect(p.errs).To(BeEmpty())
}

// unreadable is an API server that answers no list.
type unreadable struct{ client.Client }

func (unreadable) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errBroken
}

// The status keeps a recovery for as long as it is not known whether a task still keeps it, and the error is reported.
func TestRecoveryIsKeptWhileItsTaskIsUnknown(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}, Spec: v1alpha1.EtcdSpec{Replicas: 1}, Status: v1alpha1.EtcdStatus{
		ClusterID: "beef", ClusterSize: 1, Recovery: &v1alpha1.ClusterRecovery{Task: "gone", TaskUID: "gone", PreviousClusterID: "cafe"},
	}}
	voter := cluster.Ordinal{Name: "main-0", Class: v1alpha1.ClassParticipating, Role: v1alpha1.RoleLeader, MemberID: 1, Answers: true, Serving: true}
	p := &pass{parts: &parts{Access: state.Access{API: unreadable{}, Clock: clock.RealClock{}}}, etcd: etcd}
	p.found.State = &state.State{Etcd: etcd, Snapshot: &cluster.Snapshot{
		Ordinals: []cluster.Ordinal{voter},
		Cluster:  cluster.Cluster{ID: 0xbeef, Reachable: true, LeaderKnown: true, Voters: []cluster.Voter{{ID: 1, Name: "main-0", Serving: true}}},
	}}
	g.Expect(status.Next(p.found).Recovery).To(BeNil(), "the cluster is rebuilt, and the task is gone")
	complete, _ := p.through(t.Context(), stages[len(stages)-1:])
	g.Expect(complete).To(BeTrue(), "the rest of the status is written")
	g.Expect(p.recoveryReads).To(BeNil())
	g.Expect(p.failures.Of(etcd)).To(HaveKeyWithValue("recovery", HaveField("Failure", And(HaveField("Code", v1alpha1.ErrObserve), HaveField("Err", MatchError(errBroken))))))
}

// What decides on the members ends a reconcile that it fails in, and whatever else fails keeps no later stage from its work. A conflict is
// passed over where later stages do not rest on the result.
func TestWhichFailuresEndAReconcile(t *testing.T) {
	ends := []string{"read", "adoption", "ownership", "hold", "members", "policy", "wake-up", "source cluster", "first start", "instructions", "operation"}
	rests := append([]string{"TLS", "spec", "advertised URLs"}, ends...)
	conflict := apierrors.NewConflict(schema.GroupResource{}, "x", errBroken)
	for _, all := range [][]stage{stages, followUps} {
		for i, failing := range all {
			for err, stops := range map[error][]string{errBroken: ends, conflict: rests} {
				p := &pass{parts: &parts{Access: state.Access{Clock: clock.RealClock{}}}, etcd: &v1alpha1.Etcd{}}
				reached := 0
				trial := slices.Clone(all)
				for j := range trial {
					trial[j].run = func(*pass, context.Context) error {
						if reached++; j == i {
							return err
						}
						return nil
					}
				}
				complete, _ := p.through(t.Context(), trial)
				NewWithT(t).Expect(complete).To(Equal(!slices.Contains(stops, failing.name)), "%s: %v", failing.name, err)
				NewWithT(t).Expect(reached == len(all)).To(Equal(complete || i == len(all)-1), failing.name)
			}
		}
	}
}
