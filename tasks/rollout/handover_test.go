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
	"k8s.io/apimachinery/pkg/types"
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

// Once leadership is to move, the task says so, and not again what it said of the pod before.
func TestAHandoverThatDoesNotShowYet(t *testing.T) {
	// m-0 leads, the others are updated. m-1 was asked to take over, and m-2 does not know a leader.
	between := observed(noon, updated(1, 2), func(s *cluster.Snapshot) { s.Ordinals[2].Serving = false })
	for name, after := range map[string]time.Duration{"a moment ago": 30 * time.Millisecond, "and has not happened": rollout.HandoverWindow} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, between, between)
			r.task.Object.Status.Rollout = &v1alpha1.RolloutStatus{
				TargetRevision: "new", LeaderHandover: &v1alpha1.LeaderHandover{From: "m-0", To: "m-1", Attempts: 1, LastAttemptTime: metav1.Time{Time: noon}},
				Pods: []v1alpha1.RolloutPod{{Name: "m-1", UID: "before", LastOperation: v1alpha1.LastOperation{Name: "DeletePod", State: v1alpha1.OperationStateCompleted}}},
			}
			r.clock.SetTime(noon.Add(after))
			v, err := r.handler.Execute(t.Context(), r.task)
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(v.Step).To(BeNil(), v.Message)
			r.Expect(v.LastOperation).To(BeNil(), "the handover is the newest step")
		})
	}
}

// The end of a pod's replacement is told once: what came after it, such as a handover or a snapshot, is the newest step.
func TestLastOperation(t *testing.T) {
	g := NewWithT(t)
	const runs, completed = v1alpha1.OperationStateInProgress, v1alpha1.OperationStateCompleted
	pods := func(states ...v1alpha1.OperationState) (r v1alpha1.RolloutStatus) {
		for i, state := range states {
			r.Pods = append(r.Pods, v1alpha1.RolloutPod{UID: types.UID(rune('a' + i)), LastOperation: v1alpha1.LastOperation{State: state}})
		}
		return r
	}
	g.Expect(lastOperation(pods(), pods())).To(BeNil())
	g.Expect(lastOperation(pods(runs), pods(completed, runs))).To(BeNil())
	g.Expect(lastOperation(pods(completed, runs), pods(completed, completed)).State).To(Equal(completed))
	g.Expect(lastOperation(pods(completed, completed), pods(completed, completed))).To(BeNil())
	g.Expect(lastOperation(pods(runs, completed), pods(completed, completed))).To(BeNil())
}
