// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package fleet tests EtcdFleetPolicies with a whole operator and many Etcds, against a real API server and the real StatefulSet
// controller. The kubelet and etcd are simulated.
package fleet

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient/etcdfake"
	composed "github.com/etcd-foreman/etcd-foreman/internal/operator"
	"github.com/etcd-foreman/etcd-foreman/test/composition"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var testEnv *env.Env

func TestMain(m *testing.M) {
	os.Exit(env.Main(m, &testEnv, env.WithControllerManager(), env.WithRoles(), env.WithManifests("fleet/role.yaml")))
}

const (
	name = "main"
	// ledgers is the namespace of the operator.
	ledgers = "etcd-foreman-system"
	// bad is a part of the image of pods that crash.
	bad = "bad"
)

// fleet is some Etcds, each in a namespace of its own, that are selected by their label.
type fleet struct {
	*machine.WithT
	t        *testing.T
	clusters []*env.Cluster
	members  dialer
	tier     string
	// patience with rollouts that make no progress; 0 is the operator's own.
	patience time.Duration
}

// dialer finds the members of each cluster by their address.
type dialer struct {
	mu   *sync.Mutex
	each map[string]*etcdfake.Cluster
}

// Dial implements etcdclient.Dialer.
func (d dialer) Dial(endpoint string, config *tls.Config) (etcdclient.Client, error) {
	d.mu.Lock()
	members := d.each[endpoint]
	d.mu.Unlock()
	if members == nil {
		return nil, fmt.Errorf("dialing %s: no member is there", endpoint)
	}
	return members.Dial(endpoint, config)
}

// networks counts the clusters, whose pods have addresses of their own.
var networks int

// newFleet creates n Etcds of a number of members. They are deleted at the end of the test, after its operators: those of the next test look
// after all Etcds.
func newFleet(t *testing.T, n, members int) *fleet {
	t.Helper()
	f := &fleet{WithT: machine.Gomega(t), t: t, members: dialer{&sync.Mutex{}, map[string]*etcdfake.Cluster{}}, tier: strings.ToLower(t.Name())}
	for range n {
		f.add(members)
	}
	return f
}

func (f *fleet) add(members int) {
	f.t.Helper()
	c := testEnv.NewCluster(f.t, name)
	f.label(c, f.tier)
	networks++
	network := networks
	address := func(i int) string { return fmt.Sprintf("10.%d.%d.%d", 100+network/250, network%250, i+1) }
	c.Kubelet = testEnv.StartKubeletAt(f.t, c.Namespace, address)
	c.Kubelet.Judge(func(pod *corev1.Pod) env.PodState {
		if strings.Contains(imageOf(pod), bad) {
			return env.Crashing
		}
		return env.Ready
	})
	c.Members.Up = c.Up
	for i := range members {
		endpoint := fmt.Sprintf("http://%s:2379", address(i))
		c.Members.Names = append(c.Members.Names, c.Pod(i))
		c.Members.Endpoints = append(c.Members.Endpoints, endpoint)
		f.members.mu.Lock()
		f.members.each[endpoint] = c.Members
		f.members.mu.Unlock()
	}
	c.CreateEtcd(members)
	f.t.Cleanup(func() {
		if !f.t.Failed() { // what is there is shown
			_ = testEnv.Client.Delete(context.Background(), c.Etcd)
		}
	})
	f.clusters = append(f.clusters, c)
}

// imageOf returns the image of etcd in a pod.
func imageOf(pod *corev1.Pod) string {
	for _, c := range pod.Spec.Containers {
		if c.Name == v1alpha1.ContainerEtcd {
			return c.Image
		}
	}
	return ""
}

// label sets the label of the namespace of a cluster by which policies select.
func (f *fleet) label(c *env.Cluster, tier string) {
	f.t.Helper()
	ns := &corev1.Namespace{}
	f.Expect(testEnv.Client.Get(f.t.Context(), types.NamespacedName{Name: c.Namespace}, ns)).To(Succeed())
	patch := client.MergeFrom(ns.DeepCopy())
	metav1.SetMetaDataLabel(&ns.ObjectMeta, "tier", tier)
	f.Expect(testEnv.Client.Patch(f.t.Context(), ns, patch)).To(Succeed())
}

// start starts an operator for all namespaces.
func (f *fleet) start(controllers ...composed.Controller) (stop func()) {
	f.t.Helper()
	return f.startAs(testEnv.ForOperator(), controllers...)
}

func (f *fleet) startAs(as *rest.Config, controllers ...composed.Controller) (stop func()) {
	f.t.Helper()
	gate := func(c *configv1alpha1.OperatorConfiguration, d *composed.Dependencies) {
		c.FeatureGates[string(configv1alpha1.FleetPolicies)] = true
		d.Namespace = ledgers
	}
	return testEnv.StartManager(f.t, as, "", func(mgr ctrl.Manager) error {
		o := composition.New(f.t, composition.With(f.members, clock.RealClock{}).Of(mgr), gate)
		o.Fleet.Patience = cmp.Or(f.patience, o.Fleet.Patience)
		return o.Setup(f.t.Context(), mgr, controllers...)
	})
}

// untilWell waits until every cluster is.
func (f *fleet) untilWell() {
	f.t.Helper()
	for _, c := range f.clusters {
		c.Eventually(func(g Gomega) { g.Expect(c.Status(g).Ready).To(HaveValue(BeTrue())) }).Should(Succeed())
	}
}

// policy creates a policy for the fleet. It is deleted at the end of the test.
func (f *fleet) policy(change func(*v1alpha1.EtcdFleetPolicySpec)) {
	f.t.Helper()
	p := &v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: f.tier}}
	p.Spec.NamespaceSelector.MatchLabels = map[string]string{"tier": f.tier}
	change(&p.Spec)
	f.Expect(testEnv.Client.Create(f.t.Context(), p)).To(Succeed())
	f.t.Cleanup(func() { _ = testEnv.Client.Delete(context.Background(), p) })
	f.Eventually(func(g Gomega) {
		g.Expect(testEnv.Client.Get(f.t.Context(), client.ObjectKeyFromObject(p), p)).To(Succeed())
		g.Expect(p.Status.ObservedGeneration).To(Equal(p.Generation))
	}).Should(Succeed())
}

// get reads a policy.
func (f *fleet) get(g Gomega) *v1alpha1.EtcdFleetPolicy {
	p := &v1alpha1.EtcdFleetPolicy{}
	g.Expect(testEnv.Client.Get(f.t.Context(), types.NamespacedName{Name: f.tier}, p)).To(Succeed())
	return p
}

// image changes the image of some clusters.
func (f *fleet) image(image string, clusters ...*env.Cluster) {
	f.t.Helper()
	for _, c := range clusters {
		c.Change(func(e *v1alpha1.Etcd) { e.Spec.Etcd.Image = &image })
	}
}

// tasks are those of a cluster that roll out, by state.
func tasks(g Gomega, c *env.Cluster, states ...v1alpha1.TaskState) (all []v1alpha1.EtcdOperatorTask) {
	for _, t := range c.Tasks(g) {
		if slices.Contains(states, t.Status.State) {
			all = append(all, t)
		}
	}
	return all
}

// watch remembers which clusters had a pod of an image, in order.
type watch struct {
	mu      sync.Mutex
	touched []string
}

func (f *fleet) watch(image string) *watch {
	w := &watch{}
	for _, c := range f.clusters {
		c.WatchPods(func(_ apiwatch.EventType, pod *corev1.Pod) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if strings.Contains(imageOf(pod), image) && !slices.Contains(w.touched, pod.Namespace) {
				w.touched = append(w.touched, pod.Namespace)
			}
		})
	}
	return w
}

func (w *watch) clusters() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.touched)
}
