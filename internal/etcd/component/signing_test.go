// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	. "github.com/onsi/gomega"
)

// The Secret with the keys is one of the Etcd's namespace, whatever the API server has admitted; without a store there is nothing
// to sign.
func TestSigningKeys(t *testing.T) {
	g := NewWithT(t)
	etcd := withBackup().Etcd
	keys, err := SigningKeys(etcd, StoreMain, StoreSource)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(keys.Args).To(Equal([]string{"--store-signing-keys=/var/etcd/store/signing-keys", "--source-store-signing-keys=/var/etcd/store/signing-keys"}))
	etcd.Spec.Backup.Signing.SecretRef.Namespace = etcd.Namespace
	_, err = SigningKeys(etcd)
	g.Expect(err).NotTo(HaveOccurred())
	etcd.Spec.Backup.Signing.SecretRef.Namespace = "kube-system"
	_, err = SigningKeys(etcd)
	g.Expect(err).To(MatchError(ContainSubstring("only Secrets of namespace shoot-a may be used")))
	in := withBackup()
	in.Etcd = etcd
	_, err = Objects(in)
	g.Expect(err).To(HaveOccurred())
	etcd.Spec.Backup.Signing.SecretRef = v1alpha1.SecretReference{}
	_, err = SigningKeys(etcd)
	g.Expect(err).To(HaveOccurred(), "a Secret without a name")
	etcd.Spec.Backup.Store = nil
	g.Expect(SigningKeys(etcd)).To(BeNil())
	g.Expect(acceptance(etcd)).To(BeEmpty())
}

// What a restore may use reaches the members as they read it.
func TestAcceptance(t *testing.T) {
	g := NewWithT(t)
	text, err := acceptance(withBackup().Etcd)
	g.Expect(err).NotTo(HaveOccurred())
	shared, err := member.ParseShared(map[string]string{member.KeyAccept: text})
	g.Expect(err).NotTo(HaveOccurred())
	before, after := withBackup(), withBackup()
	after.Etcd.Spec.Backup.Signing.AcceptUnsignedUntil, after.Etcd.Spec.Backup.Signing.AcceptRevision = nil, nil
	with, err := statefulSet(before)
	g.Expect(err).NotTo(HaveOccurred())
	without, err := statefulSet(after)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(with).To(Equal(without), "it replaces no pods")
	g.Expect(*shared.Accept).To(Equal(member.Acceptance{UnsignedUntil: "2026-07-01T12:00:00Z", Revision: 1234}))
}
