// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// surveying has all members stopped, for their volumes to be surveyed.
func (r *trial) surveying() {
	r.witness.says = newInput(hold()).Snapshot
	r.witness.says.StatefulSet.HeldAtZeroBy = r.task.Object.UID
	r.task.Object.Status.Recovery = &v1alpha1.RecoveryStatus{Phase: v1alpha1.RecoverySurveying, PreviousClusterID: r.task.Etcd.Status.ClusterID}
}

// claim makes the claim of an ordinal, with the Job that has surveyed it.
func (r *trial) claim(ordinal int32, found member.Survey) {
	r.t.Helper()
	name := r.task.Etcd.ClaimName(ordinal)
	r.Expect(r.api.Create(r.t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: "main"},
	}})).To(Succeed())
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: fmt.Sprintf("%s-%d", job.Name(r.task.Object), ordinal), UID: types.UID("job of " + name),
		Annotations:     map[string]string{v1alpha1.AnnotationJobSubject: "0/" + name},
		OwnerReferences: []metav1.OwnerReference{{Kind: "EtcdOperatorTask", UID: r.task.Object.UID, Controller: ptr.To(true)}},
	}, Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}}}
	r.Expect(r.api.Create(r.t.Context(), j)).To(Succeed())
	result, err := json.Marshal(found)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(r.api.Create(r.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "survey-" + name, Labels: map[string]string{batchv1.JobNameLabel: j.Name},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Job", UID: j.UID, Controller: ptr.To(true)}},
		},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: string(result)}}}}},
	})).To(Succeed())
}

// configMap makes the configuration that so many members share.
func (r *trial) configMap(members int32) {
	r.t.Helper()
	config, err := component.ConfigMap(component.Input{Etcd: r.task.Etcd, Replicas: members})
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(r.api.Create(r.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: *config.Name, Labels: config.Labels,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd, Name: "main", UID: r.task.Etcd.UID, Controller: ptr.To(true)}},
	}, Data: config.Data})).To(Succeed())
}

// live changes the Etcd that the API server shows.
func (r *trial) live(change func(*v1alpha1.Etcd)) {
	change(r.task.Etcd)
	r.lives(r.task.Etcd.DeepCopy())
	r.restart()
}

func (r *trial) execute() tasks.Verdict {
	r.t.Helper()
	v, err := r.handler.Execute(r.t.Context(), r.task)
	r.Expect(err).NotTo(HaveOccurred())
	return v
}

// clusterOf is the ID of the cluster that a recovery with a member of Etcd main makes.
func clusterOf(task, of string) string {
	return member.ClusterID("etcd-"+task, fmt.Sprintf("%s=http://%s.main-peer.ns.svc:2380", of, of))
}

// A recovery chose main-2, whose cluster served: main-1 joined it. Then the volume of main-2 is lost. What main-0 has is from before.
func TestDataOfTheClusterThatTheRecoveryMadeCounts(t *testing.T) {
	r := newTrial(t)
	r.live(func(e *v1alpha1.Etcd) {
		e.Status.ClusterID, e.Status.ClusterSize = "cafe", 3
		e.Status.Recovery = &v1alpha1.ClusterRecovery{Task: "first", TaskUID: "first", Member: "main-2", Source: v1alpha1.RecoverFromData, PreviousClusterID: "cafe"}
	})
	r.configMap(3)
	made := clusterOf("first", "main-2")
	r.claim(0, member.Survey{State: member.SurveyPresent, ClusterID: "cafe", MemberID: "0", Voters: []string{"0", "1", "2"}, LastTerm: 9, LastIndex: 900, Revision: 50})
	r.claim(1, member.Survey{State: member.SurveyPresent, ClusterID: made, MemberID: "b1", Voters: []string{"b1", "b2"}, LastTerm: 2, LastIndex: 20, Revision: 60})
	r.surveying()
	v := r.execute()
	r.Expect(v.Recovery.Phase).To(Equal(v1alpha1.RecoveryStarting))
	r.Expect(v.Recovery.Member).To(Equal("main-1"), v.Message)
	r.Expect(v.Recovery.PreviousClusterID).To(Equal(made))
	r.Expect(v.Recovery.EarlierClusterIDs).To(ContainElement("cafe"), "main-0 may put its data aside")
}

// A recovery was recorded and its task deleted before any member acted on it, and all volumes are there again. A second one replaces it:
// members that are started as they were would wait for the first.
func TestASecondRecoveryReplacesOneThatNoMemberHasActedOn(t *testing.T) {
	r := newTrial(t)
	r.live(func(e *v1alpha1.Etcd) {
		e.Status.ClusterID, e.Status.ClusterSize = "cafe", 3
		e.Status.Recovery = &v1alpha1.ClusterRecovery{Task: "first", TaskUID: "first", Member: "main-2", Source: v1alpha1.RecoverFromData, PreviousClusterID: "cafe"}
	})
	r.configMap(3)
	for i := range int32(3) {
		r.claim(i, member.Survey{State: member.SurveyPresent, ClusterID: "cafe", MemberID: fmt.Sprint(i), Voters: []string{"0", "1", "2"}, LastTerm: 9, LastIndex: 900 - uint64(i)})
	}
	r.surveying()
	v := r.execute()
	r.Expect(v.Recovery.Phase).To(Equal(v1alpha1.RecoveryStarting), v.Message)
	r.Expect(v.Recovery.Source).To(Equal(v1alpha1.RecoverFromData), v.Message)
	r.Expect(v.Recovery.Member).To(Equal("main-0"))
	r.Expect(v.Recovery.PreviousClusterID).To(Equal("cafe"))
}

// A voter that joined while no operator watched is in no status. The volumes of others know it, and it has a claim.
func TestVoterThatNoStatusKnowsIsSurveyed(t *testing.T) {
	for _, others := range [][]int32{{0}, nil} {
		r := newTrial(t)
		r.live(func(e *v1alpha1.Etcd) { e.Spec.Replicas, e.Status.ClusterID, e.Status.ClusterSize = 5, "cafe", 3 })
		r.configMap(4)
		for _, i := range append(others, 3) {
			r.claim(i, member.Survey{State: member.SurveyPresent, ClusterID: "cafe", MemberID: fmt.Sprint(i), Voters: []string{"0", "1", "2", "3"}, LastTerm: 2, LastIndex: uint64(10 + i)})
		}
		r.surveying()
		v := r.execute()
		r.Expect(v.Recovery.Member).To(Equal("main-3"), v.Message)
	}
}

// The only voter of a cluster that grows is lost. Its members are configured as several, and wait for a recovery.
func TestGrowingClusterWithOneVoterIsRecovered(t *testing.T) {
	for members, code := range map[int32]v1alpha1.ErrorCode{1: v1alpha1.ErrSingleMember, 2: ""} {
		r := newTrial(t)
		r.live(func(e *v1alpha1.Etcd) { e.Status.ClusterID, e.Status.ClusterSize = "cafe", 1 })
		r.configMap(members)
		v, err := r.handler.Admit(t.Context(), r.task)
		r.Expect(err).NotTo(HaveOccurred())
		r.Expect(v.Code).To(Equal(code), "%d members: %s", members, v.Message)
	}
}

// unexplained has lost members that served as cluster beef, while cafe was recorded. There is a backup.
func unexplained(t *testing.T) *trial {
	r := newTrial(t)
	r.live(func(e *v1alpha1.Etcd) {
		e.Status.ClusterID, e.Status.ClusterSize = "cafe", 3
		e.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderS3}}
	})
	r.configMap(3)
	r.lease("etcd", "42")
	r.claim(0, member.Survey{State: member.SurveyPresent, ClusterID: "beef", LastTerm: 1, LastIndex: 1})
	r.claim(2, member.Survey{State: member.SurveyPresent, ClusterID: "cafe", MemberID: "2", Voters: []string{"0", "1", "2"}, LastTerm: 9, LastIndex: 9})
	r.surveying()
	return r
}

// Members served under an ID that nothing explains, and lost their quorum: nothing is chosen beside their data.
func TestDataThatNothingExplainsIsNotPassedOver(t *testing.T) {
	r := unexplained(t)
	v := r.execute()
	r.Expect(v.Recovery.Phase).To(Equal(v1alpha1.RecoverySurveying), v.Message)
	r.Expect(v.Message).To(ContainSubstring("the data of main-0 is of cluster beef"))
	r.Expect(v.Message).To(ContainSubstring("delete claim main-main-0"))
}

// A person deletes the claim.
func TestBackupIsRestoredWhereTheMemberAccepts(t *testing.T) {
	r := unexplained(t)
	for i := range int32(3) {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: r.task.Etcd.ClaimName(i)}}
		r.Expect(client.IgnoreNotFound(r.api.Delete(t.Context(), claim))).To(Succeed())
	}
	v := r.execute()
	r.Expect(v.Recovery.Source).To(Equal(v1alpha1.RecoverFromBackup), v.Message)
	r.Expect(v.Recovery.Member).To(Equal("main-0"), v.Message)
}

// A person records the ID: what was recorded when the task began is older, and its members may set it aside.
func TestClusterThatAPersonRecordsCounts(t *testing.T) {
	r := unexplained(t)
	etcd := &v1alpha1.Etcd{}
	r.Expect(r.api.Get(t.Context(), client.ObjectKeyFromObject(r.task.Etcd), etcd)).To(Succeed())
	etcd.Status.ClusterID = "beef"
	r.Expect(r.api.Update(t.Context(), etcd)).To(Succeed())
	v := r.execute()
	r.Expect(v.Recovery.Member).To(Equal("main-0"), v.Message)
	r.Expect(v.Recovery.PreviousClusterID).To(Equal("beef"))
	r.Expect(v.Recovery.EarlierClusterIDs).To(Equal([]string{"cafe"}))
}

// The same while the members are configured for a recovery before: they would refuse the data, so it is rebuilt, although it is a quorum.
func TestClusterThatAPersonRecordsAfterARecoveryIsRebuilt(t *testing.T) {
	r := newTrial(t)
	r.live(func(e *v1alpha1.Etcd) {
		e.Status.ClusterID, e.Status.ClusterSize = "beef", 3
		e.Status.Recovery = &v1alpha1.ClusterRecovery{Task: "first", TaskUID: "first", Member: "main-2", Source: v1alpha1.RecoverFromData, PreviousClusterID: "cafe"}
	})
	r.configMap(3)
	for i := range int32(2) {
		r.claim(i, member.Survey{State: member.SurveyPresent, ClusterID: "beef", MemberID: fmt.Sprint(i), Voters: []string{"0", "1", "2"}, LastTerm: 9, LastIndex: 900})
	}
	r.surveying()
	v := r.execute()
	r.Expect(v.Recovery.Source).To(Equal(v1alpha1.RecoverFromData), v.Message)
	r.Expect(v.Recovery.PreviousClusterID).To(Equal("beef"))
}

// The clusters that an Etcd has had, in the order in which they were made, whatever recoveries in a row have recorded.
func TestLineage(t *testing.T) {
	made := []string{"made-http", "made"}
	recovery := func(previous string, earlier ...string) *v1alpha1.ClusterRecovery {
		return &v1alpha1.ClusterRecovery{PreviousClusterID: previous, EarlierClusterIDs: earlier}
	}
	for name, c := range map[string]struct {
		recovery *v1alpha1.ClusterRecovery
		began    string
		recorded string
		want     []string
	}{
		"never recovered":                          {nil, "a", "a", []string{"a"}},
		"not recorded any more":                    {nil, "", "", nil},
		"has not served yet":                       {recovery("a"), "a", "a", []string{"a", "made-http", "made"}},
		"has served":                               {recovery("a"), "made", "made", []string{"a", "made-http", "made"}},
		"has served before peers used TLS":         {recovery("a"), "made-http", "made-http", []string{"a", "made", "made-http"}},
		"has served with peer URLs of its own":     {recovery("a"), "b", "b", []string{"a", "made-http", "made", "b"}},
		"the second in a row":                      {recovery("b", "a"), "a", "a", []string{"a", "b", "made-http", "made"}},
		"the third, from data that was not newest": {recovery("a", "a", "b"), "a", "a", []string{"a", "b", "made-http", "made"}},
		"another one was recorded since":           {nil, "a", "b", []string{"a", "b"}},
		"another one, after a recovery":            {recovery("a"), "made", "b", []string{"a", "made-http", "made", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			of := made
			if c.recovery == nil {
				of = nil
			}
			got := lineage(c.recovery, of, c.began, c.recorded)
			g.Expect(got).To(Equal(c.want))
			// Whatever is chosen of it, the next recovery knows the same order, and what it makes after it.
			for _, chosen := range got {
				next := lineage(&v1alpha1.ClusterRecovery{PreviousClusterID: chosen, EarlierClusterIDs: earlier(got, chosen)}, []string{"next"}, c.recorded, c.recorded)
				g.Expect(next).To(Equal(append(got, "next")), "from data of %s", chosen)
			}
		})
	}
	var many []string
	for i := range 40 {
		many = lineage(&v1alpha1.ClusterRecovery{PreviousClusterID: fmt.Sprint(i), EarlierClusterIDs: many}, nil, "", "")
	}
	NewWithT(t).Expect(earlier([]string{"cafe"}, "cafe")).To(BeEmpty(), "the previous cluster is recorded beside them")
	NewWithT(t).Expect(earlier(nil, "cafe")).To(BeEmpty())
	NewWithT(t).Expect(many).To(And(HaveLen(16), ContainElement("39")), "the status has no room for more")
}

// The IDs that the members themselves compute: with the peer URLs of today, and with those before or after TLS.
func TestIDOfTheClusterThatARecoveryMakes(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}}
	ids := map[component.PeerTLS][]string{}
	for _, station := range []component.PeerTLS{component.PeerTLSOff, component.PeerTLSOn} {
		config, err := component.ConfigMap(component.Input{Etcd: etcd, Replicas: 3, PeerTLS: station})
		g.Expect(err).NotTo(HaveOccurred())
		shared, err := member.ParseShared(config.Data)
		g.Expect(err).NotTo(HaveOccurred())
		ids[station], err = madeBy(shared, &v1alpha1.ClusterRecovery{TaskUID: "first", Member: "main-2"})
		g.Expect(err).NotTo(HaveOccurred())
		shared.Recovery = &member.Recovery{Task: "first", Member: "main-2"}
		g.Expect(ids[station][1]).To(Equal(member.ClusterID(shared.Token(), shared.Founders())))
		_, err = madeBy(shared, &v1alpha1.ClusterRecovery{TaskUID: "first", Member: "main-7"})
		g.Expect(err).To(MatchError(ContainSubstring("main-7")), "the founder is not known")
	}
	g.Expect(ids[component.PeerTLSOff]).To(Equal([]string{ids[component.PeerTLSOn][1], ids[component.PeerTLSOn][0]}))
	g.Expect(ids[component.PeerTLSOff][0]).NotTo(Equal(ids[component.PeerTLSOff][1]))
}

// The only voter that is left had fallen behind: the backup is chosen, by what the leases record. A person may decide otherwise, and a record
// that no cluster reaches is not believed.
func TestAVoterThatHadFallenBehind(t *testing.T) {
	const data = v1alpha1.RecoverFromData
	for _, c := range []struct {
		recorded string
		config   Config
		source   v1alpha1.RecoverySource
		highest  int64
	}{
		{"42", Config{}, v1alpha1.RecoverFromBackup, 42},
		{"42", Config{Source: data}, data, 42},
		{"4611686018427387905", Config{}, data, 9},
	} {
		r := newTrial(t)
		r.live(func(e *v1alpha1.Etcd) {
			e.Status.ClusterID, e.Status.ClusterSize = "cafe", 3
			e.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderS3}}
		})
		r.configMap(3)
		r.lease("etcd", c.recorded)
		r.claim(2, member.Survey{State: member.SurveyPresent, ClusterID: "cafe", MemberID: "2", Voters: []string{"0", "1", "2"}, LastTerm: 9, LastIndex: 9})
		r.surveying()
		r.task.Config = c.config
		v := r.execute()
		r.Expect(v.Recovery.Source).To(Equal(c.source), v.Message)
		r.Expect(v.Recovery.HighestRevision).To(Equal(c.highest))
	}
}

func TestConfig(t *testing.T) {
	for source, says := range map[v1alpha1.RecoverySource]string{"": "", v1alpha1.RecoverFromData: "", v1alpha1.RecoverFromBackup: `source: "Backup" is not supported: it is "Data", or empty`} {
		said := ""
		if err := (&Config{Source: source}).Validate(); err != nil {
			said = err.Error()
		}
		NewWithT(t).Expect(said).To(Equal(says))
	}
}
