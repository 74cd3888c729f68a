//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strconv"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// store makes a volume for backups.
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

// The three tasks that concern backups, in line, against the agents of the members and in real Jobs.
func TestBackupTasks(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t)
	c.store("backups")
	c.store("elsewhere")
	etcd := c.newEtcd(3)
	etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "backups"}}
	c.create(etcd)
	c.ready()
	c.startWriter()
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
		{"copy", v1alpha1.CopyBackups, "{sourceStore: {provider: Local, container: backups, prefix: " + prefix + "}, targetStore: {provider: Local, container: elsewhere, prefix: " + prefix + "}}"},
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
