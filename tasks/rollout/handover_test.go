// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	. "github.com/onsi/gomega"
)

// slowLeader answers a while after nobody waits for it any more.
type slowLeader struct {
	etcdclient.Client
	answered atomic.Bool
}

func (l *slowLeader) MoveLeader(ctx context.Context, _ uint64) error {
	<-ctx.Done()
	<-time.After(50 * time.Millisecond)
	l.answered.Store(true)
	return ctx.Err()
}

// leads is a member that says who leads.
type leads struct {
	etcdclient.Client
	leader uint64
}

func (l leads) Status(context.Context) (etcdclient.Status, error) {
	return etcdclient.Status{Leader: l.leader}, nil
}

// The successor is believed before the leader answers; the connection to the leader is used until then, and not closed under its request.
func TestAHandoverEndsWithItsRequests(t *testing.T) {
	g := NewWithT(t)
	leader := &slowLeader{}
	g.Expect(handOver(t.Context(), leader, leads{leader: 7}, 7)).To(Succeed())
	g.Expect(leader.answered.Load()).To(BeTrue())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.Expect(handOver(ctx, leader, leads{leader: 8}, 7)).To(MatchError(context.Canceled))
}

// What was last done is that of the newest pod, once it has ended.
func TestLastOperation(t *testing.T) {
	g := NewWithT(t)
	pods := func(states ...v1alpha1.OperationState) (r v1alpha1.RolloutStatus) {
		for _, state := range states {
			r.Pods = append(r.Pods, v1alpha1.RolloutPod{LastOperation: v1alpha1.LastOperation{State: state}})
		}
		return r
	}
	g.Expect(lastOperation(pods())).To(BeNil())
	g.Expect(lastOperation(pods(v1alpha1.OperationStateCompleted, v1alpha1.OperationStateInProgress))).To(BeNil())
	g.Expect(lastOperation(pods(v1alpha1.OperationStateInProgress, v1alpha1.OperationStateCompleted)).State).To(Equal(v1alpha1.OperationStateCompleted))
}
