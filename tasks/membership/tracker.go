// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/memory"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/members"
	"github.com/etcd-foreman/etcd-foreman/internal/membership"
	"k8s.io/apimachinery/pkg/types"
)

// requestDeadline is how long a request whose answer is lost may still take effect: the time of a step, and that after which etcd
// gives a request up (7s with the default election timeout), with a margin.
const requestDeadline = 15 * time.Second

// tracker keeps the timers of running tasks, and what became of their requests. It lives in memory alone: an operator that starts
// without it waits longer, and never acts sooner (ADR 3).
type tracker struct{ memory.PerTask[tracked] }

type tracked struct {
	timers members.Timers
	// request is when the newest one was recorded, and since when this operator knows it; answered: it takes no effect,
	// since etcd has refused it, or it was not sent.
	request, since time.Time
	answered       bool
	// clearAt is when nothing was last found to keep the Etcd controller from scaling.
	clearAt time.Time
}

// observe adds an observation to the timers of a task. It returns them, and which request may still take effect.
func (t *tracker) observe(task types.UID, known members.Known, request *v1alpha1.MembershipRequest, now time.Time) (members.Timers, string) {
	open := false
	timers := t.Change(task, func(of *tracked) {
		of.timers = of.timers.Next(known)
		open = of.open(request, known.List, now)
	}).timers
	if !open {
		return timers, ""
	}
	return timers, describe(*request)
}

// isOpen reports whether the newest request of a task may still take effect, by what was observed last.
func (t *tracker) isOpen(task types.UID, request *v1alpha1.MembershipRequest, now time.Time) (open bool) {
	t.Change(task, func(of *tracked) { open = of.open(request, nil, now) })
	return open
}

// open reports whether a request may still take effect, and notes what a member list shows of it.
func (of *tracked) open(request *v1alpha1.MembershipRequest, list []etcdclient.Member, now time.Time) bool {
	if request == nil {
		return false
	}
	if at := request.RequestedAt.Time; !at.Equal(of.request) {
		of.request, of.since, of.answered = at, now, false
	}
	of.answered = of.answered || shows(*request, list)
	return !of.answered && now.Sub(of.since) < requestDeadline
}

// answer records that a request takes no effect: etcd has refused it, or it was not sent.
func (t *tracker) answer(task types.UID, at time.Time) {
	t.Change(task, func(of *tracked) { of.request, of.answered = at, true })
}

// noObstacle notes that nothing was found to keep the Etcd controller from scaling.
func (t *tracker) noObstacle(task types.UID, now time.Time) {
	t.Change(task, func(of *tracked) { of.clearAt = now })
}

// shows reports whether a member list shows the effect of a request. It is pure.
func shows(r v1alpha1.MembershipRequest, list []etcdclient.Member) bool {
	if len(list) == 0 {
		return false
	}
	i := slices.IndexFunc(list, func(m etcdclient.Member) bool { return hex(m.ID) == r.Member })
	switch membership.Action(r.Action) {
	case membership.AddLearner:
		return len(list) > int(r.Before)
	case membership.PromoteLearner:
		return i < 0 || !list[i].Learner
	default:
		return i < 0
	}
}

func describe(r v1alpha1.MembershipRequest) string {
	return fmt.Sprintf("%s was requested for %s", r.Action, cmp.Or(r.Pod, "member "+r.Member))
}
