// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet/store"
	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/simulated"
	"github.com/etcd-foreman/etcd-foreman/test/bench/target"
	corev1 "k8s.io/api/core/v1"
)

// A revision counts the slots that are in use: not those of clusters that are only watched.
func TestRevisionsOfALedger(t *testing.T) {
	watched := fleet.Holder{Ended: time.Unix(1, 0)}
	canary := watched
	canary.Canary = true
	judge := &twins{limit: 3}
	for _, holders := range [][]fleet.Holder{{{}, {}}, {{}, {}, {}, watched, canary}, {{}}} {
		data, err := json.Marshal(fleet.Ledger{Holders: holders})
		if err != nil {
			t.Fatal(err)
		}
		if err := judge.see(&corev1.ConfigMap{Data: map[string]string{store.Key: string(data)}}); err != nil {
			t.Fatal(err)
		}
	}
	if judge.Revisions != 3 || judge.Slots != 4 || len(judge.Exceeded) != 1 {
		t.Errorf("%+v", judge)
	}
	if err := judge.see(&corev1.ConfigMap{}); err == nil {
		t.Error("a ledger that cannot be read is no error")
	}
	judge.AtOnce = 2
	if target.Met(judge.targets(3)) || !target.Met(judge.targets(4)) {
		t.Errorf("%+v", judge.targets(3))
	}
}

func TestAtOnce(t *testing.T) {
	entry := func(second int64, ready bool) simulated.Entry {
		return simulated.Entry{At: time.Unix(second, 0), Ready: ready}
	}
	rolled := func(from, until int64) []simulated.Entry {
		return []simulated.Entry{entry(from, false), entry(from+1, true), entry(until-1, false), entry(until, true)}
	}
	for name, c := range map[string]struct {
		each [][]simulated.Entry
		want int
	}{
		"none":                         {[][]simulated.Entry{nil}, 0},
		"one after the other":          {[][]simulated.Entry{rolled(0, 10), nil, rolled(10, 20)}, 1},
		"two of three":                 {[][]simulated.Entry{rolled(0, 10), rolled(9, 20), rolled(10, 15)}, 2},
		"between two pods is underway": {[][]simulated.Entry{rolled(0, 10), rolled(4, 5)}, 2},
		"one that has not ended":       {[][]simulated.Entry{{entry(0, false)}, rolled(50, 60)}, 2},
	} {
		if got := atOnce(c.each); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
