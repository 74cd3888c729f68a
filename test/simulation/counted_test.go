// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/loop"
	"k8s.io/apimachinery/pkg/types"
)

// newWorld makes a world of one Etcd.
func newWorld(t *testing.T) *World {
	t.Helper()
	w, err := New(1, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// A cluster counts once, however many holders it has, and one that was created again under the name of another is another one.
func TestTheLedgerIsCountedByCluster(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for name, c := range map[string]struct {
		holders []fleet.Holder
		says    string
	}{
		"two of one cluster":         {[]fleet.Holder{{Task: "1", Etcd: "a", EtcdName: "main"}, {Task: "2", Etcd: "a", EtcdName: "main"}}, ""},
		"two clusters":               {[]fleet.Holder{{Etcd: "a", EtcdName: "main"}, {Etcd: "b", EtcdName: "other"}}, "main and other"},
		"two of the same name":       {[]fleet.Holder{{Etcd: "a", EtcdName: "main"}, {Etcd: "b", EtcdName: "main"}}, "main and main"},
		"one is watched":             {[]fleet.Holder{{Etcd: "a", EtcdName: "main", Ended: now}, {Etcd: "b", EtcdName: "other"}}, ""},
		"one is a canary, watched":   {[]fleet.Holder{{Etcd: "a", EtcdName: "main", Ended: now, Canary: true}, {Etcd: "b", EtcdName: "other"}}, "main and other"},
		"one runs without asking":    {[]fleet.Holder{{Etcd: "a", EtcdName: "main", Unasked: true}, {Etcd: "b", EtcdName: "other"}}, ""},
		"one of them is one of both": {[]fleet.Holder{{Etcd: "a", EtcdName: "main", Unasked: true}, {Etcd: "a", EtcdName: "main"}, {Etcd: "b", EtcdName: "other"}}, "main and other"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(fleet.Ledger{Holders: c.holders})
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(t)
			newFleetJudge(w, 1).ledger(string(text))
			if got := strings.Join(w.Broken, "; "); (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
				t.Errorf("%q, want %q", got, c.says)
			}
		})
	}
}

// What a controller writes again and again is noticed once, by its verb and its object; another object, another controller and another minute
// have counts of their own.
func TestRepeatedWritesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		write := func(who, verb, name string) aimed {
			return aimed{who: who, Request: apiserver.Request{Verb: verb, Kind: "Pod", Key: types.NamespacedName{Namespace: Namespace, Name: name}, Writes: true}}
		}
		same := write("a/etcd", "patch", "main-0")
		noticed := func() (at []int) {
			for n := range mostOften + 10 {
				if w.again(same) {
					at = append(at, n+1)
				}
			}
			return at
		}
		if at := noticed(); !slices.Equal(at, []int{mostOften}) {
			t.Errorf("noticed at %v", at)
		}
		for _, other := range []aimed{write("b/etcd", "patch", "main-0"), write("a/etcd", "delete", "main-0"), write("a/etcd", "patch", "main-1")} {
			for range mostOften - 1 {
				if w.again(other) {
					t.Errorf("%s %s is taken for another", other.who, other)
				}
			}
		}
		<-time.After(time.Minute)
		if at := noticed(); !slices.Equal(at, []int{mostOften}) {
			t.Errorf("in the next minute, noticed at %v", at)
		}
		<-time.After(time.Minute)
		first, second := &operator{actor: &loop.Actor{}}, &operator{actor: &loop.Actor{}}
		w.operators = []*operator{first, second}
		if at := noticed(); len(at) > 0 {
			t.Errorf("beside another operator, noticed at %v", at)
		}
		first.actor.Paused = true
		if at := noticed(); !slices.Equal(at, []int{mostOften}) {
			t.Errorf("beside one that is paused, noticed at %v", at)
		}
	})
}
