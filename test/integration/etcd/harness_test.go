// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package etcd tests the Etcd controller against a real API server and the real StatefulSet controller. The
// kubelet and etcd are simulated.
package etcd

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient/etcdfake"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd"
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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var testEnv *env.Env

func TestMain(m *testing.M) {
	os.Exit(env.Main(m, &testEnv, env.WithControllerManager(), env.WithRoles(), env.WithManifests("cert-manager/role.yaml")))
}

const name = "etcd-main"

// world is a namespace with an Etcd, a simulated kubelet and simulated members.
type world struct {
	*WithT
	t         *testing.T
	namespace string
	kubelet   *env.Kubelet
	members   *etcdfake.Cluster
	etcd      *v1alpha1.Etcd
	nudges    int
	// ended are the names of the pods of finished Jobs.
	ended []string
}

// newWorld creates an Etcd of n members. No operator is running yet.
func newWorld(t *testing.T, n int32, change ...func(*v1alpha1.Etcd)) *world {
	t.Helper()
	w := &world{WithT: NewWithT(t), t: t, namespace: testEnv.Namespace(t)}
	w.SetDefaultEventuallyTimeout(2 * time.Minute)
	w.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	w.kubelet = testEnv.StartKubelet(t, w.namespace)
	w.members = &etcdfake.Cluster{Up: w.up}
	for i := range int(n) {
		w.members.Names = append(w.members.Names, pod(i))
		w.members.Endpoints = append(w.members.Endpoints, fmt.Sprintf("http://%s:2379", env.PodIP(i)))
	}
	w.etcd = &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, Spec: v1alpha1.EtcdSpec{Replicas: n}}
	for _, c := range change {
		c(w.etcd)
	}
	w.Expect(testEnv.Client.Create(t.Context(), w.etcd)).To(Succeed())
	return w
}

// up reports whether a member is up: it is while its pod is ready.
func (w *world) up(i int) bool { return w.kubelet.Ready(pod(i)) }

func pod(ordinal int) string { return fmt.Sprintf("%s-%d", name, ordinal) }

func (w *world) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: w.namespace, Name: name}
}

func (w *world) get(g Gomega, name string, into client.Object) {
	g.Expect(testEnv.Client.Get(context.Background(), w.key(name), into)).To(Succeed())
}

func (w *world) statefulSet(g Gomega) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{}
	w.get(g, name, set)
	return set
}

func (w *world) status(g Gomega) v1alpha1.EtcdStatus {
	w.get(g, name, w.etcd)
	return w.etcd.Status
}

// change updates the Etcd.
func (w *world) change(change func(*v1alpha1.Etcd)) {
	w.t.Helper()
	w.get(w, name, w.etcd)
	before := w.etcd.DeepCopy()
	change(w.etcd)
	w.Expect(testEnv.Client.Patch(w.t.Context(), w.etcd, client.MergeFrom(before))).To(Succeed())
}

func annotate(key, value string) func(*v1alpha1.Etcd) {
	return func(e *v1alpha1.Etcd) { metav1.SetMetaDataAnnotation(&e.ObjectMeta, key, value) }
}

// eventuallyWell waits until the status reports that the newest spec was carried out and the cluster is healthy.
func (w *world) eventuallyWell() {
	w.t.Helper()
	w.Eventually(func(g Gomega) {
		status := w.status(g)
		g.Expect(status.ObservedGeneration).To(Equal(w.etcd.Generation))
		g.Expect(status.Ready).To(HaveValue(BeTrue()))
		g.Expect(status.ClusterID).NotTo(BeEmpty())
		config := &corev1.ConfigMap{}
		w.get(g, name+"-config", config)
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
		w.get(g, key, object)
		objects[fmt.Sprintf("%T %s", object, key)] = object
	}
	for _, object := range []client.Object{&policyv1.PodDisruptionBudget{}, &appsv1.StatefulSet{}} {
		w.get(g, name, object)
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
func (w *world) start(change ...func(*etcd.Reconciler)) *operator {
	w.t.Helper()
	return w.startOnly([]composed.Controller{composed.Etcds, composed.Upkeep}, change...)
}

// startAll starts an operator with all its controllers.
func (w *world) startAll(change ...func(*etcd.Reconciler)) *operator {
	w.t.Helper()
	return w.startOnly(nil, change...)
}

func (w *world) startOnly(controllers []composed.Controller, change ...func(*etcd.Reconciler)) *operator {
	w.t.Helper()
	o := &operator{requests: &requests{}}
	restConfig := testEnv.AsOperator()
	restConfig.Wrap(o.requests.through)
	o.stop = testEnv.StartManager(w.t, restConfig, w.namespace, func(mgr ctrl.Manager) error {
		config := composition.Config(func(c *configv1alpha1.OperatorConfiguration) {
			c.ManagedTLS.Issuers = []configv1alpha1.AllowedIssuer{{Name: "*", AllowServerDNSNames: true}}
		})
		parts := composition.New(w.t, config, composition.With(w.members, clock.RealClock{}).Of(mgr))
		o.begun = &countingClient{Client: mgr.GetClient()}
		parts.Etcds.Client = o.begun
		for _, c := range change {
			c(parts.Etcds)
		}
		parts.Upkeep.Clock = parts.Etcds.Clock
		return parts.Setup(w.t.Context(), mgr, controllers...)
	})
	return o
}

func gateOff(r *etcd.Reconciler) { r.QuorumAwareUpdates = false }

// nudge has the operator reconcile the Etcd and waits for the end of the reconcile: a second one begins after the first.
func (w *world) nudge(o *operator) {
	w.t.Helper()
	for range 2 {
		before := o.begun.count()
		w.nudges++
		w.change(annotate("test/nudge", fmt.Sprint(w.nudges)))
		w.Eventually(o.begun.count).Should(BeNumerically(">", before))
	}
}

// requests counts write requests by method and resource, and records reads.
type requests struct {
	mu    sync.Mutex
	n     map[string]int
	reads []string
}

// through counts the requests of a transport.
func (r *requests) through(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method == http.MethodGet && !request.URL.Query().Has("watch") {
			r.mu.Lock()
			r.reads = append(r.reads, request.URL.Path)
			r.mu.Unlock()
		}
		if request.Method != http.MethodGet {
			parts := strings.Split(request.URL.Path, "/namespaces/")
			path := strings.Split(parts[len(parts)-1], "/")
			r.mu.Lock()
			if r.n == nil {
				r.n = map[string]int{}
			}
			r.n[request.Method+" "+strings.Join(append(path[1:2:2], path[min(3, len(path)):]...), "/")]++
			r.mu.Unlock()
		}
		return next.RoundTrip(request)
	})
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

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// countingClient counts started reconciles: each reads its Etcd first.
type countingClient struct {
	client.Client
	mu sync.Mutex
	n  int
}

func (c *countingClient) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if _, ok := into.(*v1alpha1.Etcd); ok {
		c.mu.Lock()
		c.n++
		c.mu.Unlock()
	}
	return c.Client.Get(ctx, key, into, options...)
}

func (c *countingClient) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}
