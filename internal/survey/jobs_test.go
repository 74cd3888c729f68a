// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	. "github.com/onsi/gomega"
)

func TestWhatAJobTells(t *testing.T) {
	g := NewWithT(t)
	v := Volume{Member: "m-0", Claim: "c-0"}
	g.Expect(seen(v, "j", job.State{Running: true, Message: "pod runs"}).State).To(Equal(Looking))
	told := seen(v, "j", job.State{Result: []byte(`{"state":"Present","clusterID":"cafe","lastIndex":7}`)})
	g.Expect(told.State).To(Equal(Seen))
	g.Expect(told.Survey.LastIndex).To(Equal(uint64(7)))
	for _, s := range []job.State{{}, {Result: []byte(`{}`)}, {Code: v1alpha1.ErrJobFailed, Message: "input/output error"}} {
		unread := seen(v, "j", s)
		g.Expect(unread.State).To(Equal(Unread))
		g.Expect(unread.Message).To(ContainSubstring("delete claim c-0"))
		g.Expect(unread.Message).To(ContainSubstring("delete Job j to have it looked at again"))
		g.Expect(abandoned(unread).State).To(Equal(Abandoned))
	}
	g.Expect(abandoned(told).State).To(Equal(Gone))
	g.Expect(abandoned(told).Survey).To(BeZero())
}
