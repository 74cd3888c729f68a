//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/test/certs"
	"github.com/etcd-foreman/etcd-foreman/test/druid"
	"github.com/etcd-foreman/etcd-foreman/test/local/node"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cluster is an Etcd of etcd-druid in its own namespace, with real members that serve clients with TLS.
type cluster struct {
	*WithT
	t         *testing.T
	namespace string
	// image of etcd itself, which the imitation runs instead of etcd-wrapper.
	image string
	// imitation of etcd-druid; without effect if the stock one is installed.
	imitation druid.Druid
	tls       *tls.Config
	changes   int
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{WithT: NewWithT(t), t: t, image: "localhost/etcd:v3.6.16", namespace: "executor-" + strings.ToLower(strings.NewReplacer("Test", "", "/", "-").Replace(t.Name()))}
	c.SetDefaultEventuallyTimeout(patience)
	c.SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}
	c.Expect(kube.Create(t.Context(), namespace)).To(Succeed())
	t.Cleanup(func() {
		if t.Failed() {
			c.explain()
		}
		c.Expect(kube.Delete(context.Background(), namespace)).To(Succeed())
	})
	c.makeSecrets()
	as, err := druid.NewClient(restConfig, kube.Scheme())
	c.Expect(err).NotTo(HaveOccurred())
	etcd, err := druid.Etcd(c.namespace)
	c.Expect(err).NotTo(HaveOccurred())
	c.imitation = druid.Druid{Client: client.WithFieldOwner(as, v1alpha1.ManagedByDruid), Etcd: etcd, Adapt: c.adapt, Storage: true}
	c.simplify(etcd)
	c.Expect(as.Create(t.Context(), etcd)).To(Succeed())
	if !*stock {
		t.Cleanup(func() { c.Expect(c.imitation.Finish(context.Background())).To(Succeed()) })
	}
	return c
}

// simplify adapts the Etcd to what runs here: there is no bucket.
func (c *cluster) simplify(etcd *unstructured.Unstructured) {
	c.t.Helper()
	unstructured.RemoveNestedField(etcd.Object, "spec", "backup", "store")
	for image, path := range map[*string][]string{etcdImage: {"spec", "etcd", "image"}, backupImage: {"spec", "backup", "image"}} {
		if *image != "" {
			c.Expect(unstructured.SetNestedField(etcd.Object, *image, path...)).To(Succeed())
		}
	}
	c.Expect(unstructured.SetNestedField(etcd.Object, "1Gi", "spec", "storageCapacity")).To(Succeed())
	c.Expect(unstructured.SetNestedMap(etcd.Object, map[string]any{"requests": map[string]any{"cpu": "20m", "memory": "64Mi"}}, "spec", "etcd", "resources")).To(Succeed())
}

// makeSecrets creates the Secrets of the members and of their clients.
func (c *cluster) makeSecrets() {
	c.t.Helper()
	ca, err := certs.NewCA("etcd")
	c.Expect(err).NotTo(HaveOccurred())
	pair, err := ca.Issue([]string{
		fmt.Sprintf("*.%s.%s.svc", druid.PeerService, c.namespace), fmt.Sprintf("*.%s.%s.svc.cluster.local", druid.PeerService, c.namespace),
		druid.Name + "-local", druid.Name + "-client", fmt.Sprintf("%s-client.%s.svc", druid.Name, c.namespace), "localhost",
	})
	c.Expect(err).NotTo(HaveOccurred())
	both := map[string][]byte{"tls.crt": pair.Certificate, "tls.key": pair.Key}
	for name, data := range map[string]map[string][]byte{druid.CASecret: {"bundle.crt": ca.PEM}, druid.ServerSecret: both, druid.ClientSecret: both} {
		c.Expect(kube.Create(c.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}, Data: data})).To(Succeed())
	}
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	c.Expect(err).NotTo(HaveOccurred())
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM)
	c.tls = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{certificate}}
}

// adapt runs etcd itself instead of etcd-wrapper, with its own report of readiness at the same port, and nothing instead of
// etcd-backup-restore.
func (c *cluster) adapt(template *corev1.PodTemplateSpec) {
	url := func(scheme string, pod string, port int) string {
		return fmt.Sprintf("%s://%s.%s.%s.svc:%d", scheme, pod, druid.PeerService, c.namespace, port)
	}
	var initial []string
	for i := range druid.Members {
		initial = append(initial, podName(i)+"="+url("http", podName(i), 2380))
	}
	etcd, backup := &template.Spec.Containers[0], &template.Spec.Containers[1]
	etcd.Image, etcd.Command = c.image, []string{"/usr/local/bin/etcd"}
	etcd.Env = []corev1.EnvVar{{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}}}
	etcd.Args = []string{
		"--name=$(POD)", "--data-dir=" + druid.DataFolder + "/new.etcd", "--initial-cluster=" + strings.Join(initial, ","), "--initial-cluster-token=" + c.namespace,
		"--listen-client-urls=https://0.0.0.0:2379", "--advertise-client-urls=" + url("https", "$(POD)", 2379),
		"--listen-peer-urls=http://0.0.0.0:2380", "--initial-advertise-peer-urls=" + url("http", "$(POD)", 2380),
		"--client-cert-auth", "--trusted-ca-file=" + druid.CAFolder + "/bundle.crt", "--cert-file=" + druid.ServerFolder + "/tls.crt", "--key-file=" + druid.ServerFolder + "/tls.key",
		fmt.Sprintf("--listen-metrics-urls=http://0.0.0.0:%d", druid.ReadyPort),
	}
	etcd.ReadinessProbe.HTTPGet.Scheme = corev1.URISchemeHTTP
	backup.Image, backup.Command, backup.Args = "localhost/pause:dev", []string{"/pause"}, nil
}

func podName(i int) string { return fmt.Sprintf("%s-%d", druid.Name, i) }

// optIn lets the executor take over rollouts of the namespace, or not.
func (c *cluster) optIn(in bool) {
	c.t.Helper()
	value := "null"
	if in {
		value = fmt.Sprintf("%q", v1alpha1.ManagedBy)
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, v1alpha1.LabelRolloutBy, value)
	c.Expect(kube.Patch(c.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
	strategy := appsv1.RollingUpdateStatefulSetStrategyType
	if in {
		strategy = appsv1.OnDeleteStatefulSetStrategyType
	}
	c.Eventually(func(g Gomega) {
		c.reconcile()
		set := c.set(g)
		g.Expect(set.Spec.UpdateStrategy.Type).To(Equal(strategy))
		g.Expect(set.Annotations[v1alpha1.AnnotationRolloutBy] == v1alpha1.ManagedBy).To(Equal(in))
	}).Should(Succeed())
}

// reconcile has etcd-druid reconcile the Etcd.
func (c *cluster) reconcile() {
	c.t.Helper()
	checksum := fmt.Sprint(c.changes)
	if !*stock {
		c.Expect(c.imitation.Reconcile(c.t.Context(), checksum)).To(Succeed())
		return
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"gardener.cloud/operation":"reconcile"}},"spec":{"annotations":{"e2e/change":%q}}}`, checksum)
	c.Expect(kube.Patch(c.t.Context(), c.etcd(c), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
	c.Eventually(func(g Gomega) {
		g.Expect(c.etcd(g).GetAnnotations()).NotTo(HaveKey("gardener.cloud/operation"))
		g.Expect(c.set(g).Spec.Template.Annotations).To(HaveKeyWithValue("e2e/change", checksum))
	}).Should(Succeed())
}

func (c *cluster) etcd(g Gomega) *unstructured.Unstructured {
	etcd := &unstructured.Unstructured{}
	etcd.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))
	g.Expect(kube.Get(context.Background(), client.ObjectKeyFromObject(c.imitation.Etcd), etcd)).To(Succeed())
	return etcd
}

func (c *cluster) set(g Gomega) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{}
	g.Expect(kube.Get(context.Background(), types.NamespacedName{Namespace: c.namespace, Name: druid.Name}, set)).To(Succeed())
	return set
}

func (c *cluster) pod(g Gomega, i int) *corev1.Pod {
	pod := &corev1.Pod{}
	g.Expect(kube.Get(context.Background(), types.NamespacedName{Namespace: c.namespace, Name: podName(i)}, pod)).To(Succeed())
	return pod
}

// untilUpdated waits until etcd-druid shows the Etcd as ready and all its members as updated, and returns when it did. After the
// stock one has computed it, up to 15 seconds later, its condition says so too.
func (c *cluster) untilUpdated() (at time.Time) {
	c.t.Helper()
	c.Eventually(func(g Gomega) {
		set := c.set(g)
		g.Expect(druid.Ready(set)).To(BeEmpty())
		g.Expect(druid.AllMembersUpdated(set)).To(BeTrue())
	}).Should(Succeed())
	at = time.Now()
	if *stock {
		c.Eventually(func(g Gomega) {
			g.Expect(conditionSince(c.etcd(g), "AllMembersUpdated")).To(BeTemporally(">=", at.Truncate(time.Second)))
		}).Should(Succeed())
	}
	return at
}

// conditionSince returns when etcd-druid last wrote that a condition is True; zero if it did not.
func conditionSince(etcd *unstructured.Unstructured, kind string) time.Time {
	all, _, _ := unstructured.NestedSlice(etcd.Object, "status", "conditions")
	for _, one := range all {
		if condition, ok := one.(map[string]any); ok && condition["type"] == kind && condition["status"] == "True" {
			at, _ := time.Parse(time.RFC3339, fmt.Sprint(condition["lastUpdateTime"]))
			return at
		}
	}
	return time.Time{}
}

// tasks are the tasks of the Etcd, oldest first.
func (c *cluster) tasks(g Gomega) []v1alpha1.EtcdOperatorTask {
	all := &v1alpha1.EtcdOperatorTaskList{}
	g.Expect(kube.List(context.Background(), all, client.InNamespace(c.namespace))).To(Succeed())
	return all.Items
}

// memberTLS is the configuration for a member.
func (c *cluster) memberTLS(pod *corev1.Pod) *tls.Config {
	config := c.tls.Clone()
	config.ServerName = fmt.Sprintf("%s.%s.%s.svc", pod.Name, druid.PeerService, c.namespace)
	return config
}

// ask does something with a client of a member.
func (c *cluster) ask(g Gomega, i int, do func(context.Context, etcdclient.Client)) {
	pod := c.pod(g, i)
	member, err := etcdclient.NewDialer().Dial("https://"+net.JoinHostPort(pod.Status.PodIP, "2379"), c.memberTLS(pod))
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = member.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	do(ctx, member)
}

// lead makes a member the leader.
func (c *cluster) lead(to int) {
	c.t.Helper()
	c.Eventually(func(g Gomega) {
		var all []etcdclient.Status
		for i := range druid.Members {
			c.ask(g, i, func(ctx context.Context, m etcdclient.Client) {
				status, err := m.Status(ctx)
				g.Expect(err).NotTo(HaveOccurred())
				all = append(all, status)
			})
		}
		successor := all[to].MemberID
		for i, status := range all {
			if status.Leader == status.MemberID && i != to {
				c.ask(g, i, func(ctx context.Context, m etcdclient.Client) { g.Expect(m.MoveLeader(ctx, successor)).To(Succeed()) })
			}
		}
		for i, status := range all {
			g.Expect(status.Leader).To(Equal(successor), "the leader that %s knows", podName(i))
		}
	}).Should(Succeed())
}

// freeze stops the process of a member, and waits until its probe fails.
func (c *cluster) freeze(i int) {
	c.t.Helper()
	name := node.Etcd
	if *stock {
		name = "etcd-wrapper"
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	process, err := node.Find(ctx, string(c.pod(c, i).UID), name)
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(process.Freeze(ctx)).To(Succeed())
	c.t.Cleanup(func() { _ = process.Thaw(context.Background()) })
	c.Eventually(func(g Gomega) {
		for _, s := range c.pod(g, i).Status.ContainerStatuses {
			if s.Name == v1alpha1.ContainerEtcd {
				g.Expect(s.Ready).To(BeFalse())
			}
		}
	}).Should(Succeed())
}

// explain logs the state of the cluster after a failure.
func (c *cluster) explain() {
	for _, args := range [][]string{
		{"get", "statefulsets,pods", "-o", "wide"}, {"get", "etcdoperatortasks", "-o", "yaml"}, {"events", "--types=Warning"}, {"logs", podName(0), "--all-containers", "--tail=20"},
	} {
		out, err := kubectl("", append(args, "-n", c.namespace)...)
		c.t.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	out, err := kubectl("", "logs", "-n", own, "deployment/"+operator, "--tail=30")
	c.t.Logf("the operator: %v\n%s", err, out)
}
