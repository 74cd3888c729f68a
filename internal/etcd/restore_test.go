// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
)

// That a recovery ends, and that another one begins, is decided on live reads: the task of a restore may be deleted, which aborts it, and a
// cache that lags may show one that has ended since, whose recovery would replace a newer one, or that of no task any more.
func TestWhatIsDecidedOnTheRecovery(t *testing.T) {
	recovery := &v1alpha1.ClusterRecovery{TaskUID: "a"}
	restore := &v1alpha1.ClusterRecovery{TaskUID: "b", Restore: &v1alpha1.ClusterRestore{}}
	older := &v1alpha1.ClusterRecovery{TaskUID: "c"}
	for _, c := range []struct {
		recorded, next *v1alpha1.ClusterRecovery
		want           bool
	}{
		{nil, nil, false}, {recovery, recovery, false}, {restore, restore, false}, {nil, recovery, true}, {recovery, older, true}, {restore, older, true},
		{recovery, nil, true}, {restore, nil, true}, {nil, restore, true}, {recovery, restore, true},
	} {
		p := &pass{etcd: &v1alpha1.Etcd{}}
		p.etcd.Status.Recovery = c.recorded
		NewWithT(t).Expect(p.decidesOnRecovery(c.next)).To(Equal(c.want), "%v, %v", c.recorded, c.next)
	}
}
