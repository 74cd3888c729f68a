// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
)

const (
	own         = 30 * time.Second
	shortPeriod = 2 * time.Second
)

func TestGracePeriod(t *testing.T) {
	is := func(class v1alpha1.PodClass, changes ...func(*cluster.Ordinal)) *cluster.Ordinal {
		o := &cluster.Ordinal{Name: "m-0", Class: class, Pod: &cluster.Pod{GracePeriod: own}}
		for _, change := range changes {
			change(o)
		}
		return o
	}
	answers := func(o *cluster.Ordinal) { o.Answers = true }
	serves := func(o *cluster.Ordinal) { o.Answers, o.Serving = true, true }
	ready := func(o *cluster.Ordinal) { o.Pod.Ready, o.Pod.AllContainersReady = true, true }
	behind := func(o *cluster.Ordinal) { o.Answers, o.Lag = true, cluster.MaxLag+1 }
	onLostNode := func(o *cluster.Ordinal) { o.Pod.Node.Trouble = "not ready" }
	markedUnready := func(o *cluster.Ordinal) { o.Pod.AllContainersReady, o.Pod.NodeLost = true, true }
	for name, c := range map[string]struct {
		ordinal *cluster.Ordinal
		cutOff  bool
		want    time.Duration
	}{
		"dead":                                   {is(v1alpha1.ClassDead), false, shortPeriod},
		"starting":                               {is(v1alpha1.ClassStarting), false, shortPeriod},
		"dead, by the word of a lost node":       {is(v1alpha1.ClassDead, onLostNode), false, 0},
		"dead, while the operator is cut off":    {is(v1alpha1.ClassDead), true, shortPeriod},
		"frozen":                                 {is(v1alpha1.ClassUnready), false, shortPeriod},
		"frozen on a lost node":                  {is(v1alpha1.ClassUnready, onLostNode), false, 0},
		"marked by the node controller":          {is(v1alpha1.ClassUnready, markedUnready), false, 0},
		"frozen, while the operator is cut off":  {is(v1alpha1.ClassUnready), true, 0},
		"without a leader":                       {is(v1alpha1.ClassUnready, answers), false, shortPeriod},
		"not far behind, and without a leader":   {is(v1alpha1.ClassUnready, func(o *cluster.Ordinal) { o.Answers, o.Lag = true, cluster.MaxLag }), false, shortPeriod},
		"catching up":                            {is(v1alpha1.ClassUnready, behind), false, 0},
		"serving, with a probe that fails":       {is(v1alpha1.ClassUnready, serves), false, 0},
		"unreachable, with a probe that passes":  {is(v1alpha1.ClassUnready, ready), false, 0},
		"participating":                          {is(v1alpha1.ClassParticipating, serves, ready), false, 0},
		"terminating":                            {is(v1alpha1.ClassTerminating), false, 0},
		"missing":                                {&cluster.Ordinal{Name: "m-0", Class: v1alpha1.ClassMissing}, false, 0},
		"dead, with a shorter period of its own": {is(v1alpha1.ClassDead, func(o *cluster.Ordinal) { o.Pod.GracePeriod = time.Second }), false, 0},
		"dead, with the same period of its own":  {is(v1alpha1.ClassDead, func(o *cluster.Ordinal) { o.Pod.GracePeriod = shortPeriod }), false, 0},
		"dead, with a period of its own of zero": {is(v1alpha1.ClassDead, func(o *cluster.Ordinal) { o.Pod.GracePeriod = 0 }), false, 0},
	} {
		got, why := gracePeriod(c.ordinal, shortPeriod, c.cutOff)
		if got != c.want || (why == "") != (c.want == 0) {
			t.Errorf("%s: %s (%q), want %s", name, got, why, c.want)
		}
	}
}
