// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"errors"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A task that the spec no longer asks for ends although the members cannot be observed; not if the API server does not confirm it.
func TestATaskIsSupersededWhileNothingIsObserved(t *testing.T) {
	r := newTrial(t, 3, 3)
	r.task.Config.Size = 5
	r.observing, r.confirming = errors.New("no answer"), errors.New("no answer")
	v, err := r.handler.Execute(t.Context(), r.task)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(v.Code).To(Equal(v1alpha1.ErrSuperseded))
	r.observing, r.confirming = nil, nil
	apitest.EachRequestFails(t, r.api, func(api client.WithWatch) error {
		v, err := r.with(api).Execute(t.Context(), r.task)
		if err != nil {
			r.Expect(v.Code).To(BeElementOf(v1alpha1.ErrorCode(""), v1alpha1.ErrSuperseded))
			r.Expect(v.Message).To(BeEmpty())
		}
		return err
	})
}

// A task goes on, and does nothing, while what it has requested may still take effect: a rollout that began then would count on members that
// are about to leave. Once the list shows it, or etcd has refused it, or it can no longer happen, the task ends.
func TestATaskIsNotSupersededWhileARequestIsOpen(t *testing.T) {
	begin := func(answer error) *trial {
		r := newTrial(t, 1, 3)
		r.joining()
		r.fails = answer
		r.Expect(r.settle().Step.Operation).To(Equal("AddLearner"))
		r.fails = nil
		r.task.Config.Size = 5
		return r
	}
	ends := func(r *trial) bool {
		r.t.Helper()
		v := r.next(time.Second)
		r.Expect(v.Step).To(BeNil())
		return v.Code == v1alpha1.ErrSuperseded
	}
	lost := errors.New("the answer was lost")
	r := begin(lost)
	for range 14 {
		r.Expect(ends(r)).To(BeFalse())
		r.Expect(r.handler.Superseded(t.Context(), r.task)).To(BeEmpty(), "nor while it is suspended")
	}
	r.start()
	for range 15 {
		r.Expect(ends(r)).To(BeFalse(), "the next operator counts from when it begins")
	}
	r.clock.SetTime(r.clock.Now().Add(requestDeadline))
	r.Expect(ends(r)).To(BeTrue())

	r = begin(lost)
	r.list = append(r.list, etcdclient.Member{ID: 9, Learner: true, PeerURLs: []string{"http://main-1.main-peer.ns.svc:2380"}})
	r.Expect([]bool{ends(r), ends(r)}).To(ContainElement(true), "the list shows it, at the second look at the latest")

	r = begin(rpctypes.ErrUnhealthy)
	r.Expect(ends(r)).To(BeTrue(), "etcd has refused it")
}
