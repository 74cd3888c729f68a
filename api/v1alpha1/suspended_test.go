// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"testing"

	. "github.com/onsi/gomega"
)

// Either annotation suspends the spec, with any value, as with etcd-druid; messages name the one that is there.
func TestSuspended(t *testing.T) {
	for key, want := range map[string]bool{
		"druid.gardener.cloud/suspend-etcd-spec-reconcile": true, "druid.gardener.cloud/ignore-reconciliation": true, "druid.gardener.cloud/rollout": false,
	} {
		g, etcd := NewWithT(t), &Etcd{}
		g.Expect(etcd.SpecSuspended()).To(BeFalse())
		etcd.Annotations = map[string]string{key: ""}
		g.Expect(etcd.SpecSuspended()).To(Equal(want), key)
		if want {
			g.Expect(etcd.SuspendedBy()).To(Equal(key))
		}
	}
}
