// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
)

// answering is a member that answers as its functions do.
type answering struct {
	etcdclient.Client
	move   func(ctx context.Context) error
	status func(ctx context.Context) (etcdclient.Status, error)
}

func (a answering) MoveLeader(ctx context.Context, _ uint64) error { return a.move(ctx) }

func (a answering) Status(ctx context.Context) (etcdclient.Status, error) { return a.status(ctx) }

func TestHandOver(t *testing.T) {
	const successor = 2
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	refuse := func(context.Context) error { return errors.New("not leader") }
	// later is after the successor was asked.
	later := func(ctx context.Context) error {
		select {
		case <-time.After(10 * handoverPoll):
		case <-ctx.Done():
		}
		return refuse(ctx)
	}
	accept := func(context.Context) error { return nil }
	says := func(leader uint64) func(context.Context) (etcdclient.Status, error) {
		return func(context.Context) (etcdclient.Status, error) { return etcdclient.Status{Leader: leader}, nil }
	}
	silent := func(ctx context.Context) (etcdclient.Status, error) { return etcdclient.Status{}, hang(ctx) }
	for name, test := range map[string]struct {
		move   func(context.Context) error
		status func(context.Context) (etcdclient.Status, error)
		want   string
	}{
		"the successor knows before the leader answers": {move: hang, status: says(successor)},
		"the leader answers, the successor is silent":   {move: accept, status: silent},
		"the leader refuses, the successor is silent":   {move: refuse, status: silent, want: "not leader"},
		"the leader refuses, another one leads":         {move: refuse, status: says(3), want: "not leader"},
		"the leader refuses later, another one leads":   {move: later, status: says(3), want: "not leader"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := handOver(t.Context(), answering{move: test.move}, answering{status: test.status}, successor)
			if test.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(ContainSubstring(test.want)))
			}
		})
	}
}

// After a refusal a removal cannot come any more. A conflict may say that another operator has sent it already, and the
// pod will tell: a cache that still shows it as it was must not have it recorded as not carried out.
func TestWhatIsARefusal(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, c := range map[string]struct {
		answer  error
		refused bool
	}{
		"done":                  {nil, false},
		"gone":                  {apierrors.NewNotFound(pods, "m-0"), false},
		"no answer":             {context.DeadlineExceeded, false},
		"the server is in need": {apierrors.NewInternalError(errors.New("etcd")), false},
		"a budget":              {apierrors.NewTooManyRequests("disruption budget", 0), true},
		"malformed":             {apierrors.NewBadRequest("no"), true},
		"not allowed":           {apierrors.NewForbidden(pods, "m-0", errors.New("policy")), true},
		"a conflict":            {apierrors.NewConflict(pods, "m-0", errors.New("the ResourceVersion in the precondition does not match")), false},
	} {
		t.Run(name, func(t *testing.T) {
			h := &Handler{Clock: clocktesting.NewFakePassiveClock(noon)}
			d := detail{in: rollout.Input{Snapshot: observed(noon), Config: rollout.DefaultConfig()}}
			err := h.refusable(tasks.Task{Object: &v1alpha1.EtcdOperatorTask{}}, d, 0, "deleting", c.answer)
			g := NewWithT(t)
			g.Expect(err != nil).To(Equal(c.answer != nil && !apierrors.IsNotFound(c.answer)))
			g.Expect(h.tracker.refusals("")).To(HaveLen(map[bool]int{true: 1}[c.refused]))
		})
	}
}
