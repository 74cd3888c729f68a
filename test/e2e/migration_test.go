//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// oldName is the name of the StatefulSet and the Service of the plain etcd that moves.
const oldName = "old"

// A plain etcd of three in another namespace moves under management while a client writes: 3, 5, 6 and 3 voters (docs/adopt.md). The
// longest gap is logged.
func TestMigrationOfAPlainEtcd(t *testing.T) {
	t.Parallel()
	c, source := newEmptyCluster(t), newEmptyCluster(t, "source")
	endpoints := source.plainCluster()
	writes := c.startMigrationWriter(endpoints)
	id := c.clusterID(endpoints[0])

	etcd := c.newEtcd(3)
	joins := &v1alpha1.BootstrapWithExistingCluster{}
	for i := range 3 {
		joins.Members = append(joins.Members, v1alpha1.BootstrapExistingMember{Name: fmt.Sprintf("%s-%d", oldName, i), PeerURLs: []string{source.oldURL(i, 2380)}})
		joins.ClientEndpoints = append(joins.ClientEndpoints, source.oldURL(i, 2379))
	}
	etcd.Spec.Etcd.BootstrapWithExistingCluster = joins
	c.create(etcd)
	began := time.Now()
	c.Eventually(func(g Gomega) {
		g.Expect(c.etcd(g).Status.Conditions.IsTrue(v1alpha1.ConditionBootstrappedWithExistingCluster)).To(BeTrue())
	}).Should(Succeed())
	c.Expect(c.voters(endpoints[0])).To(Equal("main-0 main-1 old-0 old-1 old-2"), "the source keeps the quorum")
	joined := time.Since(began)
	for i := range 3 {
		endpoints = append(endpoints, fmt.Sprintf("http://%s:2379", c.pod(c, i).Status.PodIP))
	}
	writes.use(endpoints)

	began = time.Now()
	c.patch(func(e *v1alpha1.Etcd) { e.Spec.Etcd.BootstrapWithExistingCluster = nil })
	c.Eventually(func(g Gomega) {
		etcd := c.etcd(g)
		g.Expect(etcd.Status.Conditions.Find(v1alpha1.ConditionUpToDate)).To(HaveValue(And(HaveField("ObservedGeneration", etcd.Generation), HaveField("Status", metav1.ConditionTrue))))
	}).Should(Succeed())
	c.Expect(c.etcd(c).Source()).To(BeNil(), "what is left of the source may be deleted now")
	c.Expect(c.voters(endpoints[3])).To(Equal("main-0 main-1 main-2"))
	c.Expect(c.clusterID(endpoints[3])).To(Equal(id))
	acknowledged, gap := writes.stop()
	t.Logf("joined after %s, cut over in %s; %d writes, longest gap %s", joined.Round(time.Second), time.Since(began).Round(time.Second), acknowledged, gap.Round(time.Millisecond))
	c.with(endpoints[3], func(ctx context.Context, etcd *clientv3.Client) error {
		r, err := etcd.Get(ctx, "write/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err == nil {
			c.Expect(r.Count).To(BeNumerically(">=", acknowledged), "acknowledged writes are lost")
		}
		return err
	})
	c.Expect(gap).To(BeNumerically("<", 5*time.Second))
}

// oldURL is that of a member of the plain etcd.
func (c *cluster) oldURL(i, port int) string {
	return fmt.Sprintf("http://%[1]s-%[2]d.%[1]s.%[3]s.svc:%[4]d", oldName, i, c.namespace, port)
}

// plainCluster starts an etcd of three members in a StatefulSet without any operator, and returns the addresses of its members.
func (c *cluster) plainCluster() (endpoints []string) {
	c.t.Helper()
	labels := map[string]string{"app": oldName}
	var initial []string
	for i := range 3 {
		initial = append(initial, fmt.Sprintf("%s-%d=%s", oldName, i, c.oldURL(i, 2380)))
	}
	c.create(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: oldName},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: labels, PublishNotReadyAddresses: true,
			Ports: []corev1.ServicePort{{Name: "peer", Port: 2380}, {Name: "client", Port: 2379}},
		},
	})
	host := fmt.Sprintf("http://$(NAME).%s.%s.svc", oldName, c.namespace)
	c.create(&appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: oldName},
		Spec: appsv1.StatefulSetSpec{
			ServiceName: oldName, Replicas: ptr.To[int32](3), PodManagementPolicy: appsv1.ParallelPodManagement, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{
						Name: "etcd", Image: *etcdImage("3.6.16"),
						Env: []corev1.EnvVar{{Name: "NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}},
						Command: []string{
							"etcd", "--name=$(NAME)", "--data-dir=/tmp/data", "--listen-client-urls=http://0.0.0.0:2379", "--listen-peer-urls=http://0.0.0.0:2380",
							"--advertise-client-urls=" + host + ":2379", "--initial-advertise-peer-urls=" + host + ":2380", "--initial-cluster=" + strings.Join(initial, ","),
						},
						VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/tmp"}},
					}},
					Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
				},
			},
		},
	})
	for i := range 3 {
		c.Eventually(func(g Gomega) {
			pod := &corev1.Pod{}
			g.Expect(kube.Get(c.t.Context(), types.NamespacedName{Namespace: c.namespace, Name: fmt.Sprintf("%s-%d", oldName, i)}, pod)).To(Succeed())
			g.Expect(etcdStatus(pod).State.Running).NotTo(BeNil())
			endpoint := fmt.Sprintf("http://%s:2379", pod.Status.PodIP)
			g.Expect(ask(endpoint, func(ctx context.Context, etcd *clientv3.Client) error { _, err := etcd.Get(ctx, "x"); return err })).To(Succeed())
			endpoints = append(endpoints[:i:i], endpoint)
		}).Should(Succeed())
	}
	return endpoints
}

// ask asks the member at an endpoint.
func ask(endpoint string, question func(context.Context, *clientv3.Client) error) error {
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(question(ctx, etcd), etcd.Close())
}

func (c *cluster) with(endpoint string, question func(context.Context, *clientv3.Client) error) {
	c.t.Helper()
	c.Eventually(func() error { return ask(endpoint, question) }).Should(Succeed())
}

func (c *cluster) clusterID(endpoint string) (id uint64) {
	c.with(endpoint, func(ctx context.Context, etcd *clientv3.Client) error {
		r, err := etcd.MemberList(ctx)
		if err == nil {
			id = r.Header.ClusterId
		}
		return err
	})
	return id
}

// voters are the names of the voters, in the order of their names.
func (c *cluster) voters(endpoint string) string {
	var names []string
	c.with(endpoint, func(ctx context.Context, etcd *clientv3.Client) error {
		r, err := etcd.MemberList(ctx)
		if err != nil {
			return err
		}
		names = nil
		for _, m := range r.Members {
			if !m.IsLearner {
				names = append(names, m.Name)
			}
		}
		return nil
	})
	slices.Sort(names)
	return strings.Join(names, " ")
}

// migrationWriter writes to all members that it knows.
type migrationWriter struct {
	use  func([]string)
	stop func() (acknowledged int64, gap time.Duration)
}

func (c *cluster) startMigrationWriter(endpoints []string) migrationWriter {
	c.t.Helper()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	c.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	var (
		acknowledged int64
		gap          time.Duration
	)
	go func() {
		defer close(done)
		last := time.Now()
		for i := 0; ctx.Err() == nil; i++ {
			each, end := context.WithTimeout(ctx, time.Second)
			if _, err := etcd.Put(each, fmt.Sprintf("write/%08d", i), "x"); err == nil {
				acknowledged, gap, last = acknowledged+1, max(gap, time.Since(last)), time.Now()
			}
			end()
		}
	}()
	stop := func() (int64, time.Duration) { cancel(); <-done; _ = etcd.Close(); return acknowledged, gap }
	c.t.Cleanup(func() { stop() })
	return migrationWriter{func(all []string) { etcd.SetEndpoints(all...) }, stop}
}
