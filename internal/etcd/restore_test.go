// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
)

// That a recovery ends, and that a restore begins, is decided on live reads: its task may be deleted, which aborts it.
func TestWhatIsDecidedOnTheRecovery(t *testing.T) {
	recovery := &v1alpha1.ClusterRecovery{TaskUID: "a"}
	restore := &v1alpha1.ClusterRecovery{TaskUID: "b", Restore: &v1alpha1.ClusterRestore{}}
	for _, c := range []struct {
		recorded, next *v1alpha1.ClusterRecovery
		want           bool
	}{
		{nil, nil, false}, {nil, recovery, false}, {recovery, recovery, false}, {restore, restore, false},
		{recovery, nil, true}, {restore, nil, true}, {nil, restore, true}, {recovery, restore, true},
	} {
		p := &pass{etcd: &v1alpha1.Etcd{}}
		p.etcd.Status.Recovery = c.recorded
		NewWithT(t).Expect(p.decidesOnRecovery(c.next)).To(Equal(c.want), "%v, %v", c.recorded, c.next)
	}
}
