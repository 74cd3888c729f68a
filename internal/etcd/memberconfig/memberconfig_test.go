// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package memberconfig

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	. "github.com/onsi/gomega"
)

func TestMissing(t *testing.T) {
	recovery := &v1alpha1.ClusterRecovery{TaskUID: "uid", Member: "m", Source: v1alpha1.RecoverFromData, PreviousClusterID: "cafe"}
	text, err := encode(recovery)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, tc := range map[string]struct {
		status v1alpha1.EtcdStatus
		data   map[string]string
		want   map[string]any
	}{
		"nothing recorded": {v1alpha1.EtcdStatus{}, nil, map[string]any{}},
		"the ID":           {v1alpha1.EtcdStatus{ClusterID: "cafe"}, nil, map[string]any{member.KeyClusterID: "cafe"}},
		"the ID, and the first start is over": {
			v1alpha1.EtcdStatus{ClusterID: "cafe"}, map[string]string{member.KeyFirstStart: "etcd: uid"},
			map[string]any{member.KeyClusterID: "cafe", member.KeyFirstStart: nil},
		},
		"permitted to begin": {v1alpha1.EtcdStatus{}, map[string]string{member.KeyFirstStart: "etcd: uid"}, map[string]any{}},
		"another ID":         {v1alpha1.EtcdStatus{ClusterID: "beef"}, map[string]string{member.KeyClusterID: "cafe"}, map[string]any{member.KeyClusterID: "beef"}},
		"up to date":         {v1alpha1.EtcdStatus{ClusterID: "cafe", Recovery: recovery}, map[string]string{member.KeyClusterID: "cafe", member.KeyRecovery: text}, map[string]any{}},
		"a recovery":         {v1alpha1.EtcdStatus{Recovery: recovery}, nil, map[string]any{member.KeyRecovery: text}},
		"a recovery is over": {v1alpha1.EtcdStatus{}, map[string]string{member.KeyRecovery: text}, map[string]any{member.KeyRecovery: nil}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			data, err := missing(&v1alpha1.Etcd{Status: tc.status}, "", tc.data)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(data).To(Equal(tc.want))
		})
	}
}

// Members read of a source from the moment that they may be started until its members have left, also if the cluster ID is not recorded.
func TestMissingSource(t *testing.T) {
	g := NewWithT(t)
	const stays, leaves = "clientEndpoints:\n- http://s\nleads: true\n", "clientEndpoints:\n- http://s\nleads: false\n"
	etcd := &v1alpha1.Etcd{}
	source := &v1alpha1.BootstrapWithExistingCluster{ClientEndpoints: []string{"http://s"}}
	etcd.Spec.Etcd.BootstrapWithExistingCluster = source
	g.Expect(missing(etcd, "", nil)).To(Equal(map[string]any{member.KeySource: stays}))
	etcd.Status.ClusterID = "cafe"
	g.Expect(missing(etcd, "", nil)).To(Equal(map[string]any{member.KeyClusterID: "cafe", member.KeySource: stays}))
	g.Expect(missing(etcd, "", map[string]string{member.KeyClusterID: "cafe", member.KeySource: stays})).To(BeEmpty())
	etcd.Spec.Etcd.BootstrapWithExistingCluster, etcd.Status.BootstrapWithExistingCluster = nil, &v1alpha1.BootstrapWithExistingClusterStatus{Source: source}
	g.Expect(missing(etcd, "", map[string]string{member.KeyClusterID: "cafe", member.KeySource: stays})).To(Equal(map[string]any{member.KeySource: leaves}))
	etcd.Status.BootstrapWithExistingCluster.Source = nil
	g.Expect(missing(etcd, "", map[string]string{member.KeyClusterID: "cafe", member.KeySource: leaves})).To(Equal(map[string]any{member.KeySource: nil}))
}

func TestEncode(t *testing.T) {
	g := NewWithT(t)
	g.Expect(encode(nil)).To(BeEmpty())
	text, err := encode(&v1alpha1.ClusterRecovery{Task: "recover", TaskUID: "recovery", Member: "etcd-main-2", Source: v1alpha1.RecoverFromData, PreviousClusterID: "cafe", HighestRevision: 7, HadData: true})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(member.ParseRecovery([]byte(text))).To(Equal(&member.Recovery{Task: "recovery", TaskName: "recover", Member: "etcd-main-2", Source: member.RecoverFromData, PreviousClusterID: "cafe", HighestRevision: 7, HadData: true}))
	text, err = encode(&v1alpha1.ClusterRecovery{TaskUID: "job", Member: "etcd-main-0", Source: v1alpha1.RecoverFromBackup, PreviousClusterID: "cafe", Revision: 42})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(member.ParseRecovery([]byte(text))).To(Equal(&member.Recovery{Task: "job", Member: "etcd-main-0", Source: member.RecoverFromBackup, PreviousClusterID: "cafe", Revision: 42}))
}
