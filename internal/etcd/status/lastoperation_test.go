// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	. "github.com/onsi/gomega"
)

var errBroken = errors.New("broken")

func TestLastOperation(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	g.Expect(etcd.Status.LastOperation.State).To(Equal(v1alpha1.OperationSucceeded))
	g.Expect(etcd.Status.LastOperation.LastUpdateTime).To(Equal(noon))

	again := Next(observed(etcd, clustertest.Healthy(3), later))
	g.Expect(again.LastOperation).To(Equal(etcd.Status.LastOperation), "an unchanged operation keeps its time")

	etcd.Generation = 2
	etcd.Status = Next(unsettled(etcd, clustertest.Healthy(3), later))
	g.Expect(etcd.Status.LastOperation.State).To(Equal(v1alpha1.OperationProcessing))
	g.Expect(etcd.Status.LastOperation.LastUpdateTime).To(Equal(later))

	o := unsettled(etcd, clustertest.Healthy(3), later)
	o.Failures = []Failure{{Code: v1alpha1.ErrApply, Err: errBroken}}
	etcd.Status = Next(o)
	g.Expect(etcd.Status.LastOperation.State).To(Equal(v1alpha1.OperationError))
	g.Expect(etcd.Status.LastOperation.Description).To(ContainSubstring("broken"))

	etcd.Annotations = map[string]string{v1alpha1.AnnotationSuspendSpecReconcile: ""}
	etcd.Status = Next(unsettled(etcd, clustertest.Healthy(3), later))
	g.Expect(etcd.Status.LastOperation.State).To(Equal(v1alpha1.OperationRequeue))
}

// The API server creates an Etcd with a generation that no operator has observed, which no condition may have.
func TestEtcdThatNobodyHasObserved(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	etcd.Status = v1alpha1.EtcdStatus{ObservedGeneration: -1}
	etcd.Status = Next(unsettled(etcd, clustertest.Healthy(3), later))
	g.Expect(etcd.Status.ObservedGeneration).To(BeEquivalentTo(-1))
	g.Expect(etcd.Status.LastOperation.Type).To(Equal(v1alpha1.OperationTypeCreate))
	g.Expect(etcd.Status.Conditions).NotTo(BeEmpty())
	for _, c := range etcd.Status.Conditions {
		g.Expect(c.ObservedGeneration).To(BeNumerically(">=", 0), c.Type)
	}
}
