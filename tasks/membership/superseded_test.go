// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"errors"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
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
