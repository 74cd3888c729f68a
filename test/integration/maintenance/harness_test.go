// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package maintenance_test runs OnDemandMaintenance tasks against real etcd clusters, under the task engine and a
// real API server. Pods are simulated.
package maintenance_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	composed "github.com/etcd-foreman/etcd-foreman/internal/operator"
	"github.com/etcd-foreman/etcd-foreman/test/composition"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var testEnv *env.Env

func TestMain(m *testing.M) {
	os.Exit(env.Main(m, &testEnv, env.WithControllerManager(), env.WithRoles()))
}

const name = "main"

// cluster is an Etcd whose pods are simulated and whose members are real.
type cluster struct {
	*WithT
	t         *testing.T
	namespace string
	etcd      *v1alpha1.Etcd
	members   *env.Members
	spy       *spy
}

func newCluster(t *testing.T, n int, args ...string) *cluster {
	t.Helper()
	return newClusterIn(t, slices.Repeat([]string{t.TempDir()}, n), args...)
}

// newClusterIn creates a cluster with a member for each folder.
func newClusterIn(t *testing.T, folders []string, args ...string) *cluster {
	t.Helper()
	n := len(folders)
	c := &cluster{WithT: NewWithT(t), t: t, namespace: testEnv.Namespace(t)}
	c.SetDefaultEventuallyTimeout(2 * time.Minute)
	c.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	c.members = testEnv.StartMembers(t, name, folders, args...)
	c.spy = &spy{Dialer: c.members}
	testEnv.StartKubelet(t, c.namespace)
	c.etcd = &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}, Spec: v1alpha1.EtcdSpec{Replicas: int32(n)}}
	c.Expect(testEnv.Client.Create(t.Context(), c.etcd)).To(Succeed())
	labels := map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: name, v1alpha1.LabelComponent: v1alpha1.ComponentStatefulSet}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.namespace, Name: name, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c.etcd, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))},
		},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To(int32(n)), PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: v1alpha1.ContainerEtcd, Image: "localhost/etcd:v1"}}},
			},
		},
	}
	c.Expect(testEnv.Client.Create(t.Context(), set)).To(Succeed())
	c.Eventually(func(g Gomega) {
		g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(set), set)).To(Succeed())
		g.Expect(set.Status.ReadyReplicas).To(Equal(int32(n)))
	}).Should(Succeed())
	return c
}

// start starts an operator that runs tasks; stop stops it.
func (c *cluster) start() (stop func()) {
	c.t.Helper()
	return testEnv.StartManager(c.t, testEnv.AsOperator(), c.namespace, func(mgr ctrl.Manager) error {
		return composition.New(c.t, composition.Config(), composition.With(c.spy, clock.RealClock{}).Of(mgr)).Setup(c.t.Context(), mgr, composed.Tasks)
	})
}

func (c *cluster) run(name, config string) {
	c.t.Helper()
	c.Expect(testEnv.Client.Create(c.t.Context(), &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.OnDemandMaintenance, Config: config, OwnerEtcdReference: v1alpha1.EtcdReference{Name: "main"}},
	})).To(Succeed())
}

// until waits for a task to be in a state.
func (c *cluster) until(name string, state v1alpha1.TaskState) *v1alpha1.EtcdOperatorTask {
	c.t.Helper()
	t := &v1alpha1.EtcdOperatorTask{}
	c.Eventually(func(g Gomega) {
		g.Expect(testEnv.Client.Get(context.Background(), types.NamespacedName{Namespace: c.namespace, Name: name}, t)).To(Succeed())
		g.Expect(t.Status.State).To(Equal(state), "%+v", t.Status)
	}).Should(Succeed())
	return t
}

// fill writes the given number of MiB twice, so that half of them are garbage after a compaction.
func (c *cluster) fill(etcd *clientv3.Client, mebibytes int) {
	c.t.Helper()
	value := make([]byte, 1<<20)
	_, _ = rand.Read(value)
	for range 2 {
		for i := range mebibytes {
			_, err := etcd.Put(c.t.Context(), fmt.Sprintf("fill/%04d", i), string(value))
			c.Expect(err).NotTo(HaveOccurred())
		}
	}
}

// keepWriting writes a little until the test ends, as clients do: a member updates its free size on commit.
func (c *cluster) keepWriting(etcd *clientv3.Client) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-c.t.Context().Done():
			return
		case <-ticker.C:
			// A failed write is followed by another.
			_, _ = etcd.Put(c.t.Context(), "count", "")
		}
	}
}

func (c *cluster) leader() int {
	etcd := c.members.Client(c.t)
	leader := -1
	c.Eventually(func(g Gomega) {
		for i, endpoint := range c.members.Endpoints {
			status, err := etcd.Status(c.t.Context(), endpoint)
			g.Expect(err).NotTo(HaveOccurred())
			if status.Leader == status.Header.MemberId {
				leader = i
			}
		}
		g.Expect(leader).To(BeNumerically(">=", 0))
	}).Should(Succeed())
	return leader
}

// spy is a Dialer that records the requests to the members and can delay a defragmentation.
type spy struct {
	etcdclient.Dialer
	mu    sync.Mutex
	asked bytes.Buffer
	// hold, if set, is called with the address before a defragmentation is forwarded.
	hold func(ctx context.Context) error
}

func (s *spy) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.asked, format+"\n", args...)
}

func (s *spy) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked.String()
}
