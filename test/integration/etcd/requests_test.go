// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"crypto/ed25519"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	composed "github.com/etcd-foreman/etcd-foreman/internal/operator"
	"github.com/etcd-foreman/etcd-foreman/test/composition"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// signing gives each operator the same key.
var signing = composition.Depending(func(d *composed.Dependencies) { d.SigningKey = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) })

// quiet waits until the operator has done nothing for a while: longer than a reconcile waits for changes of pods to settle.
func (w *world) quiet(o *operator) {
	w.T.Helper()
	last, since := -1, time.Now()
	w.Eventually(func() time.Duration {
		if n := o.begun.count(); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since)
	}).Should(BeNumerically(">", 3*time.Second))
}

// asked returns the requests of an operator since the last call, by method and what it was about: those for objects of its namespace. Leases
// and events do not count, as in test/bench.
func (w *world) asked(o *operator) map[string]int {
	all := o.requests.take()
	if all == nil {
		all = map[string]int{}
	}
	for _, path := range o.requests.takeReads() {
		if _, object, found := strings.Cut(path, "/namespaces/"+w.Namespace+"/"); found {
			all[http.MethodGet+" "+object]++
		}
	}
	maps.DeleteFunc(all, func(request string, _ int) bool {
		return strings.Contains(request, " leases") || strings.Contains(request, " events")
	})
	return all
}

// A restarted operator reconciles an Etcd that needs nothing once, and asks the API server for nothing but what it caches: with a thousand
// Etcds, each request more is a thousand.
func TestRequestsOfARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	first := w.startAll(signing)
	w.eventuallyWell()
	w.quiet(first)
	first.stop()

	second := w.startAll(signing)
	w.Eventually(second.begun.count).Should(BeNumerically(">", 0))
	w.quiet(second)
	w.Expect(w.asked(second)).To(BeEmpty())
	w.Expect(second.begun.counts()).To(HaveEach(1))
}

// What a rollout costs, also if each pod is away for so long that the status says so: with 8 writes of statuses, what test/bench allows.
// These are not judged, since details of a status are written the more often, the slower the machine is.
func TestRequestsOfARollout(t *testing.T) {
	t.Parallel()
	const members = 3
	isNew := func(p *corev1.Pod) bool { return p.Annotations["rolled"] != "" }
	w := &world{Cluster: testEnv.NewCluster(t, name)}
	w.Simulate(members)
	w.Kubelet.Judge(func(p *corev1.Pod) env.PodState {
		if isNew(p) {
			return env.NotReady
		}
		return env.Ready
	})
	w.CreateEtcd(members)
	o := w.startAll(signing)
	w.eventuallyWell()
	w.quiet(o)
	w.asked(o)

	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Annotations = map[string]string{"rolled": "once"} })
	back := map[string]bool{}
	for range members {
		away := &corev1.PodList{}
		w.Eventually(func(g Gomega) {
			w.List(g, away)
			away.Items = slices.DeleteFunc(away.Items, func(p corev1.Pod) bool { return !isNew(&p) || back[p.Name] })
			g.Expect(away.Items).To(HaveLen(1))
			g.Expect(w.Status(g).Conditions.IsFalse(v1alpha1.ConditionAllMembersReady)).To(BeTrue())
		}).Should(Succeed())
		back[away.Items[0].Name] = true
		w.Kubelet.Set(away.Items[0].Name, env.Ready)
	}
	w.Eventually(func(g Gomega) {
		g.Expect(w.Status(g).Conditions.IsTrue(v1alpha1.ConditionAllMembersUpdated)).To(BeTrue())
		g.Expect(w.Etcd.Status.Conditions.IsTrue(v1alpha1.ConditionAllMembersReady)).To(BeTrue())
	}).Should(Succeed())
	w.quiet(o)
	statuses, others, all := 0, 0, w.asked(o)
	for request, n := range all {
		if strings.HasSuffix(request, "/status") {
			statuses += n
		} else {
			others += n
		}
	}
	t.Logf("%d writes of statuses and %d other requests: %v", statuses, others, all)
	w.Expect(others).To(BeNumerically("<=", 5*members+15))
}
