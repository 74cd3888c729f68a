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
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// slowLeader answers a while after the operator has stopped waiting.
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

// While leadership moves, the task says so: what it said of the pod before would be a write for some milliseconds, and the next step another.
func TestAHandoverThatDoesNotShowYet(t *testing.T) {
	// m-0 leads, the others are updated. m-1 was asked to take over, and m-2 does not know a leader.
	between := observed(noon, updated(1, 2), func(s *cluster.Snapshot) { s.Ordinals[2].Serving = false })
	for name, c := range map[string]struct {
		after time.Duration
		told  bool
	}{"a moment ago": {30 * time.Millisecond, false}, "and has not happened": {rollout.HandoverWindow, true}} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, between, between)
			r.task.Object.Status.Rollout = &v1alpha1.RolloutStatus{
				TargetRevision: "new", LeaderHandover: &v1alpha1.LeaderHandover{From: "m-0", To: "m-1", Attempts: 1, LastAttemptTime: metav1.Time{Time: noon}},
				Pods: []v1alpha1.RolloutPod{{Name: "m-1", UID: "before", LastOperation: v1alpha1.LastOperation{Name: "DeletePod", State: v1alpha1.OperationStateCompleted}}},
			}
			r.clock.SetTime(noon.Add(c.after))
			v, err := r.handler.Execute(t.Context(), r.task)
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(v.Step).To(BeNil(), v.Message)
			r.Expect(v.LastOperation != nil).To(Equal(c.told))
		})
	}
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
