// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package recreate_test runs RecreateRollout tasks with the whole operator against a real API server and the real
// StatefulSet controller. The kubelet and etcd are simulated. The scenarios are KEP-3541's.
package recreate_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient/etcdfake"
	"github.com/etcd-foreman/etcd-foreman/test/composition"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var testEnv *env.Env

func TestMain(m *testing.M) {
	// With the native strategy at hand (see native_test.go), which changes nothing for sets that do not have it.
	os.Exit(env.Main(m, &testEnv, env.WithFeatureGates("StatefulSetRecreateStrategy=true"), env.WithControllerManager(), env.WithRoles()))
}

const name = "main"

// cluster is an Etcd with three ready members under a running operator.
type cluster struct {
	*WithT
	t         *testing.T
	namespace string
	kubelet   *env.Kubelet
	fake      *etcdfake.Cluster
	quorum    bool
	stop      func()
}

func newCluster(t *testing.T, quorumAware bool) *cluster {
	t.Helper()
	c := &cluster{WithT: NewWithT(t), t: t, namespace: testEnv.Namespace(t), quorum: quorumAware}
	c.SetDefaultEventuallyTimeout(2 * time.Minute)
	c.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	c.kubelet = testEnv.StartKubelet(t, c.namespace)
	c.fake = &etcdfake.Cluster{Up: func(i int) bool { return c.kubelet.Ready(pod(i)) }}
	for i := range 3 {
		c.fake.Names = append(c.fake.Names, pod(i))
		c.fake.Endpoints = append(c.fake.Endpoints, fmt.Sprintf("http://%s:2379", env.PodIP(i)))
	}
	c.Expect(testEnv.Client.Create(t.Context(), &v1alpha1.Etcd{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}, Spec: v1alpha1.EtcdSpec{Replicas: 3},
	})).To(Succeed())
	c.start()
	c.Eventually(func(g Gomega) {
		g.Expect(c.set(g).Status.ReadyReplicas).To(Equal(int32(3)))
	}).Should(Succeed())
	return c
}

func pod(i int) string { return fmt.Sprintf("%s-%d", name, i) }

func (c *cluster) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: c.namespace, Name: name}
}

// start starts the whole operator; c.stop stops it.
func (c *cluster) start() {
	c.t.Helper()
	c.stop = testEnv.StartManager(c.t, testEnv.AsOperator(), c.namespace, func(mgr ctrl.Manager) error {
		config := composition.Config()
		if !c.quorum {
			composition.GateOff(config)
		}
		return composition.New(c.t, config, composition.With(c.fake, clock.RealClock{}).Of(mgr)).Setup(c.t.Context(), mgr)
	})
}

func (c *cluster) set(g Gomega) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{}
	g.Expect(testEnv.Client.Get(context.Background(), c.key(name), s)).To(Succeed())
	return s
}

// change updates the pod template.
func (c *cluster) change() {
	c.t.Helper()
	e := &v1alpha1.Etcd{}
	c.Expect(testEnv.Client.Get(c.t.Context(), c.key(name), e)).To(Succeed())
	before := client.MergeFrom(e.DeepCopy())
	e.Spec.Annotations = map[string]string{"change": time.Now().Format(time.RFC3339Nano)}
	c.Expect(testEnv.Client.Patch(c.t.Context(), e, before)).To(Succeed())
}

func (c *cluster) recreate() {
	c.t.Helper()
	c.Expect(testEnv.Client.Create(c.t.Context(), &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "recreate"},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.RecreateRollout, OwnerEtcdReference: v1alpha1.EtcdReference{Name: name}},
	})).To(Succeed())
}

// until waits until the status of the task satisfies a condition.
func (c *cluster) until(holds func(v1alpha1.EtcdOperatorTaskStatus) bool) *v1alpha1.EtcdOperatorTask {
	c.t.Helper()
	t := &v1alpha1.EtcdOperatorTask{}
	c.Eventually(func(g Gomega) {
		g.Expect(testEnv.Client.Get(context.Background(), c.key("recreate"), t)).To(Succeed())
		g.Expect(holds(t.Status)).To(BeTrue(), "%+v %+v", t.Status, t.Status.Rollout)
	}).Should(Succeed())
	return t
}

func (c *cluster) untilPhase(phase v1alpha1.RecreatePhase) *v1alpha1.EtcdOperatorTask {
	c.t.Helper()
	return c.until(func(s v1alpha1.EtcdOperatorTaskStatus) bool { return s.Rollout != nil && s.Rollout.Phase == phase })
}

func (c *cluster) untilState(state v1alpha1.TaskState) *v1alpha1.EtcdOperatorTask {
	c.t.Helper()
	return c.until(func(s v1alpha1.EtcdOperatorTaskStatus) bool { return s.State == state })
}

// rollouts returns the tasks created by the operator.
func (c *cluster) rollouts(g Gomega) []v1alpha1.EtcdOperatorTask {
	all := &v1alpha1.EtcdOperatorTaskList{}
	g.Expect(testEnv.Client.List(context.Background(), all, client.InNamespace(c.namespace))).To(Succeed())
	var rollouts []v1alpha1.EtcdOperatorTask
	for _, t := range all.Items {
		if t.Spec.Type == v1alpha1.QuorumAwareRollout {
			rollouts = append(rollouts, t)
		}
	}
	return rollouts
}

// claims returns the UIDs of the pods' claims.
func (c *cluster) claims() map[string]types.UID {
	all := &corev1.PersistentVolumeClaimList{}
	c.Expect(testEnv.Client.List(c.t.Context(), all, client.InNamespace(c.namespace))).To(Succeed())
	uids := map[string]types.UID{}
	for _, claim := range all.Items {
		c.Expect(claim.DeletionTimestamp).To(BeNil())
		uids[claim.Name] = claim.UID
	}
	return uids
}

// mixture records whether pods of different revisions ever exist at the same time.
type mixture struct {
	mu     sync.Mutex
	pods   map[types.UID]string
	worst  int
	recent []string
}

func (c *cluster) watchMixture() *mixture { return c.watchMixtureOf(name) }

func (c *cluster) watchMixtureOf(set string) *mixture {
	m := &mixture{pods: map[types.UID]string{}}
	ctx, cancel := context.WithCancel(context.Background())
	pods, err := testEnv.Client.Watch(ctx, &corev1.PodList{}, client.InNamespace(c.namespace))
	c.Expect(err).NotTo(HaveOccurred())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range pods.ResultChan() {
			if p, ok := event.Object.(*corev1.Pod); ok && strings.HasPrefix(p.Name, set+"-") {
				m.see(event.Type, p)
			}
		}
	}()
	c.t.Cleanup(func() { cancel(); pods.Stop(); <-done })
	return m
}

func (m *mixture) see(event watch.EventType, p *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if event == watch.Deleted {
		delete(m.pods, p.UID)
		return
	}
	m.pods[p.UID] = p.Labels[appsv1.StatefulSetRevisionLabel]
	revisions := map[string]bool{}
	for _, r := range m.pods {
		revisions[r] = true
	}
	if len(revisions) > m.worst {
		m.worst = len(revisions)
		m.recent = append(m.recent, fmt.Sprintf("%s of %s: %v", event, p.Name, m.pods))
	}
}

func (m *mixture) revisions() (int, []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.worst, m.recent
}
