//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package e2e rolls real etcd clusters on the local Kubernetes, in every state that they can be in, and asserts
// that every acknowledged write survives. It needs root, and "make up" first; "make e2e" does both.
package e2e

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/certs"
	"github.com/etcd-foreman/etcd-foreman/test/explain"
	"github.com/etcd-foreman/etcd-foreman/test/local/node"
	"github.com/etcd-foreman/etcd-foreman/test/measure"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// etcdName is the name of every Etcd; each test has its own namespace.
	etcdName = "main"
	// patience suits a machine of two cores with a build in the background.
	patience = 5 * time.Minute
	// kubeconfig is the local cluster's, from the folder of this package.
	kubeconfig = "../../.local/kubeconfig"
)

var (
	restConfig *rest.Config
	kube       client.WithWatch
	clientset  kubernetes.Interface
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	if err := connect(); err != nil {
		fmt.Fprintf(os.Stderr, "connecting to the local Kubernetes: %v: run \"make up\"\n", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func connect() error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	var err error
	if restConfig, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		return err
	}
	restConfig.QPS, restConfig.Burst = 100, 200
	if clientset, err = kubernetes.NewForConfig(restConfig); err != nil {
		return err
	}
	kube, err = client.NewWithWatch(restConfig, client.Options{Scheme: scheme})
	return err
}

// cluster is a real etcd cluster in its own namespace, with a writer.
type cluster struct {
	*WithT
	t         *testing.T
	namespace string
	writer    *measure.Writer
	// tls returns the TLS configuration for a member; nil while no member uses TLS.
	tls func(*corev1.Pod) *tls.Config
	// ca signs the certificates of the cluster.
	ca *certs.CA
	// killed is done once the operator was killed.
	killed sync.Once
}

// newCluster creates a cluster of n members, waits until it is ready and starts the writer. A test with more than one
// cluster gives the others a suffix for their namespace.
func newCluster(t *testing.T, n int, suffix ...string) *cluster {
	t.Helper()
	return newEmptyCluster(t, suffix...).begin(n)
}

// begin creates a cluster of n members, with a test's changes, in the existing namespace.
func (c *cluster) begin(n int, changes ...func(*cluster, *v1alpha1.Etcd)) *cluster {
	c.t.Helper()
	etcd := c.newEtcd(n)
	for _, change := range changes {
		change(c, etcd)
	}
	c.create(etcd)
	c.ready()
	c.startWriter()
	return c
}

// newEmptyCluster creates the namespace of a cluster.
func newEmptyCluster(t *testing.T, suffix ...string) *cluster {
	t.Helper()
	c := &cluster{WithT: NewWithT(t), t: t}
	c.SetDefaultEventuallyTimeout(patience)
	c.SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
	c.namespace = "e2e-" + strings.ToLower(strings.NewReplacer("/", "-", "_", "-", "#", "-").Replace(strings.Join(append([]string{t.Name()}, suffix...), "-")))
	if len(c.namespace) > 50 {
		c.namespace = strings.Trim(c.namespace[:50], "-")
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}
	// Left over by an interrupted run.
	c.remove(namespace)
	c.create(namespace)
	t.Cleanup(func() {
		if t.Failed() {
			c.explain()
		}
		// The test does not wait until it is gone.
		if err := kube.Delete(context.Background(), namespace); err != nil {
			t.Errorf("deleting namespace %s: %v", namespace.Name, err)
		}
	})
	return c
}

func (c *cluster) newEtcd(n int) *v1alpha1.Etcd {
	return &v1alpha1.Etcd{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: etcdName},
		Spec: v1alpha1.EtcdSpec{
			Replicas: int32(n), StorageCapacity: ptr.To(resource.MustParse("1Gi")),
			// Most tests are about the replacement of pods, whatever has changed.
			PodUpdatePolicy: v1alpha1.RecreatePods,
			// Several clusters share one machine of two cores.
			Etcd: v1alpha1.EtcdConfig{Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
			}}},
		},
	}
}

func (c *cluster) startWriter() {
	c.t.Helper()
	var err error
	c.writer, err = measure.Start(c.t.Context(), measure.Options{Config: restConfig, Namespace: c.namespace, StatefulSet: etcdName, TLS: c.tls})
	c.Expect(err).NotTo(HaveOccurred())
}

// writesSurvive stops the writer and asserts that every acknowledged write survived. It returns the report.
func (c *cluster) writesSurvive() measure.Report {
	c.t.Helper()
	report := c.writer.Stop()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	c.Expect(c.writer.Verify(ctx)).To(Succeed())
	return report
}

func (c *cluster) create(o client.Object) {
	c.t.Helper()
	c.Expect(kube.Create(c.t.Context(), o)).To(Succeed())
}

// remove deletes a namespace and waits until it is gone.
func (c *cluster) remove(namespace *corev1.Namespace) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := client.IgnoreNotFound(kube.Delete(ctx, namespace)); err != nil {
		c.t.Errorf("deleting namespace %s: %v", namespace.Name, err)
	}
	c.Eventually(func() bool {
		err := kube.Get(ctx, client.ObjectKeyFromObject(namespace), &corev1.Namespace{})
		return err != nil && client.IgnoreNotFound(err) == nil
	}).Should(BeTrue(), "namespace %s is not gone", namespace.Name)
	namespace.ResourceVersion, namespace.UID = "", ""
}

func (c *cluster) etcd(g Gomega) *v1alpha1.Etcd {
	etcd := &v1alpha1.Etcd{}
	g.Expect(kube.Get(context.Background(), types.NamespacedName{Namespace: c.namespace, Name: etcdName}, etcd)).To(Succeed())
	return etcd
}

// ready waits until every member is ready and at the newest template, and no rollout is pending.
func (c *cluster) ready() {
	c.t.Helper()
	c.Eventually(func(g Gomega) {
		etcd := c.etcd(g)
		g.Expect(etcd.Status.ObservedGeneration).To(Equal(etcd.Generation))
		for _, condition := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionAllMembersReady, v1alpha1.ConditionAllMembersUpdated} {
			g.Expect(etcd.Status.Conditions.IsTrue(condition)).To(BeTrue(), "%s: %+v", condition, etcd.Status.Conditions)
		}
	}).Should(Succeed())
}

// patch updates the Etcd.
func (c *cluster) patch(change func(*v1alpha1.Etcd)) {
	c.t.Helper()
	etcd := c.etcd(c)
	before := client.MergeFrom(etcd.DeepCopy())
	change(etcd)
	c.Expect(kube.Patch(c.t.Context(), etcd, before)).To(Succeed())
}

// change changes the pod template by an annotation.
func (c *cluster) change(value string) {
	c.t.Helper()
	c.patch(func(e *v1alpha1.Etcd) { e.Spec.Annotations = map[string]string{"e2e/change": value} })
}

// rollouts returns the rollout tasks of the cluster, oldest first.
func (c *cluster) rollouts(g Gomega) []v1alpha1.EtcdOperatorTask {
	return slices.DeleteFunc(c.tasks(g), func(t v1alpha1.EtcdOperatorTask) bool { return t.Spec.Type == v1alpha1.MembershipChange })
}

func (c *cluster) tasks(g Gomega) []v1alpha1.EtcdOperatorTask {
	list := &v1alpha1.EtcdOperatorTaskList{}
	g.Expect(kube.List(context.Background(), list, client.InNamespace(c.namespace))).To(Succeed())
	slices.SortStableFunc(list.Items, func(a, b v1alpha1.EtcdOperatorTask) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(arrival(a), arrival(b)))
	})
	return list.Items
}

// arrival tells tasks apart that were created in the same second. The operator has not seen the newest yet.
func arrival(t v1alpha1.EtcdOperatorTask) uint64 {
	version, err := strconv.ParseUint(t.Status.ArrivalResourceVersion, 10, 64)
	if err != nil {
		return math.MaxUint64
	}
	return version
}

// until waits until the newest task satisfies a condition, and returns it.
func (c *cluster) until(what string, holds func(v1alpha1.EtcdOperatorTask) bool) v1alpha1.EtcdOperatorTask {
	c.t.Helper()
	var newest v1alpha1.EtcdOperatorTask
	c.Eventually(func(g Gomega) {
		all := c.rollouts(g)
		g.Expect(all).NotTo(BeEmpty())
		newest = all[len(all)-1]
		g.Expect(holds(newest)).To(BeTrue(), "%s: %+v", what, newest.Status)
	}).Should(Succeed())
	return newest
}

// untilNumberSucceeded waits until there are exactly n tasks and the newest has succeeded.
func (c *cluster) untilNumberSucceeded(n int) v1alpha1.EtcdOperatorTask {
	c.t.Helper()
	var newest v1alpha1.EtcdOperatorTask
	c.Eventually(func(g Gomega) {
		all := c.rollouts(g)
		g.Expect(all).To(HaveLen(n))
		newest = all[n-1]
		g.Expect(newest.Status.State).To(Equal(v1alpha1.TaskStateSucceeded), "%+v", newest.Status)
	}).Should(Succeed())
	return newest
}

func (c *cluster) untilSucceeded() v1alpha1.EtcdOperatorTask {
	c.t.Helper()
	return c.until("succeeded", func(t v1alpha1.EtcdOperatorTask) bool { return t.Status.State == v1alpha1.TaskStateSucceeded })
}

// untilDeleted waits until the rollout has deleted n pods.
func (c *cluster) untilDeleted(n int) v1alpha1.EtcdOperatorTask {
	c.t.Helper()
	return c.until(fmt.Sprintf("%d pods deleted", n), func(t v1alpha1.EtcdOperatorTask) bool {
		return t.Status.Rollout != nil && len(t.Status.Rollout.Pods) >= n
	})
}

// etcdStatus returns the status of a pod's etcd container; empty if the kubelet has not written one.
func etcdStatus(pod *corev1.Pod) corev1.ContainerStatus {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == v1alpha1.ContainerEtcd {
			return s
		}
	}
	return corev1.ContainerStatus{}
}

func podName(i int) string { return fmt.Sprintf("%s-%d", etcdName, i) }

func (c *cluster) pod(g Gomega, i int) *corev1.Pod {
	pod := &corev1.Pod{}
	g.Expect(kube.Get(context.Background(), types.NamespacedName{Namespace: c.namespace, Name: podName(i)}, pod)).To(Succeed())
	return pod
}

// process returns the etcd process of a member.
func (c *cluster) process(i int) node.Process {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	p, err := node.Find(ctx, string(c.pod(c, i).UID), node.Etcd)
	c.Expect(err).NotTo(HaveOccurred())
	return p
}

// freeze freezes a member; the returned function resumes it.
func (c *cluster) freeze(i int) (thaw func()) {
	c.t.Helper()
	p := c.process(i)
	c.Expect(p.Freeze(c.t.Context())).To(Succeed())
	thaw = func() { _ = p.Thaw(context.Background()) }
	c.t.Cleanup(thaw)
	return thaw
}

// untilUnready waits until the kubelet reports a pod unready.
func (c *cluster) untilUnready(i int) {
	c.t.Helper()
	c.Eventually(func(g Gomega) {
		pod := c.pod(g, i)
		g.Expect(etcdStatus(pod).Ready).To(BeFalse())
	}).Should(Succeed())
}

// leader returns the ordinal of the leader.
func (c *cluster) leader() int {
	c.t.Helper()
	leader := -1
	c.Eventually(func(g Gomega) {
		for i, m := range c.etcd(g).Status.Members {
			if m.Role == v1alpha1.MemberRoleLeader {
				leader = i
			}
		}
		g.Expect(leader).To(BeNumerically(">=", 0))
	}).Should(Succeed())
	return leader
}

func (c *cluster) statefulSet(g Gomega) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{}
	g.Expect(kube.Get(context.Background(), types.NamespacedName{Namespace: c.namespace, Name: etcdName}, set)).To(Succeed())
	return set
}

// replaced returns the pods that a rollout has replaced, in order.
func replaced(t v1alpha1.EtcdOperatorTask) []string {
	var names []string
	for _, p := range t.Status.Rollout.Pods {
		if p.LastOperation.State == v1alpha1.OperationStateCompleted {
			names = append(names, p.Name)
		}
	}
	return names
}

// neverTookTheQuorum asserts, by the evidence of each deletion, that the voters serving without the pod were a quorum,
// unless there was no leader. Clusters of one are exempt.
func (c *cluster) neverTookTheQuorum() {
	c.t.Helper()
	for _, t := range c.tasks(c) {
		if t.Status.Rollout == nil {
			continue
		}
		for _, p := range t.Status.Rollout.Pods {
			if p.Evidence.Leader == "" || p.Evidence.Voters < 3 {
				continue
			}
			rest := p.Evidence.ServingVoters
			if slices.Contains(p.Evidence.Serving, p.Name) {
				rest--
			}
			c.Expect(rest).To(BeNumerically(">=", p.Evidence.Quorum), "%s was deleted by %s: %+v", p.Name, t.Name, p.Evidence)
		}
	}
}

// explain logs the state of the cluster after a failure.
func (c *cluster) explain() {
	c.t.Log("\n" + explain.Scene{Kube: kube, Namespace: c.namespace, Logs: clientset, TLS: c.tls}.String())
}
