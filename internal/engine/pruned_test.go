// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// The definition of another version prunes the fields that it does not know. No step is carried out whose intent was pruned, and a task ends
// nevertheless.
func TestPrunedIntent(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", v1alpha1.TaskStateInProgress)
	e := newEngine(t, s)
	prunes := true
	e.Client = interceptor.NewClient(s.Client.(client.WithWatch), interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, options ...client.SubResourceUpdateOption) error {
			if prunes {
				o.(*v1alpha1.EtcdOperatorTask).Status.Rollout = nil
			}
			return c.SubResource(sub).Update(ctx, o, options...)
		},
	})
	verdict := step()
	verdict.Rollout = &v1alpha1.RolloutStatus{TargetRevision: "main-2"}
	e.execute = func() tasks.Verdict { return verdict }

	for range 3 {
		e.Expect(e.look()).To(BeNumerically(">", 0), "it is tried again")
		e.clock.SetTime(e.clock.Now().Add(detailInterval))
	}
	e.Expect(e.performed).To(BeEmpty())
	e.Expect(e.events).To(Receive(And(HavePrefix("Warning"), ContainSubstring("status.rollout"), ContainSubstring("config/crd"))))

	prunes = false
	e.look()
	e.Expect(e.performed).To(Equal([]string{"a"}), "the right definition is installed")

	prunes, verdict = true, tasks.Verdict{Outcome: tasks.Done, Rollout: verdict.Rollout}
	verdict.Rollout.UpdatedReplicas = 1
	e.clock.SetTime(e.clock.Now().Add(detailInterval))
	e.look()
	e.Expect(s.get(t, "a").Status.State).To(Equal(v1alpha1.TaskStateSucceeded))
	e.Expect(e.books.of(s.get(t, "a")).run).To(BeNil(), "no slot is kept for it")
}
