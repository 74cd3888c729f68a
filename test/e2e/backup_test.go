//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// store creates a volume for backups.
func (c *cluster) store(name string) {
	c.t.Helper()
	c.create(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	})
}

// withStore keeps the backups of a cluster in the claim named backups and takes deltas in that period.
func withStore(deltas time.Duration) func(*cluster, *v1alpha1.Etcd) {
	return func(_ *cluster, e *v1alpha1.Etcd) {
		e.Spec.Backup = &v1alpha1.BackupSpec{
			Store:               &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "backups"},
			DeltaSnapshotPeriod: &metav1.Duration{Duration: deltas},
		}
	}
}

// withBackupTLS enables TLS for the agents.
func withBackupTLS(c *cluster, e *v1alpha1.Etcd) {
	pair, err := c.ca.Issue([]string{fmt.Sprintf("*.%s-peer.%s.svc", etcdName, c.namespace), fmt.Sprintf("%s-client.%s.svc", etcdName, c.namespace)})
	c.Expect(err).NotTo(HaveOccurred())
	c.put("agent", map[string][]byte{"tls.crt": pair.Certificate, "tls.key": pair.Key})
	e.Spec.Backup.TLS = &v1alpha1.BackupTLS{
		TLSCASecretRef:     v1alpha1.CASecretReference{SecretReference: v1alpha1.SecretReference{Name: caSecret}},
		ServerTLSSecretRef: v1alpha1.SecretReference{Name: "agent"},
	}
}

// saved returns the revision up to which the store is complete, according to the leases.
func (c *cluster) saved(g Gomega) (revision int64) {
	for _, name := range []string{etcdName + "-full-snap", etcdName + "-delta-snap"} {
		lease := &coordinationv1.Lease{}
		g.Expect(kube.Get(context.Background(), types.NamespacedName{Namespace: c.namespace, Name: name}, lease)).To(Succeed())
		if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != "" {
			n, err := strconv.ParseInt(holder, 10, 64)
			g.Expect(err).NotTo(HaveOccurred())
			revision = max(revision, n)
		}
	}
	return revision
}

func (c *cluster) untilBackedUp(revision int64) {
	c.t.Helper()
	c.Eventually(func(g Gomega) { g.Expect(c.saved(g)).To(BeNumerically(">=", revision)) }).Should(Succeed())
}

// do creates a task, waits for its success and returns its result.
func (c *cluster) do(name string, taskType v1alpha1.TaskType, config string) map[string]string {
	c.t.Helper()
	task := c.task(name, config)
	task.Spec.Type = taskType
	c.create(task)
	return c.untilTask(name, inState(v1alpha1.TaskStateSucceeded)).Status.Result
}

// backupsAreComplete restores the backups in a Job, which verifies every object, and asserts the revision they reach.
func (c *cluster) backupsAreComplete(revision int64) {
	c.t.Helper()
	result := c.do("verify", v1alpha1.OnDemandCompaction, "")
	c.Expect(strconv.ParseInt(result["revision"], 10, 64)).To(BeNumerically(">=", revision))
}

// The three backup tasks run one after another, against the members' agents with TLS and in real Jobs.
func TestBackupTasks(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t)
	c.store("backups")
	c.begin(3, issue, withStore(5*time.Minute), withBackupTLS)
	c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)

	prefix := c.namespace + "/" + etcdName
	for _, step := range []struct {
		name     string
		taskType v1alpha1.TaskType
		config   string
	}{
		{"full", v1alpha1.OnDemandSnapshot, "type: full"},
		{"delta", v1alpha1.OnDemandSnapshot, "type: delta"},
		{"compaction", v1alpha1.OnDemandCompaction, ""},
		{"copy", v1alpha1.CopyBackups, "{sourceStore: {provider: Local, container: backups, prefix: " + prefix + "}, targetStore: {provider: Local, container: backups, prefix: " + prefix + "-copy}}"},
	} {
		task := c.task(step.name, step.config)
		task.Spec.Type = step.taskType
		c.create(task)
	}
	result := func(name string) map[string]string {
		return c.untilTask(name, inState(v1alpha1.TaskStateSucceeded)).Status.Result
	}
	revision := func(of map[string]string, key string) int64 {
		n, err := strconv.ParseInt(of[key], 10, 64)
		c.Expect(err).NotTo(HaveOccurred(), "%v", of)
		return n
	}
	full, delta, compaction, copied := result("full"), result("delta"), result("compaction"), result("copy")
	t.Logf("full %v\ndelta %v\ncompaction %v\ncopy %v", full, delta, compaction, copied)
	c.Expect(full["snapshot"]).To(HavePrefix(prefix + "/v2/Full-"))
	c.Expect(delta["snapshot"]).To(HavePrefix(prefix + "/v2/Incr-"))
	c.Expect(revision(delta, "revision")).To(BeNumerically(">", revision(full, "revision")))
	c.Expect(compaction["snapshot"]).To(HavePrefix(prefix + "/v2/Full-"))
	c.Expect(revision(compaction, "revision")).To(BeNumerically(">=", revision(delta, "revision")))
	c.Expect(revision(copied, "copied")).To(BeNumerically(">", 0))
	c.Expect(revision(copied, "lastRevision")).To(BeNumerically(">=", revision(compaction, "revision")))
	c.writesSurvive()
}
