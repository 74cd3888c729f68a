//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/local/node"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// gap is the longest accepted time without an acknowledged write in a rollout that keeps quorum: a few elections on an
// overloaded machine. That quorum was kept is asserted by the evidence; the benchmarks measure what a rollout costs.
const gap = 30 * time.Second

func TestAllHealthy(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	from := time.Now()
	leader := c.leader()
	c.change("1")
	done := c.untilSucceeded()
	c.Expect(replaced(done)).To(HaveLen(3))
	c.Expect(done.Status.Rollout.Pods[2].Name).To(Equal(podName(leader)), "the leader goes last")
	c.neverTookTheQuorum()
	c.ready()
	report := c.writesSurvive()
	c.Expect(report.Between(from, time.Now()).LeaderChanges).To(BeNumerically("<=", 1))
}

// The leader at each ordinal.
func TestLeaderAtEachOrdinal(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	for i := range 3 {
		c.leadBy(i)
		c.change(fmt.Sprint(i))
		done := c.untilNumberSucceeded(i + 1)
		c.Expect(done.Status.Rollout.Pods[2].Name).To(Equal(podName(i)))
		c.ready()
	}
	c.neverTookTheQuorum()
	c.writesSurvive()
}

func TestFrozenMember(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.freeze(0)
	c.untilUnready(0)
	from := time.Now()
	c.change("1")
	done := c.untilSucceeded()
	c.Expect(replaced(done)[0]).To(Equal(podName(0)))
	c.Expect(done.Status.Rollout.Pods[0].GracePeriodSeconds).To(HaveValue(BeEquivalentTo(2)), "nothing waits for the dead")
	c.neverTookTheQuorum()
	c.ready()
	report := c.writesSurvive()
	c.Expect(report.Between(from, time.Now()).LongestGap).To(BeNumerically("<", gap))
}

func TestCrashLoopingMember(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	old := c.pod(c, 1).UID
	go func() {
		for ctx.Err() == nil {
			if p, err := node.Find(ctx, string(old), node.Etcd); err == nil {
				_ = p.Kill(ctx)
			}
		}
	}()
	c.Eventually(func(g Gomega) {
		state := etcdStatus(c.pod(g, 1)).State
		g.Expect(state.Waiting).NotTo(BeNil())
		g.Expect(state.Waiting.Reason).To(Equal("CrashLoopBackOff"))
	}).Should(Succeed())
	c.change("1")
	done := c.untilSucceeded()
	c.Expect(replaced(done)[0]).To(Equal(podName(1)))
	c.neverTookTheQuorum()
	c.ready()
	c.writesSurvive()
}

// A bad image blocks the rollout at the first pod; the fixed image is rolled out without further action.
func TestBadImageAndItsFix(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	from := time.Now()
	c.patch(func(e *v1alpha1.Etcd) { e.Spec.Etcd.Image = ptr.To("localhost/etcd:missing") })
	held := c.until("held", func(t v1alpha1.EtcdOperatorTask) bool {
		r := t.Status.Rollout
		return r != nil && len(r.Pods) == 1 && r.HeldBy != nil && r.HeldBy.Guard == v1alpha1.GuardOthersParticipating
	})
	sick := held.Status.Rollout.Pods[0].Name
	c.Eventually(func(g Gomega) {
		r := c.rollouts(g)[0].Status.Rollout
		g.Expect(r.HeldBy).NotTo(BeNil())
		g.Expect(r.HeldBy.Message).To(ContainSubstring("localhost/etcd:missing"), "the task says why it is held")
		g.Expect(r.Pods).To(HaveLen(1))
	}).Should(Succeed())
	c.patch(func(e *v1alpha1.Etcd) {
		e.Spec.Etcd.Image = nil
		e.Spec.Annotations = map[string]string{"e2e/change": "fix"}
	})
	done := c.until("succeeded", func(t v1alpha1.EtcdOperatorTask) bool {
		return t.Name != held.Name && t.Status.State == v1alpha1.TaskStateSucceeded
	})
	c.Expect(replaced(done)[0]).To(Equal(sick))
	c.Expect(c.rollouts(c)[0].Status.State).To(Equal(v1alpha1.TaskStateRejected))
	c.neverTookTheQuorum()
	c.ready()
	c.Expect(c.writesSurvive().Between(from, time.Now()).LongestGap).To(BeNumerically("<", gap))
}

// A rollout proceeds when quorum is lost for good, and restores it.
func TestMembersDown(t *testing.T) {
	for name, down := range map[string][]int{"two of three": {0, 1}, "all": {0, 1, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 3)
			for _, i := range down {
				c.freeze(i)
			}
			for i := range 3 {
				c.untilUnready(i)
			}
			c.change("1")
			done := c.untilSucceeded()
			c.Expect(len(replaced(done))).To(BeNumerically(">=", 3))
			c.ready()
			c.writesSurvive()
		})
	}
}

func TestTemplateChangedTwice(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.change("1")
	first := c.untilDeleted(1)
	c.change("2")
	c.until("second succeeded", func(t v1alpha1.EtcdOperatorTask) bool {
		return t.Name != first.Name && t.Status.State == v1alpha1.TaskStateSucceeded
	})
	c.Expect(c.rollouts(c)[0].Status.State).To(Equal(v1alpha1.TaskStateRejected), "the first task is superseded")
	c.neverTookTheQuorum()
	c.ready()
	c.writesSurvive()
}

func TestTemplateRolledBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	original := c.statefulSet(c).Status.UpdateRevision
	c.change("1")
	first := c.untilDeleted(1)
	// A pod replaced after the template was rolled back would not be outdated.
	c.Eventually(func(g Gomega) {
		revision := c.statefulSet(g).Status.UpdateRevision
		g.Expect(revision).NotTo(Equal(original))
		g.Expect(c.uidsAt(revision)).NotTo(BeEmpty())
	}).Should(Succeed())
	c.patch(func(e *v1alpha1.Etcd) { e.Spec.Annotations = nil })
	done := c.until("back", func(t v1alpha1.EtcdOperatorTask) bool {
		return t.Name != first.Name && t.Status.State == v1alpha1.TaskStateSucceeded
	})
	c.Expect(done.Status.Rollout.TargetRevision).To(Equal(original))
	c.Expect(len(replaced(done))).To(BeNumerically("<", 3), "pods not yet replaced stay")
	c.neverTookTheQuorum()
	c.ready()
	c.writesSurvive()
}

func TestSingleMember(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.change("1")
	done := c.untilSucceeded()
	c.Expect(replaced(done)).To(Equal([]string{podName(0)}))
	c.Expect(done.Status.Rollout.Pods[0].LastOperation.Reason).To(ContainSubstring("writes stop"))
	c.ready()
	c.writesSurvive()
}

// A second member stands in for the only one: clients are served all the time. Beside it is what a rollout of the same cluster costs
// without one. FILL=1024 gives it a database of so many MiB.
func TestSingleMemberSurges(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t).begin(1, func(_ *cluster, e *v1alpha1.Etcd) { e.Spec.SurgePolicy = v1alpha1.SurgeSingleMember })
	if mebibytes, err := strconv.Atoi(os.Getenv("FILL")); err == nil {
		c.fill(mebibytes / 2)
	}
	id, before := c.etcd(c).Status.ClusterID, c.pod(c, 0).UID
	from := time.Now()
	c.change("1")
	done := c.untilSucceeded()
	c.Expect(replaced(done)).NotTo(ContainElement(podName(1)))
	var steps []v1alpha1.MembershipStep
	c.Eventually(func(g Gomega) {
		i := slices.IndexFunc(c.tasks(g), func(t v1alpha1.EtcdOperatorTask) bool { return t.Spec.Type == v1alpha1.MembershipChange })
		g.Expect(i).To(BeNumerically(">=", 0))
		task := c.tasks(g)[i]
		g.Expect(task.Status.State).To(Equal(v1alpha1.TaskStateSucceeded))
		steps = task.Status.Membership.Steps
	}).Should(Succeed())
	surged := time.Now()
	c.untilVoters(1)
	c.ready()
	c.Expect(c.pod(c, 0).UID).NotTo(Equal(before))
	c.Expect(c.etcd(c).Status.ClusterID).To(Equal(id))
	c.Expect(*c.statefulSet(c).Spec.Replicas).To(Equal(int32(1)))
	c.Eventually(func(g Gomega) {
		claim, lease := types.NamespacedName{Namespace: c.namespace, Name: claimName(1)}, types.NamespacedName{Namespace: c.namespace, Name: podName(1)}
		g.Expect(apierrors.IsNotFound(kube.Get(t.Context(), claim, &corev1.PersistentVolumeClaim{}))).To(BeTrue())
		g.Expect(apierrors.IsNotFound(kube.Get(t.Context(), lease, &coordinationv1.Lease{}))).To(BeTrue())
	}).Should(Succeed())

	c.patch(func(e *v1alpha1.Etcd) { e.Spec.SurgePolicy = v1alpha1.SurgeNever })
	c.change("2")
	c.untilNumberSucceeded(2)
	c.ready()
	report := c.writesSurvive()
	with, without := report.Between(from, surged), report.Between(surged, time.Now())
	t.Logf("with a second member: %s, longest gap %s; without: longest gap %s", surged.Sub(from), with.LongestGap, without.LongestGap)
	for i, s := range steps {
		if s.Action == "PromoteLearner" {
			t.Logf("two voters from %s on, until %s", s.Evidence.ObservedAt, removalAfter(steps[i:]).Evidence.ObservedAt)
		}
	}
	c.Expect(with.LongestGap).To(BeNumerically("<", without.LongestGap))
}

// removalAfter is the first removal among steps.
func removalAfter(steps []v1alpha1.MembershipStep) (removal v1alpha1.MembershipStep) {
	if i := slices.IndexFunc(steps, func(s v1alpha1.MembershipStep) bool { return s.Action == "RemoveMember" }); i >= 0 {
		removal = steps[i]
	}
	return removal
}

func TestFiveMembers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 5)
	c.freeze(0)
	c.untilUnready(0)
	from := time.Now()
	c.change("1")
	done := c.untilSucceeded()
	c.Expect(replaced(done)).To(HaveLen(5))
	c.Expect(replaced(done)[0]).To(Equal(podName(0)))
	c.neverTookTheQuorum()
	c.ready()
	c.Expect(c.writesSurvive().Between(from, time.Now()).LongestGap).To(BeNumerically("<", gap))
}

// The leader is frozen for three seconds, before the rollout and between its steps. Without a leader every member looks
// unhealthy: none may be classified so.
func TestLeaderlessSpell(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	for step := range 3 {
		before := len(c.rollouts(c))
		if step > 0 {
			c.change(fmt.Sprint(step))
			c.Eventually(func(g Gomega) { g.Expect(c.rollouts(g)).To(HaveLen(before + 1)) }).Should(Succeed())
			c.untilDeleted(step)
		}
		leader := c.leader()
		thaw := c.freeze(leader)
		if step == 0 {
			c.change("0")
		}
		c.after(3*time.Second, thaw)
		done := c.untilSucceeded()
		for _, p := range done.Status.Rollout.Pods {
			c.Expect(p.Class).To(Equal(v1alpha1.ClassParticipating), "%s was healthy: %+v", p.Name, p)
		}
		c.ready()
	}
	c.neverTookTheQuorum()
	c.writesSurvive()
}

// The old template has a broken readiness probe, while etcd serves: the rollout fixes one pod after another, and writes
// never stop.
func TestBrokenProbe(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.patch(func(e *v1alpha1.Etcd) {
		e.Annotations = map[string]string{v1alpha1.AnnotationSuspendSpecReconcile: ""}
	})
	set := c.statefulSet(c)
	before := client.MergeFrom(set.DeepCopy())
	set.Spec.Template.Spec.Containers[0].ReadinessProbe.HTTPGet.Path = "/no-such-path"
	c.Expect(kube.Patch(t.Context(), set, before)).To(Succeed())
	// The rollout stops at the first broken pod. A user breaks the others by hand.
	first := c.untilDeleted(1).Status.Rollout.Pods[0].Name
	for i := range 3 {
		if podName(i) != first {
			c.deleteAndWait(i, func(p *corev1.Pod) bool {
				return etcdStatus(p).State.Running != nil
			})
			c.servesAgain()
		}
	}
	from := time.Now()
	c.patch(func(e *v1alpha1.Etcd) {
		e.Annotations = nil
		e.Spec.Annotations = map[string]string{"e2e/change": "fixed"}
	})
	done := c.until("fixed", func(t v1alpha1.EtcdOperatorTask) bool {
		return len(c.rollouts(c)) > 1 && t.Status.State == v1alpha1.TaskStateSucceeded
	})
	c.Expect(done.Status.Rollout.Pods[0].Class).To(Equal(v1alpha1.ClassUnready))
	c.neverTookTheQuorum()
	c.ready()
	c.Expect(c.writesSurvive().Between(from, time.Now()).LongestGap).To(BeNumerically("<", gap))
}

func TestPodDeletedByAUser(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.change("1")
	first := c.untilDeleted(1).Status.Rollout.Pods[0].Name
	for i := range 3 {
		if podName(i) != first {
			c.Expect(kube.Delete(t.Context(), c.pod(c, i))).To(Succeed())
			break
		}
	}
	c.untilSucceeded()
	c.neverTookTheQuorum()
	c.ready()
	c.writesSurvive()
}

func TestTwoTasksOfTheSameSecond(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	names := []string{"zebra", "aardvark"}
	for _, n := range names {
		// A restart and a rollout do not replace each other.
		config := map[string]string{"zebra": "restart: true"}[n]
		c.create(c.task(n, config))
	}
	tasks := map[string]v1alpha1.EtcdOperatorTask{}
	c.Eventually(func(g Gomega) {
		for _, t := range c.rollouts(g) {
			tasks[t.Name] = t
			g.Expect(t.Status.State).To(Equal(v1alpha1.TaskStateSucceeded), t.Name)
		}
	}).Should(Succeed())
	c.Expect(tasks["aardvark"].Status.InitiatedAt.Time).NotTo(BeTemporally("<", tasks["zebra"].Status.CompletedAt.Time))
	c.Expect(replaced(tasks["zebra"])).To(HaveLen(3))
	c.Expect(tasks["aardvark"].Status.Rollout.Pods).To(BeEmpty())
	c.writesSurvive()
}
