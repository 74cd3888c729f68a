// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package storeaccess

import (
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

func TestOf(t *testing.T) {
	secret := &v1alpha1.SecretReference{Name: "backup"}
	for _, tc := range []struct {
		name  string
		store v1alpha1.StoreSpec
		role  Role
		args  string
		has   string // in the volume
		err   string
	}{
		{
			name:  "bucket",
			store: v1alpha1.StoreSpec{Provider: "aws", Container: "bucket", Prefix: "a/b", SecretRef: secret},
			args:  "--store-provider=S3 --store-prefix=a/b --store-container=bucket --store-credentials=/var/etcd/store/main-store",
			has:   "secretName: backup",
		},
		{
			name:  "source of a copy",
			store: v1alpha1.StoreSpec{Provider: "GCS", Container: "bucket", Prefix: "a", SecretRef: secret}, role: Source,
			args: "--source-store-provider=GCS --source-store-prefix=a --source-store-container=bucket --source-store-credentials=/var/etcd/store/source-store",
			has:  "name: source-store",
		},
		{
			name:  "volume",
			store: v1alpha1.StoreSpec{Provider: "Local", Container: "claim", Prefix: "a"},
			args:  "--store-provider=Local --store-prefix=a --store-container=/var/etcd/store/main-store",
			has:   "claimName: claim",
		},
		{
			name:  "S3-compatible, at an endpoint",
			store: v1alpha1.StoreSpec{Provider: "stackit", Container: "bucket", SecretRef: secret, EndpointOverride: ptr.To("https://storage.example.com")},
			args:  "--store-provider=S3 --store-prefix= --store-container=bucket --store-endpoint=https://storage.example.com --store-credentials=/var/etcd/store/main-store",
			has:   "secretName: backup",
		},
		{
			name:  "the identity of the pod",
			store: v1alpha1.StoreSpec{Provider: "S3", Container: "bucket"},
			args:  "--store-provider=S3 --store-prefix= --store-container=bucket",
		},
		{name: "no driver", store: v1alpha1.StoreSpec{Provider: "tape", Container: "c", SecretRef: secret}, err: `provider "tape" is not supported`},
		{name: "no container", store: v1alpha1.StoreSpec{Provider: "S3", SecretRef: secret}, err: "container is missing"},
		{name: "no storage account", store: v1alpha1.StoreSpec{Provider: "ABS", Container: "c"}, err: "names the storage account"},
		{name: "a nameless Secret", store: v1alpha1.StoreSpec{Provider: "S3", Container: "c", SecretRef: &v1alpha1.SecretReference{}}, err: "secretRef has no name"},
		{name: "useless credentials", store: v1alpha1.StoreSpec{Provider: "Local", Container: "c", SecretRef: secret}, err: "has no secretRef"},
		{
			name:  "own namespace",
			store: v1alpha1.StoreSpec{Provider: "S3", Container: "c", SecretRef: &v1alpha1.SecretReference{Name: "backup", Namespace: "shoot-a"}},
			args:  "--store-provider=S3 --store-prefix= --store-container=c --store-credentials=/var/etcd/store/main-store",
		},
		{
			name:  "another namespace",
			store: v1alpha1.StoreSpec{Provider: "S3", Container: "c", SecretRef: &v1alpha1.SecretReference{Name: "backup", Namespace: "kube-system"}},
			err:   "secretRef is in namespace kube-system",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			access, err := Of(tc.store, "shoot-a", tc.role)
			if tc.err != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tc.err)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(strings.Join(access.Args, " ")).To(Equal(tc.args))
			if tc.store.SecretRef == nil && tc.store.Provider != v1alpha1.ProviderLocal {
				g.Expect(access.Volume).To(BeNil())
				g.Expect(access.Mount).To(BeNil())
				return
			}
			volume, err := yaml.Marshal(access.Volume)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(volume)).To(ContainSubstring(tc.has))
			g.Expect(*access.Mount.Name).To(Equal(*access.Volume.Name))
		})
	}
}
