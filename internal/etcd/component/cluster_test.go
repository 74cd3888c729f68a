// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/job/survey"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

// The ID of the cluster that members bootstrap follows from how many they are, from the scheme of their peer URLs, and from the Etcd.
func TestBootstrappedID(t *testing.T) {
	g := NewWithT(t)
	in := input(3)
	plain := BootstrappedID(in.Etcd, 3, PeerTLSOff)
	g.Expect(plain).To(Equal(member.ClusterID(string(in.Etcd.UID), "etcd-main-0=http://etcd-main-0.etcd-main-peer.shoot-a.svc:2380,"+
		"etcd-main-1=http://etcd-main-1.etcd-main-peer.shoot-a.svc:2380,etcd-main-2=http://etcd-main-2.etcd-main-peer.shoot-a.svc:2380")))
	g.Expect(BootstrappedID(in.Etcd, 3, PeerTLSPrepared)).To(Equal(plain))
	g.Expect(BootstrappedID(in.Etcd, 3, PeerTLSOn)).NotTo(Equal(plain))
	g.Expect(BootstrappedID(in.Etcd, 1, PeerTLSOff)).NotTo(Equal(plain))
	another := in.Etcd.DeepCopy()
	another.UID = "another"
	g.Expect(BootstrappedID(another, 3, PeerTLSOff)).NotTo(Equal(plain))
}

// A member beyond the others counts if the recorded recovery starts from it, as it may from the one that stands in while the volumes of five move.
func TestReaching(t *testing.T) {
	g := NewWithT(t)
	etcd := input(3).Etcd
	g.Expect(Reaching(etcd, 3)).To(BeEquivalentTo(3))
	for member, want := range map[string]int32{etcd.PodName(0): 3, etcd.PodName(2): 3, etcd.PodName(3): 4, etcd.PodName(4): 5, etcd.PodName(5): 6, etcd.PodName(survey.MaxMembers): 3, "other": 3} {
		etcd.Status.Recovery = &v1alpha1.ClusterRecovery{Member: etcd.MemberName(member)}
		g.Expect(Reaching(etcd, 3)).To(Equal(want), member)
	}
}

// A stopped cluster has as many members as it had, or is to have, and at least one.
func TestLineage(t *testing.T) {
	g := NewWithT(t)
	etcd := input(3).Etcd
	etcd.Status.ClusterID = "cafe"
	members := func(replicas, size int32) string {
		etcd.Spec.Replicas, etcd.Status.ClusterSize = replicas, size
		return Lineage(etcd).InitialCluster()
	}
	one := "etcd-main-0=http://etcd-main-0.etcd-main-peer.shoot-a.svc:2380"
	g.Expect(members(0, 0)).To(Equal(one))
	g.Expect(members(1, 0)).To(Equal(one))
	g.Expect(members(0, 1)).To(Equal(one))
	g.Expect(members(2, 1)).To(And(HavePrefix(one+",etcd-main-1="), Not(ContainSubstring("etcd-main-2"))))
	g.Expect(members(1, 2)).To(Equal(members(2, 1)))
	lineage := Lineage(etcd)
	g.Expect(lineage.ClusterID).To(Equal("cafe"))
	g.Expect(lineage.Recovery).To(BeNil())
	etcd.Status.Recovery = &v1alpha1.ClusterRecovery{TaskUID: "task"}
	g.Expect(Lineage(etcd).Recovery.Task).To(Equal("task"))
}

// Members read of a recovery all that the status records of it.
func TestRecovery(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Recovery(nil)).To(BeNil())
	r := &v1alpha1.ClusterRecovery{
		Task: "t", TaskUID: "uid", Member: "m-1", Source: v1alpha1.RecoverFromTarget, PreviousClusterID: "cafe", EarlierClusterIDs: []string{"ace"}, Revision: 7,
	}
	want := &member.Recovery{Task: "uid", TaskName: "t", Member: "m-1", Source: member.RecoverySource(v1alpha1.RecoverFromTarget), PreviousClusterID: "cafe", EarlierClusterIDs: []string{"ace"}, Revision: 7}
	g.Expect(Recovery(r)).To(Equal(want))
	r.Restore = &v1alpha1.ClusterRestore{Base: "full", Prefix: "copy", Revision: 5, Hash: 6, Bytes: 8, KeptData: "kept", Bump: 9}
	want.Restore = &member.RestorePoint{Base: "full", Prefix: "copy", Revision: 5, Hash: 6, Bytes: 8, Kept: "kept", Bump: 9}
	g.Expect(Recovery(r)).To(Equal(want))
}

// The commands that messages print are complete.
func TestCommands(t *testing.T) {
	g := NewWithT(t)
	etcd := types.NamespacedName{Namespace: "ns", Name: "main"}
	g.Expect(RecordClusterID(etcd, "cafe")).To(Equal(`kubectl patch etcd main -n ns --subresource=status --type=merge -p '{"status":{"clusterID":"cafe"}}'`))
	g.Expect(WithdrawRecovery(etcd)).To(Equal(`kubectl patch etcd main -n ns --subresource=status --type=merge -p '{"status":{"recovery":null}}'`))
}

// What an Etcd asks for and cannot get is an error of its objects, and none of them is built.
func TestObjectsThatCannotBeBuilt(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.BackupSpec){
		"a store of no provider": func(b *v1alpha1.BackupSpec) { b.Store.Provider = "Tape" },
		"a schedule of no time":  func(b *v1alpha1.BackupSpec) { s := "never"; b.FullSnapshotSchedule = &s },
		"no recipient":           func(b *v1alpha1.BackupSpec) { b.Encryption.Recipients = []v1alpha1.Recipient{"nobody"} },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			in := withBackup()
			change(in.Etcd.Spec.Backup)
			objects, err := Objects(in)
			g.Expect(err).To(HaveOccurred())
			g.Expect(objects).To(BeEmpty())
		})
	}
}

// While pods of etcd-druid run, what their ServiceAccount may do stays as it is.
func TestConverting(t *testing.T) {
	g := NewWithT(t)
	in := input(3)
	all, err := Objects(in)
	g.Expect(err).NotTo(HaveOccurred())
	in.Converting = true
	converting, err := Objects(in)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(converting).To(HaveLen(len(all) - 3))
}

// The objects of an adopted Etcd are annotated with whom they belong to, and keep their labels; pods may have others.
func TestWhoseObjects(t *testing.T) {
	g := NewWithT(t)
	in := input(3)
	g.Expect(in.Annotations()).To(BeEmpty())
	g.Expect(in.podsManagedBy()).To(Equal(v1alpha1.ManagedBy))
	in.Manager = v1alpha1.ManagedByDruid
	g.Expect(in.Annotations()).To(Equal(map[string]string{v1alpha1.AnnotationAdoptedBy: string(in.Etcd.UID)}))
	g.Expect(in.podsManagedBy()).To(Equal(v1alpha1.ManagedByDruid))
	g.Expect(in.labels("c", "n")).To(HaveKeyWithValue(v1alpha1.LabelManagedBy, v1alpha1.ManagedByDruid))
	in.PodsManagedBy = "other"
	g.Expect(in.podLabels()).To(HaveKeyWithValue(v1alpha1.LabelManagedBy, "other"))
	g.Expect(in.Containers()).To(Equal(map[string]string{v1alpha1.ContainerEtcd: in.Images.Etcd, v1alpha1.ContainerBackupRestore: in.Images.EtcdAgent}))
}

// What the operator's rights are bound to: the objects that an Etcd of a name needs, and those that it had under etcd-druid.
func TestNeeds(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{}
	etcd.Name = "main"
	for _, key := range append(Keys(etcd, 1, ""), Keys(etcd, 0, v1alpha1.ManagedByDruid)...) {
		g.Expect(Needs("main", key.Kind.Kind, key.Name)).To(BeTrue(), "%v", key)
		g.Expect(Needs("other", key.Kind.Kind, key.Name)).To(Equal(key.Kind.Kind == "Lease"), "%v", key)
	}
	g.Expect(Needs("main", "Secret", "main")).To(BeFalse())
	g.Expect(Needs("main", "Role", "main")).To(BeFalse())
}

// A schedule is read, one that is none is an error, and without one nothing is due.
func TestDefragmentationSchedule(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{}
	g.Expect(DefragmentationSchedule(etcd)).To(BeNil())
	text := "0 3 * * *"
	etcd.Spec.Etcd.DefragmentationSchedule = &text
	schedule, err := DefragmentationSchedule(etcd)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(schedule.Next(time.Date(2026, 1, 1, 4, 0, 0, 0, time.UTC))).To(Equal(time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)))
	text = "never"
	_, err = DefragmentationSchedule(etcd)
	g.Expect(err).To(MatchError(HavePrefix("reading spec.etcd.defragmentationSchedule: ")))
}

// One further URL is published as several are.
func TestOneFurtherURL(t *testing.T) {
	etcd := input(1).Etcd
	urls := further("etcd-main-0", false)
	urls.Members[0].URLs = urls.Members[0].URLs[:1]
	etcd.Spec.Etcd.AdditionalAdvertisedURLs = &v1alpha1.AdditionalAdvertisedURLs{ClientURLs: urls}
	NewWithT(t).Expect(clientURLs(etcd)).To(Equal("etcd-main-0: \"http://etcd-main-0.etcd-main-peer.shoot-a.svc:2379,http://10.0.0.1:1\"\n"))
}
