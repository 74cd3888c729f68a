// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcdtasks

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
)

// A Restore makes a new cluster once it has begun to, and a QuorumLossRecovery goes before it.
func TestRecovering(t *testing.T) {
	g := NewWithT(t)
	task := func(name string, of v1alpha1.TaskType, recovery *v1alpha1.RecoveryStatus) v1alpha1.EtcdOperatorTask {
		t := v1alpha1.EtcdOperatorTask{Spec: v1alpha1.EtcdOperatorTaskSpec{Type: of}}
		t.Name, t.Status.State, t.Status.Recovery = name, v1alpha1.TaskStateInProgress, recovery
		return t
	}
	preview, restore := task("preview", v1alpha1.Restore, nil), task("restore", v1alpha1.Restore, &v1alpha1.RecoveryStatus{Phase: v1alpha1.RecoveryFencing})
	recovery := task("recovery", v1alpha1.QuorumLossRecovery, nil)
	ended := *restore.DeepCopy()
	ended.Status.State = v1alpha1.TaskStateFailed
	g.Expect(Recovering([]v1alpha1.EtcdOperatorTask{preview, ended})).To(BeNil())
	g.Expect(Recovering([]v1alpha1.EtcdOperatorTask{restore}).Name).To(Equal("restore"))
	g.Expect(Recovering([]v1alpha1.EtcdOperatorTask{restore, recovery}).Name).To(Equal("recovery"))
}
