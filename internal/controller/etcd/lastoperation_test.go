// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
)

var errBroken = errors.New("broken")

func TestLastOperation(t *testing.T) {
	g := NewWithT(t)
	etcd := served(3)
	g.Expect(etcd.Status.LastOperation.State).To(Equal(v1alpha1.OperationStateCompleted))
	g.Expect(etcd.Status.LastOperation.LastTransitionTime).To(Equal(noon))

	again := nextStatus(etcd, observation{snapshot: snapshotOf(3), current: true, now: later})
	g.Expect(again.LastOperation).To(Equal(etcd.Status.LastOperation), "what has not changed keeps its time")

	etcd.Generation = 2
	etcd.Status = nextStatus(etcd, observation{snapshot: snapshotOf(3), now: later})
	g.Expect(etcd.Status.LastOperation.State).To(Equal(v1alpha1.OperationStateInProgress))
	g.Expect(etcd.Status.LastOperation.LastTransitionTime).To(Equal(later))

	etcd.Status = nextStatus(etcd, observation{snapshot: snapshotOf(3), specErr: errBroken, now: later})
	g.Expect(etcd.Status.LastOperation.State).To(Equal(v1alpha1.OperationStateFailed))
	g.Expect(etcd.Status.LastOperation.Reason).To(ContainSubstring("broken"))

	etcd.Annotations = map[string]string{v1alpha1.AnnotationSuspendSpecReconcile: ""}
	etcd.Status = nextStatus(etcd, observation{snapshot: snapshotOf(3), now: later})
	g.Expect(etcd.Status.LastOperation.State).To(Equal(v1alpha1.OperationStatePending))
}
