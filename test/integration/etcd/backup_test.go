// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestBackupValidation(t *testing.T) {
	t.Parallel()
	namespace := testEnv.Namespace(t)
	secret := &v1alpha1.SecretReference{Name: "backup"}
	store := func(change func(*v1alpha1.StoreSpec)) v1alpha1.BackupSpec {
		s := &v1alpha1.StoreSpec{Provider: "S3", Container: "bucket", Prefix: "shoot-a/etcd-main", SecretRef: secret}
		change(s)
		return v1alpha1.BackupSpec{Store: s}
	}
	schedule := func(s string) v1alpha1.BackupSpec { return v1alpha1.BackupSpec{FullSnapshotSchedule: &s} }
	const recipient = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"
	for _, tc := range []struct {
		name   string
		backup v1alpha1.BackupSpec
		want   string // empty: it is accepted
	}{
		{"nothing", v1alpha1.BackupSpec{}, ""},
		{"bucket", store(func(*v1alpha1.StoreSpec) {}), ""},
		{"provider by infrastructure name", store(func(s *v1alpha1.StoreSpec) { s.Provider = "azure" }), ""},
		{"volume", store(func(s *v1alpha1.StoreSpec) { s.Provider, s.SecretRef = "Local", nil }), ""},
		{"an S3-compatible service", store(func(s *v1alpha1.StoreSpec) { s.Provider = "alicloud" }), ""},
		{"an unknown provider", store(func(s *v1alpha1.StoreSpec) { s.Provider = "tape" }), "provider must be"},
		{"the identity of the pods", store(func(s *v1alpha1.StoreSpec) { s.SecretRef = nil }), ""},
		{"prefix that escapes the container", store(func(s *v1alpha1.StoreSpec) { s.Prefix = "../other" }), "spec.backup.store.prefix"},
		{"own namespace", store(func(s *v1alpha1.StoreSpec) {
			s.SecretRef = &v1alpha1.SecretReference{Name: "backup", Namespace: namespace}
		}), ""},
		{"another namespace", store(func(s *v1alpha1.StoreSpec) {
			s.SecretRef = &v1alpha1.SecretReference{Name: "backup", Namespace: "kube-system"}
		}), "create the Secret in the namespace of the Etcd"},
		{"signing", v1alpha1.BackupSpec{Signing: &v1alpha1.SigningSpec{SecretRef: v1alpha1.SecretReference{Name: "keys", Namespace: namespace}}}, ""},
		{"signing keys of another namespace", v1alpha1.BackupSpec{Signing: &v1alpha1.SigningSpec{SecretRef: v1alpha1.SecretReference{Name: "keys", Namespace: "kube-system"}}}, "create the Secret in the namespace of the Etcd"},
		{"signing without a Secret", v1alpha1.BackupSpec{Signing: &v1alpha1.SigningSpec{}}, "spec.backup.signing.secretRef.name"},
		{"encryption", v1alpha1.BackupSpec{Encryption: &v1alpha1.EncryptionSpec{Recipients: []v1alpha1.Recipient{recipient}, IdentitySecretRef: &v1alpha1.SecretReference{Name: "identities"}}}, ""},
		{"encryption for people only", v1alpha1.BackupSpec{Encryption: &v1alpha1.EncryptionSpec{Recipients: []v1alpha1.Recipient{recipient}}}, ""},
		{"encryption for none", v1alpha1.BackupSpec{Encryption: &v1alpha1.EncryptionSpec{}}, "spec.backup.encryption"},
		{"encryption for one twice", v1alpha1.BackupSpec{Encryption: &v1alpha1.EncryptionSpec{Recipients: []v1alpha1.Recipient{recipient, recipient}}}, "Duplicate value"},
		{"a private key as the recipient", v1alpha1.BackupSpec{Encryption: &v1alpha1.EncryptionSpec{Recipients: []v1alpha1.Recipient{"AGE-SECRET-KEY-1"}}}, "spec.backup.encryption.recipients"},
		{"identities of another namespace", v1alpha1.BackupSpec{Encryption: &v1alpha1.EncryptionSpec{IdentitySecretRef: &v1alpha1.SecretReference{Name: "identities", Namespace: "kube-system"}}}, "create the Secret in the namespace of the Etcd"},
		{"schedule", schedule("*/30 1-5,12 * * 1-5"), ""},
		{"schedule of four fields", schedule("0 0 * *"), "spec.backup.fullSnapshotSchedule"},
		{"minute 1010", schedule("1010 0 * * *"), "spec.backup.fullSnapshotSchedule"},
		{"no deltas", v1alpha1.BackupSpec{DeltaSnapshotPeriod: &metav1.Duration{}}, ""},
		{"delta period too short", v1alpha1.BackupSpec{DeltaSnapshotPeriod: &metav1.Duration{Duration: time.Millisecond}}, "at least 1s"},
		{"backup limit without its policy", v1alpha1.BackupSpec{MaxBackupsLimitBasedGC: ptr.To[int32](3)}, ""},
		{"compaction", v1alpha1.BackupSpec{SnapshotCompaction: &v1alpha1.SnapshotCompactionSpec{}}, ""},
		{"compaction threshold of zero", v1alpha1.BackupSpec{SnapshotCompaction: &v1alpha1.SnapshotCompactionSpec{EventsThreshold: ptr.To[int64](0)}}, "spec.backup.snapshotCompaction.eventsThreshold"},
		{"backup limit", v1alpha1.BackupSpec{
			GarbageCollectionPolicy: ptr.To(v1alpha1.GarbageCollectionLimitBased), MaxBackupsLimitBasedGC: ptr.To[int32](3),
		}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := &v1alpha1.Etcd{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
				Spec:       v1alpha1.EtcdSpec{Replicas: 3, Backup: &tc.backup},
			}
			err := testEnv.Client.Create(t.Context(), etcd, client.DryRunAll)
			if tc.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
			}
		})
	}
}
