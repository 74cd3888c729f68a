//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// An etcd of a plain StatefulSet comes under management by a snapshot and a restore (docs/adopt.md). The downtime is logged.
func TestImportOfAPlainEtcd(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t)
	c.store("backups")
	endpoint := c.plainEtcd()
	old, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	c.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = old.Close() }()
	c.putKeysBy(old, drillKeys)

	stopped := time.Now()
	file := filepath.Join(t.TempDir(), "snapshot.db")
	output, err := exec.CommandContext(t.Context(), "../../.local/bin/etcdctl", "--endpoints", endpoint, "snapshot", "save", file).CombinedOutput()
	c.Expect(err).NotTo(HaveOccurred(), "%s", output)
	status, err := old.Status(t.Context(), endpoint)
	c.Expect(err).NotTo(HaveOccurred())
	c.putIntoStore(file, fmt.Sprintf("Full-00000000-%08d-%d", status.Header.Revision, time.Now().Unix()))

	etcd := c.newEtcd(1)
	withStore(time.Minute)(c, etcd)
	c.create(etcd)
	c.Eventually(func(g Gomega) { g.Expect(c.status(g, 0).Leader).NotTo(BeZero()) }).Should(Succeed())
	served := time.Since(stopped)
	c.ready()
	c.keysExist(drillKeys)
	c.Expect(c.revision()).To(BeNumerically(">=", status.Header.Revision), "clients that watch continue")
	c.startWriter()

	c.patch(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 3 })
	c.Eventually(func(g Gomega) {
		g.Expect(c.etcd(g).Status.ClusterSize).To(BeEquivalentTo(3))
	}).Should(Succeed())
	c.ready()
	t.Logf("%d keys: one member served after %s, three after %s", drillKeys, served.Round(time.Millisecond), time.Since(stopped).Round(time.Millisecond))
	c.keysExist(drillKeys)
	c.writesSurvive()
}

// plainEtcd starts a StatefulSet with an etcd of its own, which also mounts the backups, and returns its endpoint.
func (c *cluster) plainEtcd() (endpoint string) {
	c.t.Helper()
	labels := map[string]string{"app": "plain"}
	c.create(&appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "plain"},
		Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{
						Name: "etcd", Image: *etcdImage("3.6.16"),
						Command:      []string{"etcd", "--data-dir=/tmp/data", "--listen-client-urls=http://0.0.0.0:2379", "--advertise-client-urls=http://0.0.0.0:2379"},
						VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/tmp"}, {Name: "backups", MountPath: "/backups"}},
					}},
					Volumes: []corev1.Volume{
						{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
						{Name: "backups", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "backups"}}},
					},
				},
			},
			Replicas: ptr.To[int32](1),
		},
	})
	pod := &corev1.Pod{}
	c.Eventually(func(g Gomega) {
		g.Expect(kube.Get(c.t.Context(), types.NamespacedName{Namespace: c.namespace, Name: "plain-0"}, pod)).To(Succeed())
		g.Expect(etcdStatus(pod).State.Running).NotTo(BeNil())
	}).Should(Succeed())
	return fmt.Sprintf("http://%s:2379", pod.Status.PodIP)
}

// putIntoStore puts a file into the store, as the tool of a bucket would: here it is a directory of this machine.
func (c *cluster) putIntoStore(file, name string) {
	c.t.Helper()
	claim, volume := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
	c.Expect(kube.Get(c.t.Context(), types.NamespacedName{Namespace: c.namespace, Name: "backups"}, claim)).To(Succeed())
	c.Expect(kube.Get(c.t.Context(), types.NamespacedName{Name: claim.Spec.VolumeName}, volume)).To(Succeed())
	dir := filepath.Join(volume.Spec.HostPath.Path, c.namespace, etcdName, "v2")
	c.Expect(os.MkdirAll(dir, 0o755)).To(Succeed())
	content, err := os.ReadFile(file)
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(os.WriteFile(filepath.Join(dir, name), content, 0o644)).To(Succeed())
	// The agent runs as this user, and adds its own snapshots.
	c.Expect(exec.CommandContext(c.t.Context(), "chown", "-R", "65532:65532", filepath.Join(volume.Spec.HostPath.Path, c.namespace)).Run()).To(Succeed())
}
