// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// world is an API server with one ledger, and counts.
type world struct {
	t                      *testing.T
	api                    client.WithWatch
	reads, writes, rebuilt int
	// fail is returned by the next write, which takes place if lost is set.
	fail error
	lost bool
}

func newWorld(t *testing.T) *world {
	w := &world{t: t}
	write := func(do func() error) error {
		w.writes++
		fail := w.fail
		w.fail = nil
		if fail == nil || w.lost {
			if err := do(); err != nil {
				return err
			}
		}
		return fail
	}
	w.api = interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			w.reads++
			return c.Get(ctx, key, o, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			return write(func() error { return c.Create(ctx, o, options...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			return write(func() error { return c.Update(ctx, o, options...) })
		},
	})
	return w
}

func (w *world) store() *Store {
	return &Store{Client: w.api, Live: w.api, Namespace: "operator", Rebuild: func(context.Context) (*fleet.Ledger, error) {
		w.rebuilt++
		return &fleet.Ledger{}, nil
	}}
}

// object is the ConfigMap.
func (w *world) object() *corev1.ConfigMap {
	w.t.Helper()
	o := &corev1.ConfigMap{}
	if err := w.api.Get(w.t.Context(), types.NamespacedName{Namespace: "operator", Name: Name}, o); err != nil {
		w.t.Fatal(err)
	}
	w.reads--
	return o
}

func grant(task types.UID) func(*fleet.Ledger) bool {
	return func(l *fleet.Ledger) bool {
		if l.Holder(task) != nil {
			return false
		}
		l.Grant(fleet.Holder{Task: task})
		return true
	}
}

func (w *world) holders(s *Store) (all []types.UID) {
	w.t.Helper()
	l, err := s.Read(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, h := range l.Holders {
		all = append(all, h.Task)
	}
	return all
}

// A ledger is made once, read once, and then written without reading it. What is not changed is not written, and what a function does to
// it and does not keep is forgotten.
func TestOneOperator(t *testing.T) {
	w := newWorld(t)
	s := w.store()
	for _, task := range []types.UID{"a", "b", "b"} {
		if err := s.Change(t.Context(), grant(task)); err != nil {
			t.Fatal(err)
		}
	}
	if w.reads != 1 || w.writes != 3 || w.rebuilt != 1 || w.object().Labels[v1alpha1.LabelName] != v1alpha1.ManagedBy {
		t.Errorf("%d reads, %d writes, %d times rebuilt, %v", w.reads, w.writes, w.rebuilt, w.object().Labels)
	}
	full := &fleet.Ledger{Changes: []fleet.Change{{Failures: []fleet.Failure{{}}}}, Failing: []types.UID{"x"}, Over: []types.UID{"x"}, Policies: []fleet.Recorded{{Seconds: []int{1}, Proven: []string{"x"}}}}
	if err := s.Change(t.Context(), func(l *fleet.Ledger) bool { *l = *clone(full); l.Holders = []fleet.Holder{{Task: "a"}}; return true }); err != nil {
		t.Fatal(err)
	}
	if err := s.Change(t.Context(), func(l *fleet.Ledger) bool {
		l.Holders[0].Task, l.Changes[0].Failures[0].Reason, l.Changes[0].Name, l.Failing[0], l.Policies[0].Seconds[0], l.Policies[0].Name = "z", "z", "z", "z", 9, "z"
		l.Over[0], l.Policies[0].Proven[0] = "z", "z"
		return false
	}); err != nil {
		t.Fatal(err)
	}
	l, err := s.Read(t.Context())
	if err != nil || l.Holders[0].Task != "a" || l.Over[0] != "x" || l.Policies[0].Proven[0] != "x" || l.Changes[0].Failures[0].Reason != "" || l.Changes[0].Name != "" || l.Failing[0] != "x" || l.Policies[0].Seconds[0] != 1 || l.Policies[0].Name != "" {
		t.Errorf("%+v %v", l, err)
	}
}

// What a newer operator has written is left to it, since a write would drop the fields that this one does not know, wherever they are. Once
// there is none, the ledger is used again.
func TestALedgerOfANewerOperator(t *testing.T) {
	for name, data := range map[string]string{
		"a field":             `{"holders":[{"task":"a"}],"sealed":true}`,
		"a field of a holder": `{"holders":[{"task":"a","tier":"gold"}]}`,
		"a version":           `{"version":2}`,
		"another type":        `{"holders":{"a":{"task":"a"}},"version":2}`,
		"no field is new":     `{"holders":{"a":{"task":"a"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.store()
			if err := s.Change(t.Context(), grant("a")); err != nil {
				t.Fatal(err)
			}
			object := w.object()
			object.Data[Key] = data
			if err := w.api.Update(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			for _, s := range []*Store{s, w.store()} { // one that knows the ledger of before, and one that starts
				err := s.Change(t.Context(), grant("b"))
				if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "ConfigMap operator/etcd-foreman-fleet") {
					t.Error(err)
				}
				if _, err := s.Read(t.Context()); !errors.Is(err, ErrNewer) {
					t.Error(err)
				}
			}
			if object = w.object(); object.Data[Key] != data || w.rebuilt != 1 {
				t.Errorf("%s, %d times rebuilt", object.Data[Key], w.rebuilt)
			}
			object.Data[Key] = `{"holders":[{"task":"a"}]}`
			if err := w.api.Update(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			if err := s.Change(t.Context(), grant("b")); err != nil || len(w.holders(s)) != 2 {
				t.Errorf("%v %v", err, w.holders(s))
			}
		})
	}
}

// Of two operators, the one that is out of date decides again on what the other has written.
func TestTwoOperators(t *testing.T) {
	w := newWorld(t)
	one, other := w.store(), w.store()
	for i, s := range []*Store{one, other, one, other} {
		if err := s.Change(t.Context(), grant(types.UID(rune('a'+i)))); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.holders(w.store()); len(got) != 4 || w.rebuilt != 1 {
		t.Errorf("%v, %d times rebuilt", got, w.rebuilt)
	}
	asked := 0
	if err := one.Change(t.Context(), func(l *fleet.Ledger) bool { asked++; return grant("d")(l) }); err != nil || asked != 2 {
		t.Errorf("%v: asked %d times", err, asked)
	}
	// One whose first ledger another has made takes that one.
	late := newWorld(t)
	first, second := late.store(), late.store()
	second.Rebuild = func(context.Context) (*fleet.Ledger, error) {
		return &fleet.Ledger{}, first.Change(t.Context(), grant("a"))
	}
	if err := second.Change(t.Context(), grant("b")); err == nil || len(late.holders(second)) != 1 {
		t.Errorf("it overwrites what another has made: %v", err)
	}
	// One that is always late gives up.
	asked = 0
	err := one.Change(t.Context(), func(l *fleet.Ledger) bool {
		asked++
		if err := w.store().Change(t.Context(), grant(types.UID(rune('m'+asked)))); err != nil {
			t.Fatal(err)
		}
		return grant("late")(l)
	})
	if err == nil || asked != tries {
		t.Errorf("%v after %d tries", err, asked)
	}
}

// After an error nothing is known, and all is read again: whether it was written or not.
func TestALostAnswer(t *testing.T) {
	for _, lost := range []bool{true, false} {
		w := newWorld(t)
		s := w.store()
		if err := s.Change(t.Context(), grant("a")); err != nil {
			t.Fatal(err)
		}
		w.fail, w.lost = errors.New("the answer is lost"), lost
		if err := s.Change(t.Context(), grant("b")); err == nil || !strings.Contains(err.Error(), "writing the ledger of the fleet to ConfigMap operator/etcd-foreman-fleet: the answer is lost") {
			t.Errorf("%v", err)
		}
		if got := w.holders(s); (len(got) == 2) != lost || w.reads != 2 {
			t.Errorf("%v, %d reads", got, w.reads)
		}
	}
}

// A ledger that is lost, or cannot be read, is made again; an error in that, and in reading it, is returned.
func TestALostLedger(t *testing.T) {
	w := newWorld(t)
	s := w.store()
	if err := s.Change(t.Context(), grant("a")); err != nil {
		t.Fatal(err)
	}
	if err := w.api.Delete(t.Context(), w.object()); err != nil {
		t.Fatal(err)
	}
	if err := s.Change(t.Context(), grant("b")); err != nil || w.rebuilt != 2 || len(w.holders(s)) != 1 {
		t.Errorf("%v, %d times rebuilt", err, w.rebuilt)
	}
	broken := w.object()
	broken.Data[Key], broken.Labels = "{", nil
	if err := w.api.Update(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	if got := w.holders(w.store()); len(got) != 0 || w.rebuilt != 3 || w.object().Data[Key] == "{" {
		t.Errorf("%v, %d times rebuilt", got, w.rebuilt)
	}
	if err := w.api.Delete(t.Context(), w.object()); err != nil {
		t.Fatal(err)
	}
	away := w.store()
	away.Rebuild = func(context.Context) (*fleet.Ledger, error) { return nil, errors.New("it is away") }
	if _, err := away.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "rebuilding the ledger of the fleet: it is away") {
		t.Error(err)
	}
	if err := away.Change(t.Context(), grant("c")); err == nil {
		t.Error("there is no ledger")
	}
	away.Live = interceptor.NewClient(w.api, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("it is away")
	}})
	if _, err := away.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "reading the ledger of the fleet in ConfigMap operator/etcd-foreman-fleet: it is away") {
		t.Error(err)
	}
}

// A ledger that has reached its size takes no more holders, but whatever releases some.
func TestALargeLedger(t *testing.T) {
	w := newWorld(t)
	s := w.store()
	of := func(size int) func(l *fleet.Ledger) bool {
		return func(l *fleet.Ledger) bool {
			l.Holders = []fleet.Holder{{Task: "a", Baseline: "x"}}
			data, err := json.Marshal(l)
			if err != nil {
				t.Fatal(err)
			}
			l.Holders[0].Baseline = strings.Repeat("x", size-len(data)+1)
			return true
		}
	}
	large := of(maxSize + 1)
	if err := s.Change(t.Context(), large); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	if err := newWorld(t).store().Change(t.Context(), of(maxSize)); err != nil {
		t.Errorf("it is as large as it may be: %v", err)
	}
	if err := s.Change(t.Context(), grant("a")); err != nil {
		t.Fatal(err)
	}
	if err := s.Change(t.Context(), large); err != nil {
		t.Errorf("as many as before: %v", err)
	}
	if err := s.Change(t.Context(), grant("b")); !errors.Is(err, ErrFull) || len(w.holders(s)) != 1 {
		t.Error(err)
	}
	if err := s.Change(t.Context(), func(l *fleet.Ledger) bool { l.Release("a", l.Rebuilt); return true }); err != nil || len(w.holders(s)) != 0 {
		t.Error(err)
	}
}

// watched returns a holder of about the usual size, which is watched.
func watched(i int) fleet.Holder {
	uid := func(of string) types.UID { return types.UID(fmt.Sprintf("%08d-%s-4000-8000-000000000000", i, of)) }
	now := time.Date(2026, 1, 1, 0, 0, 0, 123456789, time.UTC)
	baseline := ""
	for _, member := range []string{"0001", "0002", "0003"} {
		baseline += string(uid(member)) + "@150405,"
	}
	return fleet.Holder{
		Task: uid("0004"), TaskName: "etcd-main-rollout-x7k2p", Namespace: fmt.Sprintf("shoot--project--name%04d", i), Etcd: uid("0005"), EtcdName: "etcd-main",
		ResourceVersion: "1234567890", Policies: []string{"production"}, Change: "v1-0123456789abcdef", Target: "v1-0123456789abcdef", BackedUp: true,
		Granted: now, Ended: now, Baseline: baseline + " backup=ok",
	}
}

// As many clusters as docs/fleet.md says have room. The next one waits, and is told why.
func TestHowManyClustersHaveRoom(t *testing.T) {
	s := newWorld(t).store()
	const documented = 1300
	if err := s.Change(t.Context(), func(l *fleet.Ledger) bool {
		for i := range documented {
			l.Holders = append(l.Holders, watched(i))
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	l, err := s.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes each", len(data)/documented)
	err = s.Change(t.Context(), func(l *fleet.Ledger) bool {
		for i := documented; i < 2*documented; i++ {
			h := watched(i)
			h.Ended = time.Time{}
			l.Holders = append(l.Holders, h)
		}
		return true
	})
	if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "(running tasks: 0, watched clusters: 1300, failures of changes: 0)") {
		t.Error(err)
	}
}

// Why changes have failed is dropped before the next cluster has to wait: of those that no message names first.
func TestFailuresMakeRoom(t *testing.T) {
	s := newWorld(t).store()
	if err := s.Change(t.Context(), func(l *fleet.Ledger) bool {
		for i := range 100 {
			c := fleet.Change{Policy: "production", Name: fmt.Sprintf("v1-%016d", i)}
			for range 20 {
				h := watched(i)
				c.Failures = append(c.Failures, fleet.Failure{Etcd: h.Etcd, Namespace: h.Namespace, EtcdName: h.EtcdName, Target: h.Target, Reason: strings.Repeat("x", 300), At: h.Granted})
			}
			l.Changes = append(l.Changes, c)
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Change(t.Context(), grant("a")); err != nil {
		t.Fatal(err)
	}
	l, err := s.Read(t.Context())
	if err != nil || len(l.Changes) != 100 {
		t.Fatal(err)
	}
	for _, c := range l.Changes {
		if len(c.Failures) != 20 || c.Failures[0].Reason != strings.Repeat("x", 300) {
			t.Fatalf("%+v", c)
		}
	}
	if l.Changes[0].Failures[19].Reason != "the reason is not kept" {
		t.Errorf("%+v", l.Changes[0].Failures[19])
	}
}

// What runs already is recorded also where no other cluster has room: tasks of a new policy, and what a person has bypass it.
func TestWhatRunsHasRoom(t *testing.T) {
	s := newWorld(t).store()
	fill := func(l *fleet.Ledger) bool {
		for i := range 1300 {
			l.Holders = append(l.Holders, watched(i))
		}
		l.Holders[0].Baseline = strings.Repeat("x", 100<<10)
		return true
	}
	if err := s.Change(t.Context(), fill); !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	if err := s.Change(t.Context(), func(l *fleet.Ledger) bool {
		fill(l)
		for i := range l.Holders {
			l.Holders[i].Unasked = true
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Change(t.Context(), grant("a")); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	if err := s.Change(t.Context(), func(l *fleet.Ledger) bool { l.Grant(fleet.Holder{Task: "b", Unasked: true}); return true }); err != nil {
		t.Error(err)
	}
}

// Holders that were granted while there was room, and grow since, do not keep anything from being written: what is known again later, or only
// explains, is dropped before the API server would refuse it.
func TestALedgerThatGrows(t *testing.T) {
	w := newWorld(t)
	w.api = interceptor.NewClient(w.api, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if len(o.(*corev1.ConfigMap).Data[Key]) > 1<<20 {
				return errors.New("too long: may not be more than 1048576 bytes")
			}
			return c.Update(ctx, o, options...)
		},
	})
	s := w.store()
	uid := func(i int) types.UID { return types.UID(fmt.Sprintf("%036d", i)) }
	fill := func(l *fleet.Ledger) bool {
		for i := range 100 {
			l.Changes = append(l.Changes, fleet.Change{Policy: "p", Name: fmt.Sprint(i), Failures: []fleet.Failure{{Etcd: uid(i), Reason: strings.Repeat("<", 300)}}})
		}
		return true
	}
	if err := s.Change(t.Context(), fill); err != nil {
		t.Fatal(err)
	}
	const step = 400
	n := 0
	for full := false; !full; {
		err := s.Change(t.Context(), func(l *fleet.Ledger) bool {
			for range step {
				l.Grant(fleet.Holder{Task: uid(n), TaskName: "task", Namespace: "ns", Etcd: uid(n), EtcdName: "main", ResourceVersion: "123456789", Policies: []string{"p"}, Change: "0", Granted: l.Rebuilt})
				n++
			}
			return true
		})
		if full = errors.Is(err, ErrFull); err != nil && !full {
			t.Fatal(err)
		}
	}
	grow := func(l *fleet.Ledger) bool {
		for i := range l.Holders {
			l.Holders[i].Ended, l.Holders[i].Baseline = l.Rebuilt.Add(time.Nanosecond), strings.Repeat("x", 300)
		}
		l.Release(l.Holders[0].Task, l.Rebuilt)
		return true
	}
	if err := s.Change(t.Context(), grow); err != nil {
		t.Fatal(err)
	}
	l, err := s.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, h := range l.Holders {
		if h.Baseline != "" {
			compared++
		}
	}
	if len(l.Holders) != n-step-1 || len(l.Changes) != 100 || len(l.Changes[0].Failures) != 1 || compared == 0 || compared == len(l.Holders) || l.Holders[0].Baseline == "" {
		t.Errorf("%d holders of %d, %d changes, %d are compared", len(l.Holders), n, len(l.Changes), compared)
	}
}
