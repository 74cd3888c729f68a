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
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestBackupReady(t *testing.T) {
	lease := func(revision, failed string) *coordinationv1.Lease {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationBackupError: failed}}}
		if revision != "" {
			l.Spec.HolderIdentity, l.Spec.RenewTime = &revision, ptr.To(metav1.NewMicroTime(noon.Time))
		}
		return l
	}
	reporting := func(l *coordinationv1.Lease, at string) *coordinationv1.Lease {
		l.Annotations[v1alpha1.AnnotationBackupsCurrent] = at
		return l
	}
	current := func(l *coordinationv1.Lease, after time.Duration) *coordinationv1.Lease {
		return reporting(l, noon.Add(after).Format(time.RFC3339))
	}
	waiting := &metav1.Condition{Type: v1alpha1.ConditionBackupReady, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonNoFullSnapshot, LastTransitionTime: noon}
	for _, tc := range []struct {
		name    string
		before  *metav1.Condition
		leases  observe.SnapshotLeases
		now     time.Time
		want    metav1.ConditionStatus
		reason  string
		message string
	}{
		{"nothing yet", nil, observe.SnapshotLeases{}, noon.Time, metav1.ConditionUnknown, v1alpha1.ReasonNoFullSnapshot, "no full snapshot yet"},
		{"leases, and no snapshot", waiting, observe.SnapshotLeases{Full: lease("", ""), Delta: lease("", "")}, noon.Add(time.Minute), metav1.ConditionUnknown, v1alpha1.ReasonNoFullSnapshot, "yet"},
		{"no snapshot for too long", waiting, observe.SnapshotLeases{Full: lease("", ""), Delta: nil}, noon.Add(firstSnapshotTimeout), metav1.ConditionFalse, v1alpha1.ReasonBackupFailed, "No full snapshot was taken within"},
		{"full", nil, observe.SnapshotLeases{Full: lease("100", ""), Delta: lease("", "")}, noon.Time, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded, "Newest full snapshot: revision 100, 2"},
		{"full and delta", nil, observe.SnapshotLeases{Full: lease("100", ""), Delta: lease("120", "")}, noon.Time, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded, ", delta snapshot: revision 120, 2"},
		{"up to date, and idle for long", nil, observe.SnapshotLeases{Full: current(lease("100", ""), time.Hour), Delta: lease("120", "")}, noon.Add(time.Hour), metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded, "revision 120"},
		{"almost twice the period", nil, observe.SnapshotLeases{Full: current(lease("100", ""), 0)}, noon.Add(10*time.Minute + staleAllowance), metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded, "revision 100"},
		{"stale", nil, observe.SnapshotLeases{Full: current(lease("100", ""), 0)}, noon.Add(10*time.Minute + staleAllowance + time.Second), metav1.ConditionUnknown, v1alpha1.ReasonBackupsStale, "every 5m0s"},
		{"an agent that reports nonsense", nil, observe.SnapshotLeases{Full: reporting(lease("100", ""), "long ago")}, noon.Add(time.Hour), metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded, "revision 100"},
		{"failure", nil, observe.SnapshotLeases{Full: lease("100", "the store is full"), Delta: lease("120", "")}, noon.Time, metav1.ConditionFalse, v1alpha1.ReasonBackupFailed, "The last snapshot failed, or could not be restored: the store is full."},
		{"a failure of any length", nil, observe.SnapshotLeases{Full: lease("100", strings.Repeat("no\x1b[2J\n", 1<<15))}, noon.Time, metav1.ConditionFalse, v1alpha1.ReasonBackupFailed, "The last snapshot failed, or could not be restored: no [2J"},
		{"a revision of any length", nil, observe.SnapshotLeases{Full: lease(strings.Repeat("1", 1<<18), "")}, noon.Time, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded, "revision 111"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			got := backupReady(tc.before, "", tc.leases, false, 5*time.Minute, tc.now)
			g.Expect(got.Status).To(Equal(tc.want))
			g.Expect(got.Reason).To(Equal(tc.reason))
			g.Expect(got.Message).To(ContainSubstring(tc.message))
			g.Expect(len(got.Message)).To(BeNumerically("<=", 4<<10))
			g.Expect(strings.ContainsFunc(got.Message, sanitize.Harmful)).To(BeFalse())
		})
	}
}

// Where people alone have an identity, backups are well, and the condition does not say that the cluster can restore them.
func TestBackupsForPeopleOnly(t *testing.T) {
	g := NewWithT(t)
	full := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("7"), RenewTime: ptr.To(metav1.NewMicroTime(noon.Time))}}
	full.Annotations = map[string]string{v1alpha1.AnnotationRestorable: `[{"from":{"revision":1,"time":"2026-01-01T00:00:00Z"},"to":{"revision":7,"time":"2026-01-01T01:00:00Z"},"fine":true}]`}
	said := func(peopleOnly bool) metav1.Condition {
		return backupReady(nil, "", observe.SnapshotLeases{Full: full}, peopleOnly, 0, noon.Time)
	}
	g.Expect(said(false).Message).To(ContainSubstring("every state since 2026-01-01T00:00:00Z can be restored"))
	g.Expect(said(true)).To(And(HaveField("Status", metav1.ConditionTrue), HaveField("Message", ContainSubstring("only people can restore them"))))
	g.Expect(said(true).Message).NotTo(ContainSubstring("every state"))
}

// The condition says what can be restored: since when every state, and how far back some.
func TestWhatCanBeRestored(t *testing.T) {
	day := func(n int, fine bool) string {
		return fmt.Sprintf(`{"from":{"revision":1,"time":"2026-01-%02dT00:00:00Z"},"to":{"revision":7,"time":"2026-01-%02dT01:00:00Z"},"fine":%t}`, n, n, fine)
	}
	for text, want := range map[string]string{
		"":                        "",
		"nonsense":                "",
		"[" + day(9, true) + "]":  "; every state since 2026-01-09T00:00:00Z can be restored",
		"[" + day(9, false) + "]": "; the state of 2026-01-09T00:00:00Z can be restored",
		"[" + day(9, true) + "," + day(8, false) + "," + day(2, false) + "," + day(1, false)[:20]: "; every state since 2026-01-09T00:00:00Z can be restored, and 2 before it, back to 2026-01-02T00:00:00Z (kubectl etcdtask restorable ETCD)",
	} {
		full := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationRestorable: text}}}
		NewWithT(t).Expect(restorable(full, false)).To(Equal(want), text)
		full.Annotations[v1alpha1.AnnotationUndecryptable] = "1 of 2\nsnapshots"
		NewWithT(t).Expect(restorable(full, false)).To(Equal(want+"; 1 of 2 snapshots"), text)
	}
}

// A store that refuses, or does not answer, is named while its members wait in their init container: nothing has written a lease.
func TestAStoreThatRefusesIsNamed(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: "S3", Container: "x"}}
	o := observed(etcd, clustertest.Healthy(1), later)
	o.Leases = &observe.SnapshotLeases{}
	clustertest.Away(o.Snapshot, 0, v1alpha1.ClassStarting, "Init")
	o.Snapshot.Ordinals[0].Pod.Refusal = &cluster.Refusal{Reason: v1alpha1.ReasonBackupUnreachable, Message: "S3 container x, prefix y answered 404 NoSuchBucket: create the container"}
	next := Next(o)
	ready := next.Conditions.Find(v1alpha1.ConditionBackupReady)
	g.Expect(ready.Status).To(Equal(metav1.ConditionFalse))
	g.Expect(ready.Reason).To(Equal(v1alpha1.ReasonBackupUnreachable))
	g.Expect(ready.Message).To(And(ContainSubstring("S3 container x, prefix y answered 404 NoSuchBucket: create the container."), ContainSubstring(o.Snapshot.Ordinals[0].Name)))

	etcd.Status = next
	o.Snapshot.Ordinals[0].Pod.Refusal.Reason = v1alpha1.ReasonDataLost
	next = Next(o)
	g.Expect(next.Conditions.Find(v1alpha1.ConditionBackupReady).Reason).To(Equal(v1alpha1.ReasonNoFullSnapshot), "the store is not what it waits for")
}

// A store without a provider takes no backups, which the condition says until there is one, or no store.
func TestAStoreWithoutProvider(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Container: "x"}}
	g.Expect(etcd.HasBackupStore()).To(BeFalse())
	etcd.Status = Next(observed(etcd, clustertest.Healthy(1), later))
	g.Expect(etcd.Status.Conditions.Find(v1alpha1.ConditionBackupReady)).To(HaveValue(And(
		HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonNoProvider), HaveField("Message", ContainSubstring("spec.backup.store.provider")))))
	etcd.Spec.Backup.Store = nil
	etcd.Status = Next(observed(etcd, clustertest.Healthy(1), later))
	g.Expect(etcd.Status.Conditions.Find(v1alpha1.ConditionBackupReady)).To(BeNil())
}
