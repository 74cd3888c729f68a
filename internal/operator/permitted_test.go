// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/policy"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
)

// seen keeps the Etcd that a handler is given.
type seen struct {
	tasks.Handler
	etcd *v1alpha1.Etcd
}

func (s *seen) Admit(_ context.Context, t tasks.Task) (tasks.Verdict, error) {
	s.etcd = t.Etcd
	return tasks.Verdict{Outcome: tasks.Continue}, nil
}

func (s *seen) Execute(_ context.Context, t tasks.Task) (tasks.Verdict, error) {
	s.etcd = t.Etcd
	return tasks.Verdict{Outcome: tasks.Done}, nil
}

func (s *seen) Perform(_ context.Context, t tasks.Task, _ tasks.Step) error {
	s.etcd = t.Etcd
	return nil
}

// A Job runs the agent's image of the Etcd: no task of a refused Etcd starts, and one that runs sees no such image.
func TestNoTaskRunsAnImageThatIsNotAllowed(t *testing.T) {
	g := NewWithT(t)
	inner := &seen{}
	h := permitted{inner, policy.Rules{Images: []string{"quay.io/agent"}}}
	etcd := &v1alpha1.Etcd{Spec: v1alpha1.EtcdSpec{Backup: &v1alpha1.BackupSpec{Image: ptr.To("evil.io/agent:v1")}}}
	task := tasks.Task{Etcd: etcd}

	v, err := h.Admit(t.Context(), task)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(v.Outcome).To(Equal(tasks.Reject))
	g.Expect(v.Code).To(Equal(v1alpha1.ErrNotAllowed))
	g.Expect(v.Message).To(ContainSubstring("evil.io/agent:v1"))
	g.Expect(inner.etcd).To(BeNil())

	_, err = h.Execute(t.Context(), task)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(inner.etcd.Spec.Backup.Image).To(BeNil(), "the operator's own agent")
	g.Expect(h.Perform(t.Context(), task, tasks.Step{})).To(Succeed())
	g.Expect(inner.etcd.Spec.Backup.Image).To(BeNil())
	g.Expect(etcd.Spec.Backup.Image).NotTo(BeNil(), "what the cache has is not changed")

	etcd.Spec.Backup.Image = ptr.To("quay.io/agent:v1")
	v, err = h.Admit(t.Context(), task)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(v.Outcome).To(Equal(tasks.Continue))
	_, err = h.Execute(t.Context(), task)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(inner.etcd).To(BeIdenticalTo(etcd))
}
