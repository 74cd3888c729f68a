// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/clitest"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/queue"
	"github.com/etcd-foreman/etcd-foreman/test/golden"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func etcd(name string, conditions ...metav1.Condition) *v1alpha1.Etcd {
	e := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, Generation: 1, CreationTimestamp: clitest.Ago(3600)}}
	e.Spec.Replicas = 3
	e.Status.ObservedGeneration, e.Status.ReadyReplicas, e.Status.UpdatedReplicas = 1, 3, 3
	for i := range conditions {
		conditions[i].LastTransitionTime = clitest.Ago(120)
		e.Status.Conditions.Set(conditions[i])
	}
	return e
}

func is(condition string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: condition, Status: status, Reason: reason, Message: message}
}

func TestStatus(t *testing.T) {
	quorate := is(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonQuorate, "3 of 3 voters serve.")
	healthy := etcd("etcd-main", quorate, is(v1alpha1.ConditionUpToDate, metav1.ConditionTrue, v1alpha1.ReasonUpToDate, ""),
		is(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded, "Newest full snapshot: revision 4711, 2026-01-01T23:00:00Z."))
	healthy.Status.Members = []v1alpha1.Member{
		{Name: "etcd-main-0", Role: v1alpha1.MemberRoleLeader, Status: v1alpha1.MemberReady, LastTransitionTime: clitest.Ago(3000)},
		{Name: "etcd-main-1", Role: v1alpha1.MemberRoleMember, Status: v1alpha1.MemberNotReady, Reason: "ContainersNotReady", LastTransitionTime: clitest.Ago(60)},
	}
	stuck := etcd("etcd-stuck", quorate, is(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRolloutStalled, "Task x: no progress\x1b[2J for 10m."),
		is(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse, v1alpha1.ReasonNotAllMembersReady, "etcd-main-1 is Dead (OOMKilled)."))
	stuck.Generation, stuck.Status.Rollout, stuck.Status.ReadyReplicas = 2, &v1alpha1.CurrentRollout{Task: "x"}, 2
	asleep := etcd("etcd-idle", is(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHibernated, "The Etcd has no replicas."))
	broken := clustertest.Healthy(3)
	clustertest.Away(broken, 1, v1alpha1.ClassDead, "OOMKilled")
	backedUp := healthy.DeepCopy()
	backedUp.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderS3}}
	backedUp.Spec.Etcd.Quota = ptr.To(resource.MustParse("8Gi"))
	stale := backedUp.DeepCopy()
	stale.Status.Conditions.Set(is(v1alpha1.ConditionBackupReady, metav1.ConditionFalse, v1alpha1.ReasonBackupFailed, "Newest full snapshot: revision 4711, 2025-12-29T23:00:00Z, older than two periods."))
	lost := clustertest.Healthy(3)
	clustertest.Away(lost, 1, v1alpha1.ClassDead, "OOMKilled")
	clustertest.Away(lost, 2, v1alpha1.ClassMissing, "")
	full := lease("4711", 3000)
	full.Annotations = map[string]string{v1alpha1.AnnotationRestorable: fmt.Sprintf(`[{"from":{"revision":90,"time":%q},"to":{"revision":4711,"time":%q},"fine":true},`+
		`{"from":{"revision":50,"time":"2025-12-20T01:00:00Z"},"to":{"revision":50,"time":"2025-12-20T01:00:00Z"},"fine":false}]`, clitest.Ago(26*3600).Format(time.RFC3339), clitest.Ago(3000).Format(time.RFC3339))}
	alarmed := healthy.DeepCopy()
	noSpace := is(v1alpha1.ConditionAlarmRaised, metav1.ConditionTrue, v1alpha1.ReasonAlarmNoSpace, "Alarm NOSPACE of etcd-main-0: a database has reached its quota.")
	noSpace.LastTransitionTime = clitest.Ago(120)
	alarmed.Status.Conditions.Set(noSpace)
	for name, v := range map[string]view{
		"healthy": {
			etcd: backedUp, snapshot: clustertest.Healthy(3), leases: observe.SnapshotLeases{Full: full, Delta: lease("4720", 100)},
			databases: map[string]etcdclient.Database{
				"etcd-main-0": {Size: 3 << 30, InUse: 2 << 30, Quota: 4 << 30}, "etcd-main-1": {Size: 25 << 20, InUse: 20480}, "etcd-main-2": {Size: 25 << 20, InUse: 20480},
			},
		},
		"stuck":  {etcd: stuck, snapshot: broken, queue: queue.New(clitest.Queue()), unreachable: "not permitted: pods/portforward is forbidden"},
		"blind":  {etcd: asleep, trouble: "not permitted: pods is forbidden"},
		"viewer": {etcd: stale, trouble: "not permitted: pods/portforward is forbidden", noLeases: "not permitted: leases is forbidden"},
		"lost":   {etcd: backedUp, snapshot: lost, noAlarms: "no member serves"},
		"alarm":  {etcd: alarmed, snapshot: clustertest.Healthy(3), unreachable: "not permitted: pods/portforward is forbidden"},
		"alarms": {etcd: alarmed, snapshot: clustertest.Healthy(3), alarms: []etcdclient.Alarm{{MemberID: 1, Kind: etcdclient.AlarmNoSpace}, {MemberID: 77, Kind: etcdclient.AlarmCorrupt}}},
	} {
		for suffix, width := range map[string]int{"": 0, "-80": 80} {
			golden.Check(t, "status-"+name+suffix+".txt", []byte(strings.Join(v.lines(clitest.Now, width), "\n")+"\n"))
		}
	}
	all := []v1alpha1.Etcd{*healthy, *asleep, *stuck}
	golden.Check(t, "status-all.txt", []byte(strings.Join(table(all, true, clitest.Now).Lines(0), "\n")+"\n"))
}

func lease(holder string, ago int) *coordinationv1.Lease {
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &metav1.MicroTime{Time: clitest.Ago(ago).Time}}}
}

func TestBackupThatCannotBeRead(t *testing.T) {
	g := NewWithT(t)
	e := etcd("etcd-main")
	e.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderS3}}
	g.Expect(view{etcd: e}.backup(clitest.Now)).To(Equal("no snapshot is known."))
	g.Expect(view{etcd: e, noLeases: "not permitted: x"}.backup(clitest.Now)).To(Equal(
		"unknown, because the leases that record snapshots cannot be read: not permitted: x"))
	e.Status.Conditions.Set(is(v1alpha1.ConditionBackupReady, metav1.ConditionFalse, v1alpha1.ReasonBackupFailed, "No snapshot for 2 days."))
	g.Expect(view{etcd: e}.backup(clitest.Now)).To(Equal("no snapshot is known."), "the leases were read: there are none")
	g.Expect(view{etcd: e, noLeases: "not permitted: x"}.backup(clitest.Now)).To(Equal("No snapshot for 2 days."))
}
