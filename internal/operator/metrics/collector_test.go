// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func task(name string, state v1alpha1.TaskState, created int64) *v1alpha1.EtcdOperatorTask {
	t := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, CreationTimestamp: metav1.Unix(created, 0)}}
	t.Spec.Type, t.Spec.OwnerEtcdReference.Name, t.Status.State = v1alpha1.QuorumAwareRollout, "main", state
	return t
}

func lease(name string, at time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: at}}}
}

func reader(t *testing.T, objects ...client.Object) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

// What a scrape takes: ten thousand Etcds have ten times as many series.
func BenchmarkCollector(b *testing.B) {
	const etcds, conditions = 1000, 9
	all := &v1alpha1.EtcdList{}
	for i := range etcds {
		etcd := v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("shoot-", i), Name: "etcd-main"}}
		for c := range conditions {
			etcd.Status.Conditions.Set(metav1.Condition{Type: fmt.Sprint("Condition", c), Status: metav1.ConditionTrue, Reason: fmt.Sprint("Reason", c)})
		}
		all.Items = append(all.Items, etcd)
	}
	active := make(chan struct{})
	close(active)
	registry := prometheus.NewRegistry()
	registry.MustRegister(&Collector{Cache: listed{all}, Active: active})
	b.ReportAllocs()
	for b.Loop() {
		families, err := registry.Gather()
		if err != nil || len(families) != 2 {
			b.Fatal(families, err)
		}
	}
	b.ReportMetric(etcds*conditions, "series")
}

// listed is a cache that has these Etcds and nothing else.
type listed struct{ etcds *v1alpha1.EtcdList }

func (l listed) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.ErrUnsupported
}

func (l listed) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if etcds, ok := list.(*v1alpha1.EtcdList); ok {
		etcds.Items = l.etcds.Items
	}
	return nil
}

func TestCollector(t *testing.T) {
	g := NewWithT(t)
	schedule, store := "0 0 * * *", v1alpha1.StoreSpec{Container: "b", Provider: "S3", Prefix: "p"}
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "main"}}
	etcd.Spec.Replicas, etcd.Status.ClusterID = 3, "cafe"
	etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: &store, FullSnapshotSchedule: &schedule}
	for _, c := range []metav1.Condition{
		{Type: "Ready", Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonHeldAtZero},
		{Type: "AllMembersReady", Status: metav1.ConditionUnknown, Reason: "Why"},
		{Type: "Scaled", Status: metav1.ConditionTrue, Reason: "Scaled"},
	} {
		etcd.Status.Conditions.Set(c)
	}
	running := blocked(v1alpha1.TaskStateInProgress, metav1.ConditionTrue, v1alpha1.ReasonHeld)
	suspended := task("suspended", v1alpha1.TaskStatePending, 15)
	suspended.Spec.Suspend = true
	waiting := task("waiting", v1alpha1.TaskStatePending, 12)
	waiting.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonWaitingForSlot}}
	noon := time.Unix(86400/2, 0)
	full := lease("main-full-snap", noon)
	full.Annotations = map[string]string{v1alpha1.AnnotationRestorable: `[{"from":{"revision":1,"time":"1970-01-01T06:00:00Z"},"to":{"revision":7,"time":"1970-01-01T12:00:00Z"},"fine":true},{"from":{"revi`}
	elected := make(chan struct{})
	c := &Collector{Active: elected, Cache: reader(t, etcd, running, suspended, waiting, task("ended", v1alpha1.TaskStateFailed, 5), task("unseen", "", 30), task("queued", v1alpha1.TaskStatePending, 20),
		full, lease("main-delta-snap", noon.Add(time.Hour)))}

	g.Expect(testutil.CollectAndCompare(c, strings.NewReader(`
# HELP etcd_foreman_active 1 if this instance is the active one. The others do not report Etcds and tasks.
# TYPE etcd_foreman_active gauge
etcd_foreman_active 0
`))).To(Succeed(), "an instance that is not active reports nothing else")

	close(elected)
	for name, want := range map[string]string{
		"etcd_foreman_active":                                     `{} 1`,
		"etcd_foreman_etcd_condition":                             `{condition="AllMembersReady",etcd="main",etcd_namespace="a",reason="Why"} -1|{condition="Ready",etcd="main",etcd_namespace="a",reason="HeldAtZero"} 0|{condition="Scaled",etcd="main",etcd_namespace="a",reason="Scaled"} 1`,
		"etcd_foreman_etcd_stopped":                               `{etcd="main",etcd_namespace="a"} 1`,
		"etcd_foreman_backup_snapshot_timestamp_seconds":          `{etcd="main",etcd_namespace="a",kind="delta"} 46800|{etcd="main",etcd_namespace="a",kind="full"} 43200`,
		"etcd_foreman_backup_full_snapshot_due_timestamp_seconds": `{etcd="main",etcd_namespace="a"} 86400`,
		"etcd_foreman_backup_restorable_since_timestamp_seconds":  `{etcd="main",etcd_namespace="a"} 21600`,
		"etcd_foreman_backup_restorable_expected_seconds":         `{etcd="main",etcd_namespace="a"} 86400`,
		"etcd_foreman_rollout_held":                               `{etcd="main",etcd_namespace="a",guard="QuorumKept"} 1`,
		"etcd_foreman_tasks":                                      `{etcd="main",etcd_namespace="a",state="Failed",type="QuorumAwareRollout"} 1|{etcd="main",etcd_namespace="a",state="InProgress",type="QuorumAwareRollout"} 1|{etcd="main",etcd_namespace="a",state="Pending",type="QuorumAwareRollout"} 4`,
		"etcd_foreman_task_oldest_waiting_timestamp_seconds":      `{etcd="main",etcd_namespace="a"} 20`,
	} {
		g.Expect(series(g, c, name)).To(Equal(want), name)
	}

	etcd.Spec.Replicas = 0
	c.Cache = reader(t, etcd, lease("main-full-snap", noon))
	g.Expect(testutil.CollectAndCount(c, "etcd_foreman_backup_full_snapshot_due_timestamp_seconds")).To(BeZero(), "no snapshot is due of a hibernated cluster")
	problems, err := testutil.CollectAndLint(c)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(problems).To(BeEmpty())
}

// series returns those of a metric.
func series(g *WithT, c prometheus.Collector, name string) string {
	out, err := testutil.CollectAndFormat(c, expfmt.TypeTextPlain, name)
	g.Expect(err).NotTo(HaveOccurred())
	var lines []string
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "#") {
			line = strings.TrimPrefix(strings.TrimSpace(line), name)
			if !strings.HasPrefix(line, "{") {
				line = "{}" + line
			}
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "|")
}

// blocked is a rollout whose status names a guard.
func blocked(state v1alpha1.TaskState, progressing metav1.ConditionStatus, reason string) *v1alpha1.EtcdOperatorTask {
	t := task("blocked", state, 10)
	t.Status.Rollout = &v1alpha1.RolloutStatus{HeldBy: &v1alpha1.Hold{Guard: v1alpha1.GuardQuorumKept}}
	t.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProgressing, Status: progressing, Reason: reason}}
	return t
}

// An Etcd of etcd-druid has no status that the operator knows, and its backups are not the operator's: without etcd_foreman_active, and what
// is true of tasks, EtcdForemanDown fired for ever in executor mode, and no alert on a task could.
func TestTasksOnly(t *testing.T) {
	g := NewWithT(t)
	active := make(chan struct{})
	close(active)
	schedule := "0 0 * * *"
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "main"}}
	etcd.Spec.Replicas = 3
	etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Container: "b", Provider: "S3", Prefix: "p"}, FullSnapshotSchedule: &schedule}
	etcd.Status.Conditions.Set(metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonQuorumLost})
	c := &Collector{Active: active, TasksOnly: true, Cache: reader(t, etcd, lease("main-full-snap", time.Unix(0, 0)), task("queued", v1alpha1.TaskStatePending, 20),
		blocked(v1alpha1.TaskStateInProgress, metav1.ConditionTrue, v1alpha1.ReasonHeld))}
	for name, want := range map[string]string{
		"etcd_foreman_active":                                `{} 1`,
		"etcd_foreman_rollout_held":                          `{etcd="main",etcd_namespace="a",guard="QuorumKept"} 1`,
		"etcd_foreman_tasks":                                 `{etcd="main",etcd_namespace="a",state="InProgress",type="QuorumAwareRollout"} 1|{etcd="main",etcd_namespace="a",state="Pending",type="QuorumAwareRollout"} 1`,
		"etcd_foreman_task_oldest_waiting_timestamp_seconds": `{etcd="main",etcd_namespace="a"} 20`,
	} {
		g.Expect(series(g, c, name)).To(Equal(want), name)
	}
	g.Expect(testutil.CollectAndCount(c)).To(Equal(5), "nothing else is known")
}

// An Etcd that is to serve and has no members running is down, whatever it waits for: a recovery or a Restore that waits for a person, and a
// recreation that is suspended, stopped a cluster without an alert.
func TestStopped(t *testing.T) {
	active := make(chan struct{})
	close(active)
	for name, c := range map[string]struct {
		status    metav1.ConditionStatus
		reason    string
		replicas  int32
		clusterID string
		want      int
	}{
		"a task has stopped all members": {metav1.ConditionFalse, v1alpha1.ReasonHeldAtZero, 3, "cafe", 1},
		"it does not wake up":            {metav1.ConditionFalse, v1alpha1.ReasonWakingUp, 1, "cafe", 1},
		"hibernated":                     {metav1.ConditionFalse, v1alpha1.ReasonHibernated, 0, "cafe", 0},
		"hibernated in a recovery":       {metav1.ConditionFalse, v1alpha1.ReasonHeldAtZero, 0, "cafe", 0},
		"has never served":               {metav1.ConditionFalse, v1alpha1.ReasonWakingUp, 3, "", 0},
		"has EtcdQuorumLost":             {metav1.ConditionFalse, v1alpha1.ReasonQuorumLost, 3, "cafe", 0},
		"may serve":                      {metav1.ConditionUnknown, v1alpha1.ReasonNoMemberAnswers, 3, "cafe", 0},
		"serves":                         {metav1.ConditionTrue, v1alpha1.ReasonQuorate, 3, "cafe", 0},
	} {
		t.Run(name, func(t *testing.T) {
			etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "main"}}
			etcd.Spec.Replicas, etcd.Status.ClusterID = c.replicas, c.clusterID
			etcd.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionReady, Status: c.status, Reason: c.reason})
			NewWithT(t).Expect(testutil.CollectAndCount(&Collector{Active: active, Cache: reader(t, etcd)}, "etcd_foreman_etcd_stopped")).To(Equal(c.want))
		})
	}
}

// A migration waits for its cut-over for as long as a person wants, and a rollout that is suspended, or waits for a window, does so on purpose:
// EtcdRolloutHeld fired for both, for ever.
func TestBlockedRollouts(t *testing.T) {
	const running, no, yes = v1alpha1.TaskStateInProgress, metav1.ConditionFalse, metav1.ConditionTrue
	migration := task("migration", running, 10)
	migration.Spec.Type, migration.Status.Membership = v1alpha1.MembershipChange, &v1alpha1.MembershipStatus{HeldBy: &v1alpha1.Hold{Guard: "SourcesKeepQuorum"}}
	migration.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProgressing, Status: yes, Reason: v1alpha1.ReasonHeld}}
	for name, c := range map[string]struct {
		task *v1alpha1.EtcdOperatorTask
		want v1alpha1.GuardName
	}{
		"blocked":                {blocked(running, yes, v1alpha1.ReasonHeld), v1alpha1.GuardQuorumKept},
		"stalled":                {blocked(running, no, v1alpha1.ReasonStalled), v1alpha1.GuardQuorumKept},
		"observations fail":      {blocked(running, no, v1alpha1.ReasonRetrying), v1alpha1.GuardQuorumKept},
		"blocked recreation":     {blocked(running, yes, v1alpha1.ReasonRecreateInProgress), v1alpha1.GuardQuorumKept},
		"suspended":              {blocked(running, no, v1alpha1.ReasonSuspended), ""},
		"waits for a window":     {blocked(running, no, v1alpha1.ReasonWaitingForWindow), ""},
		"waits for its cut-over": {migration, ""},
		"is not blocked":         {task("runs", running, 10), ""},
		"ended":                  {blocked(v1alpha1.TaskStateFailed, no, v1alpha1.ReasonFailed), ""},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(blockedBy(c.task)).To(Equal(c.want)) })
	}
}

// Where full snapshots are taken on working days, what can be restored is never expected to be as long as a weekend: on Thursday and Friday,
// the alert EtcdRestorableShort fired for hours.
func TestRestorableOnWorkingDays(t *testing.T) {
	g := NewWithT(t)
	schedule, active := "0 0 * * 1-5", make(chan struct{})
	close(active)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "main"}}
	etcd.Spec.Replicas = 3
	etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Container: "b", Provider: "S3", Prefix: "p"}, FullSnapshotSchedule: &schedule}
	monday := time.Date(2026, 11, 23, 0, 0, 7, 0, time.UTC)
	for day := range 5 {
		c := &Collector{Active: active, Cache: reader(t, etcd, lease("main-full-snap", monday.AddDate(0, 0, day)))}
		out, err := testutil.CollectAndFormat(c, expfmt.TypeTextPlain, "etcd_foreman_backup_restorable_expected_seconds")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(out)).To(ContainSubstring(`{etcd="main",etcd_namespace="a"} 86400`), monday.AddDate(0, 0, day).Weekday().String())
	}
}
