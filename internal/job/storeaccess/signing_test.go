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

// The Secret with the keys is one of the Etcd's namespace, whatever the API server has admitted; without a store there is nothing
// to sign.
func TestSigningKeys(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot-a", Name: "etcd-main"}}
	etcd.Spec.Backup = &v1alpha1.BackupSpec{
		Store:   &v1alpha1.StoreSpec{Provider: "S3", Container: "c"},
		Signing: &v1alpha1.SigningSpec{SecretRef: v1alpha1.SecretReference{Name: "keys"}},
	}
	keys, err := SigningKeys(etcd, Main, Source)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(keys.Args).To(Equal([]string{"--store-signing-keys=/var/etcd/store/signing-keys", "--source-store-signing-keys=/var/etcd/store/signing-keys"}))
	etcd.Spec.Backup.Signing.SecretRef.Namespace = etcd.Namespace
	_, err = SigningKeys(etcd)
	g.Expect(err).NotTo(HaveOccurred())
	etcd.Spec.Backup.Signing.SecretRef.Namespace = "kube-system"
	_, err = SigningKeys(etcd)
	g.Expect(err).To(MatchError(ContainSubstring("only Secrets of namespace shoot-a may be used")))
	etcd.Spec.Backup.Signing.SecretRef = v1alpha1.SecretReference{}
	_, err = SigningKeys(etcd)
	g.Expect(err).To(HaveOccurred(), "a Secret without a name")
	etcd.Spec.Backup.Store = nil
	g.Expect(SigningKeys(etcd)).To(BeNil())
}
