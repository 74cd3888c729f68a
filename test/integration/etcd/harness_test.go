// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package etcd tests the Etcd controller against a real API server and the real StatefulSet controller. The
// kubelet and etcd are simulated.
package etcd

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	composed "github.com/etcd-foreman/etcd-foreman/internal/operator"
	"github.com/etcd-foreman/etcd-foreman/test/composition"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var testEnv *env.Env

func TestMain(m *testing.M) {
	os.Exit(env.Main(m, &testEnv, env.WithControllerManager(), env.WithRoles(), env.WithManifests("cert-manager/role.yaml")))
}

const name = "etcd-main"

// world is an Etcd with a simulated kubelet and simulated members.
type world struct {
	*env.Cluster
	nudges int
	// ended are the names of the pods of finished Jobs.
	ended []string
}

// newWorld creates an Etcd of n members. No operator is running yet.
func newWorld(t *testing.T, n int, change ...func(*v1alpha1.Etcd)) *world {
	t.Helper()
	w := &world{Cluster: testEnv.NewCluster(t, name)}
	w.Simulate(n)
	w.CreateEtcd(n, change...)
	return w
}

func pod(ordinal int) string { return env.PodName(name, ordinal) }

func annotate(key, value string) func(*v1alpha1.Etcd) {
	return func(e *v1alpha1.Etcd) { metav1.SetMetaDataAnnotation(&e.ObjectMeta, key, value) }
}

// eventuallyWell waits until the status reports that the newest spec was carried out and the cluster is healthy.
func (w *world) eventuallyWell() {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		status := w.Status(g)
		g.Expect(status.ObservedGeneration).To(Equal(w.Etcd.Generation))
		g.Expect(status.Ready).To(HaveValue(BeTrue()))
		g.Expect(status.ClusterID).NotTo(BeEmpty())
		config := &corev1.ConfigMap{}
		w.Get(g, name+"-config", config)
		g.Expect(config.Data).To(HaveKeyWithValue("cluster-id", status.ClusterID))
	}).Should(Succeed())
}

// objects returns the Etcd and its objects by kind and name.
func (w *world) objects(g Gomega) map[string]client.Object {
	objects := map[string]client.Object{}
	for key, object := range map[string]client.Object{
		name:             &v1alpha1.Etcd{},
		name + "-config": &corev1.ConfigMap{},
		name + "-client": &corev1.Service{},
		name + "-peer":   &corev1.Service{},
	} {
		w.Get(g, key, object)
		objects[fmt.Sprintf("%T %s", object, key)] = object
	}
	for _, object := range []client.Object{&policyv1.PodDisruptionBudget{}, &appsv1.StatefulSet{}} {
		w.Get(g, name, object)
		objects[fmt.Sprintf("%T", object)] = object
	}
	return objects
}

// operator is a running operator.
type operator struct {
	stop     func()
	requests *requests
	begun    *countingClient
}

// start starts the controllers of Etcds of an operator for the namespace, with changes.
func (w *world) start(changes ...composition.Change) *operator {
	w.T.Helper()
	return w.startWith([]composed.Controller{composed.Etcds, composed.Upkeep}, func(*composed.Operator) {}, changes...)
}

// startAll starts an operator with all its controllers.
func (w *world) startAll(changes ...composition.Change) *operator {
	w.T.Helper()
	return w.startWith(nil, func(*composed.Operator) {}, changes...)
}

func (w *world) startWith(controllers []composed.Controller, before func(*composed.Operator), changes ...composition.Change) *operator {
	w.T.Helper()
	o := &operator{requests: &requests{}, begun: &countingClient{last: map[composed.Controller]types.UID{}, n: map[composed.Controller]int{}}}
	for _, controller := range []composed.Controller{composed.Etcds, composed.Upkeep} {
		if controllers == nil || slices.Contains(controllers, controller) {
			o.begun.n[controller] = 0
		}
	}
	counted := func(c *configv1alpha1.OperatorConfiguration, d *composed.Dependencies) {
		c.ManagedTLS.Issuers = []configv1alpha1.AllowedIssuer{{Name: "*", AllowServerDNSNames: true}}
		o.begun.Client = d.Client
		d.Client = o.begun
	}
	o.stop = w.StartWith(testEnv.Through(o.requests.pass), controllers, before, append(changes, counted)...)
	return o
}

// at sets the clock of an operator.
func at(now clock.PassiveClock) composition.Change {
	return composition.Depending(func(d *composed.Dependencies) { d.Clock = now })
}

// reading replaces the client of an operator, which reads from its cache.
func reading(replace func(client.Client) client.Client) composition.Change {
	return composition.Depending(func(d *composed.Dependencies) { d.Client = replace(d.Client) })
}

// nudge has the operator reconcile the Etcd and waits for the end of the reconcile: a second one begins after the first.
func (w *world) nudge(o *operator) {
	w.T.Helper()
	for range 2 {
		before := o.begun.counts()
		w.nudges++
		w.Change(annotate("test/nudge", fmt.Sprint(w.nudges)))
		for controller, n := range before {
			w.Eventually(func() int { return o.begun.counts()[controller] }).Should(BeNumerically(">", n), "%s", controller)
		}
	}
}

// writesNothing waits until a reconcile writes nothing: events may be late, and so may what other controllers do.
func (w *world) writesNothing(o *operator, why ...any) {
	w.T.Helper()
	w.Eventually(func() map[string]int {
		o.requests.take()
		w.nudge(o)
		return o.requests.take()
	}).Should(BeEmpty(), why...)
}

// requests counts write requests by method and resource, and records reads.
type requests struct {
	mu    sync.Mutex
	n     map[string]int
	reads []string
}

// pass counts a request and passes it on.
func (r *requests) pass(next http.RoundTripper, request *http.Request) (*http.Response, error) {
	r.note(request)
	return next.RoundTrip(request)
}

func (r *requests) note(request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if request.Method == http.MethodGet {
		if !request.URL.Query().Has("watch") {
			r.reads = append(r.reads, request.URL.Path)
		}
		return
	}
	parts := strings.Split(request.URL.Path, "/namespaces/")
	path := strings.Split(parts[len(parts)-1], "/")
	if r.n == nil {
		r.n = map[string]int{}
	}
	r.n[request.Method+" "+strings.Join(append(path[1:2:2], path[min(3, len(path)):]...), "/")]++
}

// take returns the writes counted since its last call.
func (r *requests) take() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.n
	r.n = nil
	return n
}

// takeReads returns the paths read since its last call.
func (r *requests) takeReads() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	reads := r.reads
	r.reads = nil
	return reads
}

func (r *requests) count(request string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n[request]
}

// countingClient counts the reconciles that the controllers of Etcds have begun: each reads its Etcd first.
type countingClient struct {
	client.Client
	mu   sync.Mutex
	last map[composed.Controller]types.UID
	n    map[composed.Controller]int
}

func (c *countingClient) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	c.mu.Lock()
	for controller := range c.n {
		if id := env.ReconcileOf(ctx, controller); id != "" && id != c.last[controller] {
			c.last[controller] = id
			c.n[controller]++
		}
	}
	c.mu.Unlock()
	return c.Client.Get(ctx, key, into, options...)
}

// count is how many reconciles of Etcds have begun.
func (c *countingClient) count() int { return c.counts()[composed.Etcds] }

// counts are those of each controller that was started.
func (c *countingClient) counts() map[composed.Controller]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}
