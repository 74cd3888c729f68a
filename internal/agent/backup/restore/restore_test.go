// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"errors"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	. "github.com/onsi/gomega"
)

// A full snapshot over which etcd panics is corrupt, so that an older one of the same revision is tried.
func TestAPanicMeansCorrupt(t *testing.T) {
	g := NewWithT(t)
	err := usable(backup.Snapshot{}, func() error { panic("page 7: invalid type\x1b") })
	corrupt := (*backup.CorruptError)(nil)
	g.Expect(errors.As(err, &corrupt)).To(BeTrue(), "%v", err)
	g.Expect(corrupt.Reason).To(Equal("etcd cannot use it: page 7: invalid type "))
}
