//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// smallStore creates a backup volume of the given number of MiB. It returns its folder on this machine.
func (c *cluster) smallStore(name string, mib int) string {
	c.t.Helper()
	dir := c.t.TempDir()
	c.Expect(unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=1777", mib))).To(Succeed())
	c.t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(fmt.Sprintf("%dMi", mib))}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: c.namespace + "-" + name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}},
			ClaimRef:               &corev1.ObjectReference{Namespace: c.namespace, Name: name},
		},
	}
	// Left over by an interrupted run.
	c.Expect(client.IgnoreNotFound(kube.Delete(c.t.Context(), volume.DeepCopy()))).To(Succeed())
	c.Eventually(func() error { return kube.Create(context.Background(), volume.DeepCopy()) }).Should(Succeed())
	c.t.Cleanup(func() { _ = kube.Delete(context.Background(), volume) })
	c.create(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name},
		Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: modes, StorageClassName: ptr.To(""), VolumeName: volume.Name, Resources: corev1.VolumeResourceRequirements{Requests: size}},
	})
	return dir
}

// The backup volume is full: the failure is reported, no partial snapshot is left, the cluster keeps serving, and backups
// resume once there is space.
func TestStoreIsFull(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t)
	dir := c.smallStore("backups", 8)
	c.begin(1, withStore(time.Second))
	c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)
	c.fill(8)
	c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionFalse, v1alpha1.ReasonBackupFailed)
	c.Expect(c.etcd(c).Status.Conditions.Find(v1alpha1.ConditionBackupReady).Message).To(ContainSubstring("no space left on device"))

	c.Expect(unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=128m")).To(Succeed())
	c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)
	written := c.revision()
	c.untilBackedUp(written)
	c.backupsAreComplete(written)
	c.writesSurvive()
}

// The leader changes in the middle of a task's snapshot: nothing is left of that snapshot, and the task gets one from the
// new leader.
func TestLeaderChangesInTheMiddleOfASnapshot(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t)
	c.store("backups")
	c.begin(3, withStore(5*time.Minute), func(_ *cluster, e *v1alpha1.Etcd) {
		// The slowest compression, so that the leader can change during the snapshot.
		e.Spec.Backup.SnapshotCompression = &v1alpha1.CompressionSpec{Policy: ptr.To(v1alpha1.CompressionLZW)}
	})
	c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)
	c.fill(64)
	task := c.task("full", "type: full")
	task.Spec.Type = v1alpha1.OnDemandSnapshot
	c.create(task)
	folder := filepath.Join(c.volumeOf("backups"), c.namespace, etcdName, "v2")
	unfinished := func() []string {
		names, _ := filepath.Glob(filepath.Join(folder, ".unfinished-Full-*"))
		return names
	}
	c.Eventually(unfinished).WithPolling(20 * time.Millisecond).ShouldNot(BeEmpty())
	given, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(unfinished()[0]), ".unfinished-"), ".Z")
	c.leadBy((c.leader() + 1) % 3)
	result := c.untilTask("full", inState(v1alpha1.TaskStateSucceeded)).Status.Result
	t.Logf("%s was given up, and %s was taken", given, result["snapshot"])
	c.Expect(result["snapshot"]).NotTo(ContainSubstring(given))
	c.Expect(filepath.Glob(filepath.Join(folder, given+"*"))).To(BeEmpty())
	c.Expect(unfinished()).To(BeEmpty())
	revision, err := strconv.ParseInt(result["revision"], 10, 64)
	c.Expect(err).NotTo(HaveOccurred())
	c.backupsAreComplete(revision)
	c.writesSurvive()
}
