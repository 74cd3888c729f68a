// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package storeaccess

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const recipient = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"

// The Secret with the identities is one of the Etcd's namespace, and a pod starts without it. A typing error in a recipient is refused
// before a pod is replaced.
func TestEncryption(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot-a", Name: "etcd-main"}}
	etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: "S3", Container: "c"}}
	g.Expect(Encryption(etcd)).To(BeNil())
	spec := &v1alpha1.EncryptionSpec{Recipients: []v1alpha1.Recipient{recipient}}
	etcd.Spec.Backup.Encryption = spec
	access, err := Encryption(etcd)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(*access).To(Equal(Access{Args: []string{"--store-recipients=" + recipient}}))
	g.Expect(etcd.ForPeopleOnly()).To(BeTrue())

	spec.IdentitySecretRef = &v1alpha1.SecretReference{Name: "keys", Namespace: "shoot-a"}
	access, err = Encryption(etcd)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(access.Args).To(Equal([]string{"--store-recipients=" + recipient, "--store-identities=/var/etcd/store/identities"}))
	g.Expect(*access.Mount.MountPath).To(Equal("/var/etcd/store/identities"))
	g.Expect(*access.Volume.Secret.SecretName).To(Equal("keys"))
	g.Expect(*access.Volume.Secret.Optional).To(BeTrue())
	g.Expect(etcd.ForPeopleOnly()).To(BeFalse())
	all, err := Own(etcd)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(all).To(HaveLen(2))
	g.Expect(all[1]).To(Equal(*access))

	spec.IdentitySecretRef.Namespace = "kube-system"
	_, err = Own(etcd)
	g.Expect(err).To(MatchError(ContainSubstring("spec.backup.encryption: identitySecretRef is in namespace kube-system; only Secrets of namespace shoot-a may be used")))
	spec.IdentitySecretRef = &v1alpha1.SecretReference{}
	_, err = Encryption(etcd)
	g.Expect(err).To(MatchError(ContainSubstring("identitySecretRef has no name")))
	spec.IdentitySecretRef, spec.Recipients = nil, []v1alpha1.Recipient{v1alpha1.Recipient(recipient[:len(recipient)-1] + "q")}
	_, err = Encryption(etcd)
	g.Expect(err).To(MatchError(ContainSubstring("is not the public key")))
	etcd.Spec.Backup.Store = nil
	g.Expect(Encryption(etcd)).To(BeNil())
	_, err = Own(etcd)
	g.Expect(err).To(MatchError(ContainSubstring("no spec.backup.store")))
}
