// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	decision "github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet/store"
	composed "github.com/etcd-foreman/etcd-foreman/internal/operator"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// rollOut creates a rollout of a cluster's present template that is stalled soon.
func rollOut(c *env.Cluster, name, image string) {
	c.T.Helper()
	c.Eventually(func(g Gomega) {
		set := c.StatefulSet(g)
		g.Expect(imageOf(&corev1.Pod{Spec: set.Spec.Template.Spec})).To(Equal(image))
		g.Expect(set.Status.ObservedGeneration).To(Equal(set.Generation))
	}).Should(Succeed())
	c.CreateTask(name, v1alpha1.QuorumAwareRollout, "progressDeadline: 2s")
}

// admitted returns the condition of a task by which it waits; nil if there is none.
func admitted(t *v1alpha1.EtcdOperatorTask) *metav1.Condition {
	return meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionAdmitted)
}

// One template crashes, and thirty Etcds get it at once. It reaches one of them; the others say why they wait, and a tenant who changes
// the labels of their Etcd waits as well. The next template begins with the cluster that failed.
func TestOneBadTemplateReachesOneCluster(t *testing.T) {
	const n = 30
	f := newFleet(t, n, 3)
	f.patience = time.Second
	stop := f.start(composed.Etcds, composed.Tasks, composed.Fleet)
	f.untilWell()
	f.policy(func(s *v1alpha1.EtcdFleetPolicySpec) {
		s.MaxConcurrent = ptr.To(intstr.FromInt32(10))
		s.Soak = &metav1.Duration{}
		s.Canary.Soak = &metav1.Duration{}
	})
	touched := f.watch(bad)
	const image = "localhost/etcd:bad"
	f.image(image, f.clusters...)
	for _, c := range f.clusters {
		rollOut(c, "first", image)
	}
	var change v1alpha1.FleetChange
	f.Eventually(func(g Gomega) {
		p := f.get(g)
		g.Expect(meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionPaused)).To(HaveField("Reason", v1alpha1.ReasonChangeFailed), "%+v", p.Status)
		g.Expect(p.Status.Waiting).To(Equal(int32(n - 1)))
		g.Expect(p.Status.Changes).To(HaveLen(1))
		change = p.Status.Changes[0]
	}).Should(Succeed())
	f.Expect(touched.clusters()).To(ConsistOf(change.Failures[0].Namespace))
	f.Expect(change.Paused).To(And(ContainSubstring(change.Failures[0].Namespace), ContainSubstring("is stalled"), ContainSubstring(change.ResumeToken)))
	for i, c := range f.clusters {
		if c.Namespace == change.Failures[0].Namespace {
			continue
		}
		if i%7 == 0 {
			c.Change(func(e *v1alpha1.Etcd) {
				e.Labels = map[string]string{"tier": "none", "app.kubernetes.io/managed-by": "me"}
			})
		}
		task := c.UntilTaskStatus("first", func(s v1alpha1.EtcdOperatorTaskStatus) bool {
			a := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionAdmitted)
			return a != nil && a.Reason == v1alpha1.ReasonFleetPaused
		})
		f.Expect(task.Status.State).To(Equal(v1alpha1.TaskStatePending))
		f.Expect(admitted(task).Message).To(ContainSubstring(change.Failures[0].Namespace + "/" + name))
	}
	f.Expect(touched.clusters()).To(HaveLen(1))

	// On a busy machine, rollouts that are well make no progress for seconds either.
	stop()
	f.patience = 0
	f.start(composed.Etcds, composed.Tasks, composed.Fleet)
	const fixed = "localhost/etcd:v2"
	repaired := f.watch(fixed)
	f.image(fixed, f.clusters...)
	for _, c := range f.clusters {
		if c.Namespace == change.Failures[0].Namespace {
			rollOut(c, "second", fixed)
		}
	}
	f.Eventually(repaired.clusters).ShouldNot(BeEmpty())
	f.Expect(repaired.clusters()[0]).To(Equal(change.Failures[0].Namespace), "it begins with the cluster that failed")
	f.Eventually(func(g Gomega) {
		p := f.get(g)
		i := slices.IndexFunc(p.Status.Changes, func(c v1alpha1.FleetChange) bool { return c.Change != change.Change })
		g.Expect(i).To(BeNumerically(">=", 0))
		g.Expect(p.Status.Changes[i].Done).To(Equal(int32(n)), "%+v", p.Status)
		g.Expect(p.Status.Holders).To(BeEmpty())
	}).Should(Succeed())
	f.Expect(touched.clusters()).To(HaveLen(1))
}

// A template after which etcd raises an alarm reaches one cluster: its members are ready, and the alarm is in their status alone.
func TestAnAlarmIsAFailureOfTheChange(t *testing.T) {
	f := newFleet(t, 2, 1)
	f.start(composed.Etcds, composed.Tasks, composed.Rollouts, composed.Fleet)
	f.untilWell()
	f.policy(func(s *v1alpha1.EtcdFleetPolicySpec) {
		s.MaxConcurrent = ptr.To(intstr.FromInt32(1))
		s.Canary.Count = ptr.To[int32](1)
		s.Canary.Soak = &metav1.Duration{Duration: time.Hour}
	})
	const image = "localhost/etcd:v2"
	touched := f.watch(image)
	f.image(image, f.clusters...)
	f.Eventually(touched.clusters).Should(HaveLen(1))
	canary := f.clusters[slices.IndexFunc(f.clusters, func(c *env.Cluster) bool { return c.Namespace == touched.clusters()[0] })]
	f.Eventually(func(g Gomega) { g.Expect(tasks(g, canary, v1alpha1.TaskStateSucceeded)).To(HaveLen(1)) }).Should(Succeed())

	canary.Members.Raise(etcdclient.AlarmNoSpace, 0)
	f.Eventually(func(g Gomega) {
		p := f.get(g)
		g.Expect(p.Status.Changes).To(HaveLen(1))
		g.Expect(p.Status.Changes[0].Failures).To(ConsistOf(And(HaveField("Namespace", canary.Namespace), HaveField("Reason", HavePrefix("while it was watched: Alarm NOSPACE of main-0: ")))))
		g.Expect(p.Status.Changes[0].Paused).NotTo(BeEmpty())
	}).Should(Succeed())
	f.Expect(touched.clusters()).To(ConsistOf(canary.Namespace))
}

// ledger follows every revision of the ledger, and says in which more slots were used than there are.
type ledger struct {
	mu     sync.Mutex
	seen   int
	most   int
	broken []string
}

func (f *fleet) ledger(limit int) *ledger {
	f.t.Helper()
	l := &ledger{}
	ctx, cancel := context.WithCancel(context.Background())
	events, err := testEnv.Client.Watch(ctx, &corev1.ConfigMapList{}, client.InNamespace(ledgers))
	f.Expect(err).NotTo(HaveOccurred())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range events.ResultChan() {
			if o, ok := event.Object.(*corev1.ConfigMap); ok && o.Name == store.Name && event.Type != apiwatch.Deleted {
				l.see(o, f.tier, limit)
			}
		}
	}()
	f.t.Cleanup(func() { cancel(); events.Stop(); <-done })
	return l
}

func (l *ledger) see(o *corev1.ConfigMap, policy string, limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := &decision.Ledger{}
	if err := json.Unmarshal([]byte(o.Data[store.Key]), found); err != nil {
		l.broken = append(l.broken, err.Error())
		return
	}
	used := 0
	for i := range found.Holders {
		if h := &found.Holders[i]; h.UsesSlot() && slices.Contains(h.Policies, policy) {
			used++
		}
	}
	l.seen++
	if l.most = max(l.most, used); used > limit {
		l.broken = append(l.broken, fmt.Sprintf("revision %s: %d slots are used", o.ResourceVersion, used))
	}
}

func (l *ledger) broke() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.broken)
}

// running counts the clusters whose rollout runs.
func (f *fleet) running(g Gomega) (n int) {
	for _, c := range f.clusters {
		if len(tasks(g, c, v1alpha1.TaskStateInProgress)) > 0 {
			n++
		}
	}
	return n
}

// A good template goes through the fleet while the operator is killed, and while its ledger is deleted: in no revision of the ledger are
// more slots in use than there are, and no more rollouts run.
func TestOperatorsAndLedgersThatAreLost(t *testing.T) {
	const n, limit = 8, 2
	f := newFleet(t, n, 3)
	stop := f.start()
	f.untilWell()
	f.policy(func(s *v1alpha1.EtcdFleetPolicySpec) {
		s.MaxConcurrent = ptr.To(intstr.FromInt32(limit))
		s.Soak = &metav1.Duration{}
		s.Canary.Soak = &metav1.Duration{}
	})
	l := f.ledger(limit)
	f.image("localhost/etcd:v2", f.clusters...)
	done := func(g Gomega) (n int) {
		for _, c := range f.clusters {
			if len(tasks(g, c, v1alpha1.TaskStateSucceeded)) > 0 {
				n++
			}
		}
		return n
	}
	until := func(want int) {
		t.Helper()
		f.Eventually(func(g Gomega) {
			g.Expect(f.running(g)).To(BeNumerically("<=", limit))
			g.Expect(done(g)).To(BeNumerically(">=", want))
		}).WithPolling(50 * time.Millisecond).Should(Succeed())
	}
	until(1)
	f.Eventually(func(g Gomega) { g.Expect(f.running(g)).To(Equal(limit)) }).Should(Succeed())
	stop()
	stop = f.start()
	until(3)
	f.Eventually(func(g Gomega) { g.Expect(f.running(g)).To(BeNumerically(">", 0)) }).Should(Succeed())
	f.Expect(testEnv.Client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ledgers, Name: store.Name}})).To(Succeed())
	until(5)
	stop()
	// Two at once.
	f.start()
	f.start()
	until(n)
	f.Expect(l.broke()).To(BeEmpty())
	f.Expect(l.most).To(Equal(limit))
	f.Eventually(func(g Gomega) { g.Expect(f.get(g).Status.Holders).To(BeEmpty()) }).Should(Succeed())
	ledger := &corev1.ConfigMap{}
	f.Expect(testEnv.Client.Get(t.Context(), types.NamespacedName{Namespace: ledgers, Name: store.Name}, ledger)).To(Succeed())
	f.Expect(ledger.Data[store.Key]).To(ContainSubstring(`"rebuilt"`))
}
