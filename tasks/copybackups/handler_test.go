// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package copybackups

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/taskconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/policy"
	"github.com/etcd-foreman/etcd-foreman/internal/job/copyjob"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const stores = `
sourceStore: {provider: aws, container: old, prefix: a/main, secretRef: {name: s}}
targetStore: {provider: Local, container: claim, prefix: a/main}
`

// etcd has its own backups where the copies of these tests come from.
func etcd() *v1alpha1.Etcd {
	return &v1alpha1.Etcd{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"},
		Spec: v1alpha1.EtcdSpec{Backup: &v1alpha1.BackupSpec{
			Store: &v1alpha1.StoreSpec{Provider: "S3", Container: "old", Prefix: "a/main", SecretRef: &v1alpha1.SecretReference{Name: "s"}},
		}},
	}
}

// handler may copy to the claim besides.
func handler(neighbors ...client.Object) *Handler {
	api := apitest.API(neighbors...)
	return &Handler{
		Jobs:  tasks.Jobs{Client: api, Live: api, Image: "x/agent"},
		Rules: policy.Rules{CopyStores: []configv1alpha1.CopyStore{{Provider: "Local", Container: "claim"}}},
	}
}

func taskOf(g *WithT, config string) tasks.Typed[Config] {
	c, err := taskconfig.Decode[Config](config)
	g.Expect(err).NotTo(HaveOccurred())
	object := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "copy", UID: "1"}}
	return tasks.Typed[Config]{Task: tasks.Task{Object: object, Etcd: etcd()}, Config: c}
}

func TestConfig(t *testing.T) {
	for config, says := range map[string]string{
		"": "Store is missing",
		"sourceStore: {provider: aws, container: a, prefix: p}":                                                       "targetStore is missing",
		"sourceStore: {provider: aws, container: a, prefix: p}\ntargetStore: {provider: S3, container: a, prefix: p}": "the same place",
		"sourceStore: {provider: aws, container: a, prefix: p}\ntargetStore: {provider: S3, container: b}":            "the prefix of targetStore",
		"sourceStore: {provider: aws, container: a, prefix: p/../q}\ntargetStore: {provider: S3, prefix: p}":          "the prefix of sourceStore",
		stores + "waitForFinalSnapshot: {enabled: true, timeout: 7h}":                                                 "waitForFinalSnapshot.timeout is 7h0m0s",
		stores + "waitForFinalSnapshot: {enabled: true, timeout: 0s}":                                                 "waitForFinalSnapshot.timeout is 0s",
		stores + "waitForFinalSnapshot: {enabled: true, timeout: -1s}":                                                "waitForFinalSnapshot.timeout is -1s",
		stores + "maxBackups: 0":    "maxBackups is 0",
		stores + "maxBackups: -1":   "maxBackups",
		stores + "maxBackupsAge: 1": `unknown field "maxBackupsAge"`,
	} {
		t.Run(config, func(t *testing.T) {
			_, err := taskconfig.Decode[Config](config)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(says)))
		})
	}
}

func TestJob(t *testing.T) {
	g := NewWithT(t)
	h := handler()
	task := taskOf(g, stores+"maxBackupAge: 7\nmaxBackups: 3")
	admitted, err := h.Admit(context.Background(), task)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(admitted.Outcome).To(Equal(tasks.Continue))
	j, err := h.job(t.Context(), task)
	g.Expect(err).NotTo(HaveOccurred())
	c := j.Spec.Template.Spec.Containers[0]
	g.Expect(c.Image).To(Equal("x/agent"))
	g.Expect(c.Args).To(HaveExactElements("copy", "--max-backup-age=7", "--max-backups=3", "--full-snapshot-schedule=22 3 * * *",
		"--store-provider=Local", "--store-prefix=a/main", HavePrefix("--store-container=/"),
		"--source-store-provider=S3", "--source-store-prefix=a/main", "--source-store-container=old", HavePrefix("--source-store-credentials=/")))
}

// etcd-druid admits a leading slash in a prefix.
func TestALeadingSlashIsIgnored(t *testing.T) {
	g := NewWithT(t)
	slash := strings.ReplaceAll(stores, "prefix: ", "prefix: /")
	g.Expect(slash).NotTo(Equal(stores))
	g.Expect(taskOf(g, slash).Config).To(Equal(taskOf(g, stores).Config))
	_, err := taskconfig.Decode[Config](strings.ReplaceAll(stores, "prefix: ", "prefix: //"))
	g.Expect(err).To(MatchError(ContainSubstring("the prefix of sourceStore")))
}

func TestTheFinalSnapshot(t *testing.T) {
	for config, want := range map[string]string{
		"": "", "waitForFinalSnapshot: {enabled: false, timeout: 1m}": "",
		"waitForFinalSnapshot: {enabled: true}":              "--wait-for-final-snapshot=5m0s",
		"waitForFinalSnapshot: {enabled: true, timeout: 1m}": "--wait-for-final-snapshot=1m0s",
	} {
		t.Run(config, func(t *testing.T) {
			g := NewWithT(t)
			j, err := handler().job(t.Context(), taskOf(g, stores+config))
			g.Expect(err).NotTo(HaveOccurred())
			pod := j.Spec.Template
			if want == "" {
				g.Expect(pod.Spec.Containers[0].Args).NotTo(ContainElement(HavePrefix("--wait-for-final-snapshot")))
			} else {
				g.Expect(pod.Spec.Containers[0].Args).To(ContainElement(want))
			}
			g.Expect(pod.Labels).To(And(HaveKeyWithValue(v1alpha1.LabelNetworkDNS, "allowed"), HaveKeyWithValue(v1alpha1.LabelNetworkPublic, "allowed"), HaveKeyWithValue(v1alpha1.LabelNetworkPrivate, "allowed")))
			g.Expect(j.Labels).NotTo(HaveKey(v1alpha1.LabelNetworkDNS), "only pods send requests")
		})
	}
}

// Where snapshots are signed, a copy verifies the source and signs for the target, and a copy of the Etcd's own store knows what is
// recorded of it.
func TestJobOfSignedSnapshots(t *testing.T) {
	g := NewWithT(t)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main-full-snap"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("7"), RenewTime: ptr.To(metav1.NewMicroTime(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)))},
	}
	args := func(config string) []string {
		task := taskOf(g, config)
		task.Etcd.Namespace = "ns"
		task.Etcd.Spec.Backup.Signing = &v1alpha1.SigningSpec{SecretRef: v1alpha1.SecretReference{Name: "keys"}}
		h := handler(lease)
		j, err := h.job(t.Context(), task)
		g.Expect(err).NotTo(HaveOccurred())
		return j.Spec.Template.Spec.Containers[0].Args
	}
	signed := args(stores)
	g.Expect(signed).To(ContainElements(HavePrefix("--store-signing-keys=/"), HavePrefix("--source-store-signing-keys=/"), "--recorded-revision=7", "--recorded-created=2026-07-01T12:00:00Z"))
	elsewhere := args("sourceStore: {provider: Local, container: claim, prefix: p}\ntargetStore: {provider: aws, container: old, prefix: q, secretRef: {name: s}}")
	g.Expect(elsewhere).To(ContainElement(HavePrefix("--source-store-signing-keys=/")))
	g.Expect(elsewhere).NotTo(ContainElement(HavePrefix("--recorded-")), "nothing is recorded of another store")
	for _, other := range []string{"container: old, prefix: b", "container: other, prefix: a/main"} {
		g.Expect(args("sourceStore: {provider: aws, "+other+", secretRef: {name: s}}\ntargetStore: {provider: Local, container: claim, prefix: q}")).NotTo(ContainElement(HavePrefix("--recorded-")), other)
	}
	g.Expect(args("sourceStore: {provider: gcp, container: old, prefix: a/main, secretRef: {name: s}}\ntargetStore: {provider: Local, container: claim, prefix: q}")).NotTo(ContainElement(HavePrefix("--recorded-")))
	g.Expect(args(stores + "allowUnsigned: true")).NotTo(ContainElement(ContainSubstring("signing-keys")))
}

func TestSecretOfAnotherNamespace(t *testing.T) {
	g := NewWithT(t)
	h := &Handler{}
	task := taskOf(g, "sourceStore: {provider: aws, container: old, prefix: a/main, secretRef: {name: s, namespace: kube-system}}\ntargetStore: {provider: Local, container: claim, prefix: p}")
	v, err := h.Admit(context.Background(), task)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(v.Outcome).To(Equal(tasks.Reject))
	g.Expect(v.Message).To(ContainSubstring("kube-system"))
}

// A copy does not overwrite backups that are in use, and uses only stores that are named.
func TestForeignStores(t *testing.T) {
	neighbor := etcd()
	neighbor.Name, neighbor.Spec.Backup.Store = "events", &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "claim"}
	for config, says := range map[string]string{
		"sourceStore: {provider: Local, container: claim, prefix: p}\ntargetStore: {provider: aws, container: old, prefix: a/main, secretRef: {name: s}}":         "live backups of Etcd main",
		"sourceStore: {provider: aws, container: old, prefix: a/main, secretRef: {name: s}}\ntargetStore: {provider: Local, container: claim, prefix: ns/events}": "live backups of Etcd events",
		"sourceStore: {provider: aws, container: old, prefix: a/main, secretRef: {name: s}}\ntargetStore: {provider: Local, container: other, prefix: p}":         "targetStore is named neither",
		"sourceStore: {provider: aws, container: old, prefix: a/main, secretRef: {name: mine}}\ntargetStore: {provider: Local, container: claim, prefix: p}":      "one side of a copy",
		"sourceStore: {provider: aws, container: theirs, prefix: a/main, secretRef: {name: mine}}\ntargetStore: {provider: Local, container: claim, prefix: p}":   "one side of a copy",
	} {
		t.Run(config, func(t *testing.T) {
			g := NewWithT(t)
			v, err := handler(neighbor, etcd()).Admit(t.Context(), taskOf(g, config))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(v.Outcome).To(Equal(tasks.Reject))
			g.Expect(v.Code).To(Equal(v1alpha1.ErrInvalidConfig))
			g.Expect(v.Message).To(ContainSubstring(says))
		})
	}
}

// A Job is not made while it is not known what a restore must reach, or without the keys.
func TestCopyThatCannotBegin(t *testing.T) {
	g := NewWithT(t)
	task := taskOf(g, stores)
	task.Etcd.Namespace = "ns"
	task.Etcd.Spec.Backup.Signing = &v1alpha1.SigningSpec{SecretRef: v1alpha1.SecretReference{Name: "keys"}}
	apitest.EachRequestFails(t, apitest.API(task.Etcd, task.Object), func(api client.WithWatch) error {
		_, err := (&Handler{Jobs: tasks.Jobs{Client: api, Live: api, Image: "x/agent"}}).Execute(t.Context(), task)
		return err
	})
	apitest.EachRequestFails(t, apitest.API(task.Etcd, task.Object), func(api client.WithWatch) error {
		_, err := (&Handler{Jobs: tasks.Jobs{Live: api}, Rules: policy.Rules{CopyStores: []configv1alpha1.CopyStore{{Provider: "Local", Container: "claim"}}}}).Admit(t.Context(), task)
		return err
	})
	task.Etcd.Spec.Backup.Signing.SecretRef.Name = ""
	v, err := handler().Execute(t.Context(), task)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(v.Outcome).To(Equal(tasks.Fail))
	g.Expect(v.Message).To(ContainSubstring("secretRef has no name"))
}

func TestImageOfTheEtcd(t *testing.T) {
	g := NewWithT(t)
	task := taskOf(g, stores)
	task.Etcd.Spec.Backup.Image = ptr.To("its/own")
	j, err := handler().job(t.Context(), task)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(j.Spec.Template.Spec.Containers[0].Image).To(Equal("its/own"))
	task.Etcd.Spec.Backup = nil
	j, err = handler().job(t.Context(), task)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(j.Spec.Template.Spec.Containers[0].Image).To(Equal("x/agent"))
}

func TestTimeoutOfTheFinalSnapshot(t *testing.T) {
	g := NewWithT(t)
	for _, timeout := range []string{"1s", "6h"} {
		_, err := taskconfig.Decode[Config](stores + "waitForFinalSnapshot: {enabled: true, timeout: " + timeout + "}")
		g.Expect(err).NotTo(HaveOccurred(), timeout)
	}
}

func TestWorkAndRecordedConfig(t *testing.T) {
	g, h := NewWithT(t), &Handler{}
	task := taskOf(g, stores+"maxBackups: 3")
	key, err := h.WorkKey(t.Context(), task)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(key).To(ContainSubstring(`"maxBackups":3`))
	again, err := taskconfig.Recorded[Config](key)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again).To(Equal(task.Config))
	_, err = taskconfig.Recorded[Config]("x")
	g.Expect(err).To(MatchError(ContainSubstring("status.config: ")))
}

// A task that has no Job yet waits until fewer copies of its namespace run, and goes on once it has begun.
func TestACopyWaitsForItsTurn(t *testing.T) {
	g := NewWithT(t)
	var running []client.Object
	for i := range copyjob.MaxInNamespace {
		running = append(running, &v1alpha1.EtcdOperatorTask{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("a-", i)},
			Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.CopyBackups},
			Status:     v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStateInProgress},
		})
	}
	task := taskOf(g, stores)
	v, err := handler(running...).Execute(t.Context(), task)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(v).To(Equal(tasks.Verdict{
		Outcome: tasks.Continue, Reason: v1alpha1.ReasonQueued, RequeueAfter: turnPoll,
		Message: "waiting: at most 5 copies of backups run at once in a namespace, and older ones have not ended",
	}))
	v, err = handler(running[1:]...).Execute(t.Context(), task)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(v.Step).NotTo(BeNil())
	task.Object.Status.Result = v.Result
	v, err = handler(running...).Execute(t.Context(), task)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(v.Step).NotTo(BeNil(), "its Job is created again")
}
