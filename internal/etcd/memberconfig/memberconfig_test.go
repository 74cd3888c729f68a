// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package memberconfig

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

func TestMissing(t *testing.T) {
	recovery := &v1alpha1.ClusterRecovery{TaskUID: "uid", Member: "m", Source: v1alpha1.RecoverFromData, PreviousClusterID: "cafe"}
	text, _, err := encode(recovery)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	detailed := recovery.DeepCopy()
	detailed.HighestRevision = 7
	_, details, err := encode(detailed)
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
		"its details":        {v1alpha1.EtcdStatus{Recovery: detailed}, map[string]string{member.KeyRecovery: text}, map[string]any{member.KeyRecoveryDetails: details}},
		"details of before":  {v1alpha1.EtcdStatus{Recovery: recovery}, map[string]string{member.KeyRecovery: text, member.KeyRecoveryDetails: details}, map[string]any{member.KeyRecoveryDetails: nil}},
		"a recovery is over": {v1alpha1.EtcdStatus{}, map[string]string{member.KeyRecovery: text, member.KeyRecoveryDetails: details}, map[string]any{member.KeyRecovery: nil, member.KeyRecoveryDetails: nil}},
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
	NewWithT(t).Expect(encode(nil)).To(BeEmpty())
	point := &v1alpha1.ClusterRestore{Base: "full", Prefix: "copy", Revision: 7, Hash: 1, Bytes: 2, Bump: 3}
	for name, r := range map[string]*v1alpha1.ClusterRecovery{
		"data":       {Task: "recover", TaskUID: "recovery", Member: "etcd-main-2", Source: v1alpha1.RecoverFromData, PreviousClusterID: "cafe", HighestRevision: 7, HadData: true},
		"backup":     {Task: "recover", TaskUID: "recovery", Member: "etcd-main-2", Source: v1alpha1.RecoverFromBackup, PreviousClusterID: "cafe", Revision: 6, HighestRevision: 7, HadData: true},
		"any backup": {Task: "recover", TaskUID: "recovery", Member: "etcd-main-2", Source: v1alpha1.RecoverFromBackup, PreviousClusterID: "cafe", EarlierClusterIDs: []string{"ace"}},
		"a point":    {Task: "restore", TaskUID: "restore", Member: "etcd-main-2", Source: v1alpha1.RecoverFromTarget, PreviousClusterID: "cafe", HadData: true, Restore: point},
		"kept data":  {Task: "undo", TaskUID: "undo", Member: "etcd-main-2", Source: v1alpha1.RecoverFromKeptData, PreviousClusterID: "cafe", Restore: &v1alpha1.ClusterRestore{KeptData: "new.etcd.before-x-1", Bump: 3}},
		"a wake-up":  {TaskUID: "job", Member: "etcd-main-0", Source: v1alpha1.RecoverFromBackup, PreviousClusterID: "cafe", Revision: 42},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			text, details, err := encode(r)
			g.Expect(err).NotTo(HaveOccurred())
			shared, err := member.ParseShared(map[string]string{member.KeyRecovery: text, member.KeyRecoveryDetails: details})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(shared.Recovery).To(Equal(component.Recovery(r)))
			g.Expect(shared.Revision).To(Equal(r.Revision))

			// Agents that are rolled later, or whose image is pinned, refuse a field that they do not know, and every member would stop
			// for good. They take a revision for a wake-up.
			old := firstRecovery{}
			g.Expect(yaml.UnmarshalStrict([]byte(text), &old)).To(Succeed())
			g.Expect(old.Task).To(Equal(string(r.TaskUID)))
			g.Expect(old.Revision > 0).To(Equal(r.Task == ""))
		})
	}
}

// firstRecovery is what agents read of a recovery before there were details: nothing may be added to it.
type firstRecovery struct {
	Task              string   `json:"task"`
	TaskName          string   `json:"taskName,omitempty"`
	Member            string   `json:"member"`
	Source            string   `json:"source"`
	PreviousClusterID string   `json:"previousClusterID"`
	EarlierClusterIDs []string `json:"earlierClusterIDs,omitempty"`
	Revision          int64    `json:"revision,omitempty"`
	Restore           *struct {
		Base     string `json:"base,omitempty"`
		Revision int64  `json:"revision,omitempty"`
		Hash     uint32 `json:"hash,omitempty"`
		Prefix   string `json:"prefix,omitempty"`
		Bytes    int64  `json:"bytes,omitempty"`
		Kept     string `json:"kept,omitempty"`
		Bump     int64  `json:"bump"`
	} `json:"restore,omitempty"`
}
