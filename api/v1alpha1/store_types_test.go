// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestBackupStore(t *testing.T) {
	g := NewWithT(t)
	etcd := &Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot-a", Name: "etcd-main"}}
	g.Expect(etcd.BackupStore()).To(BeNil())
	etcd.Spec.Backup = &BackupSpec{Store: &StoreSpec{Provider: "S3", Container: "c"}}
	g.Expect(etcd.BackupStore().Prefix).To(Equal("shoot-a/etcd-main"), "no two clusters share a prefix by default")
	g.Expect(etcd.Spec.Backup.Store.Prefix).To(BeEmpty(), "the Etcd was changed")
	etcd.Spec.Backup.Store.Prefix = "mine"
	g.Expect(etcd.BackupStore().Prefix).To(Equal("mine"))
}
