// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	. "github.com/onsi/gomega"
)

// A Secret of another namespace is refused, and without a store there is nothing to accept.
func TestSigning(t *testing.T) {
	g := NewWithT(t)
	in := withBackup()
	in.Etcd.Spec.Backup.Signing.SecretRef.Namespace = "kube-system"
	_, err := Objects(in)
	g.Expect(err).To(MatchError(ContainSubstring("only Secrets of namespace shoot-a may be used")))
	in.Etcd.Spec.Backup.Store = nil
	g.Expect(acceptance(in.Etcd)).To(BeEmpty())
}

// What a restore may use reaches the members as they read it.
func TestAcceptance(t *testing.T) {
	g := NewWithT(t)
	text, err := acceptance(withBackup().Etcd)
	g.Expect(err).NotTo(HaveOccurred())
	shared, err := member.ParseShared(map[string]string{member.KeyAccept: text})
	g.Expect(err).NotTo(HaveOccurred())
	before, after := withBackup(), withBackup()
	after.Etcd.Spec.Backup.Encryption.AcceptPlainUntil = nil
	after.Etcd.Spec.Backup.Signing.AcceptUnsignedUntil, after.Etcd.Spec.Backup.Signing.AcceptRevision = nil, nil
	with, err := statefulSet(before)
	g.Expect(err).NotTo(HaveOccurred())
	without, err := statefulSet(after)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(with).To(Equal(without), "it replaces no pods")
	g.Expect(*shared.Accept).To(Equal(member.Acceptance{UnsignedUntil: "2026-07-01T12:00:00Z", PlainUntil: "2026-07-01T13:00:00Z", Revision: 1234}))
}
