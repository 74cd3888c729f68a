// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	clusterstate "github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// inPlace makes a cluster whose pods are updated in place, with resources and an agent.
func inPlace(c *cluster) {
	patch := client.MergeFrom(c.Etcd.DeepCopy())
	c.Etcd.Spec.PodUpdatePolicy = v1alpha1.InPlaceIfPossible
	c.Expect(testEnv.Client.Patch(c.T.Context(), c.Etcd, patch)).To(Succeed())
	spec := &c.set.Spec.Template.Spec
	spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	spec.Containers = append(spec.Containers, corev1.Container{Name: v1alpha1.ContainerBackupRestore, Image: "localhost/agent:v1"})
	spec.InitContainers = []corev1.Container{{Name: v1alpha1.InitContainerPrepare, Image: "localhost/agent:v1"}}
}

// template changes the pod template.
func (c *cluster) template(change func(*corev1.PodTemplateSpec)) {
	c.T.Helper()
	c.Expect(testEnv.Client.Get(c.T.Context(), client.ObjectKeyFromObject(c.set), c.set)).To(Succeed())
	patch := client.MergeFrom(c.set.DeepCopy())
	change(&c.set.Spec.Template)
	c.Expect(testEnv.Client.Patch(c.T.Context(), c.set, patch)).To(Succeed())
}

func cpu(amount string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(amount)
	}
}

func agent(image string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.InitContainers[0].Image, t.Spec.Containers[1].Image = image, image
	}
}

func etcd(image string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].Image = image }
}

func (c *cluster) read(g Gomega, i int) *corev1.Pod {
	p := &corev1.Pod{}
	g.Expect(testEnv.Client.Get(c.T.Context(), types.NamespacedName{Namespace: c.Namespace, Name: c.Pod(i)}, p)).To(Succeed())
	return p
}

// updated waits until the StatefulSet controller counts every pod as updated, and no pod is marked.
func (c *cluster) updated() {
	c.T.Helper()
	c.Eventually(func(g Gomega) {
		g.Expect(testEnv.Client.Get(c.T.Context(), client.ObjectKeyFromObject(c.set), c.set)).To(Succeed())
		g.Expect(c.set.Status.ObservedGeneration).To(Equal(c.set.Generation))
		g.Expect(c.set.Status.UpdatedReplicas).To(Equal(c.set.Status.Replicas))
		for i := range c.Members.Names {
			p := c.read(g, i)
			g.Expect(clusterstate.MarkOf(p)).To(BeNil())
			g.Expect(p.Labels[appsv1.StatefulSetRevisionLabel]).To(Equal(c.set.Status.UpdateRevision))
		}
	}).Should(Succeed())
}

// What can be changed in place is: no pod is replaced, and the StatefulSet controller counts the pods as updated. Etcd is
// restarted only for its own image, its leader last.
func TestPodsAreUpdatedInPlace(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, inPlace)
	var revisions atomic.Int32
	c.startWith(testEnv.Through(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if strings.Contains(r.URL.Path, "/controllerrevisions/") {
			revisions.Add(1)
		}
		return next.RoundTrip(r)
	}), nil)
	before := c.PodUIDs(c, len(c.Members.Names))
	moves := 0
	for i, change := range []struct {
		change func(*corev1.PodTemplateSpec)
		moves  int
		check  func(*corev1.Pod) string
		want   string
	}{
		{func(t *corev1.PodTemplateSpec) { t.Annotations = map[string]string{"note": "a"} }, 0, func(p *corev1.Pod) string { return p.Annotations["note"] }, "a"},
		{cpu("200m"), 0, func(p *corev1.Pod) string { return p.Spec.Containers[0].Resources.Requests.Cpu().String() }, "200m"},
		{agent("localhost/agent:v2"), 0, func(p *corev1.Pod) string {
			return p.Spec.InitContainers[0].Image + p.Status.ContainerStatuses[1].ContainerID
		}, "localhost/agent:v2simulated://backup-restore/localhost/agent:v2"},
		{etcd("localhost/etcd:v2"), 1, func(p *corev1.Pod) string { return p.Status.ContainerStatuses[0].ContainerID }, "simulated://etcd/localhost/etcd:v2"},
	} {
		c.template(change.change)
		done := c.finalRollout(i + 1)
		c.updated()
		c.Expect(c.PodUIDs(c, len(c.Members.Names))).To(Equal(before), "%s", change.want)
		for i := range 3 {
			c.Expect(change.check(c.read(c, i))).To(Equal(change.want))
		}
		moves += change.moves
		c.Expect(c.Members.Moves()).To(HaveLen(moves), "%s", change.want)
		c.Expect(revisions.Swap(0)).To(BeEquivalentTo(2), "each revision is read once")
		c.Expect(done.Status.Rollout.Pods).To(HaveLen(3))
		for _, p := range done.Status.Rollout.Pods {
			c.Expect(p.LastOperation.State).To(Equal(v1alpha1.OperationStateCompleted))
			c.Expect(p.Evidence.Serving).To(HaveLen(3))
		}
	}
	// Nothing depends on it: before Kubernetes 1.37 it stays that of the first template.
	c.Expect(c.set.Status.CurrentRevision == c.set.Status.UpdateRevision).To(Equal(testEnv.PromotesUnderOnDelete(t)))

	c.template(func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "b"}} })
	c.finalRollout(5)
	for i, uid := range c.PodUIDs(c, len(c.Members.Names)) {
		c.Expect(uid).NotTo(Equal(before[i]), "any other field takes a new pod")
	}
}

// An operator may crash after any write. The next one carries on, and no pod is replaced.
func TestCrashBetweenTwoWrites(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, inPlace)
	before := c.PodUIDs(c, len(c.Members.Names))
	for writes := int32(1); writes <= 6; writes++ {
		var sent atomic.Int32
		crashed := make(chan struct{})
		stopFirst := c.startWith(testEnv.Through(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodPatch || !strings.Contains(r.URL.Path, "/pods/") {
				if sent.Load() >= writes {
					return nil, fmt.Errorf("the operator has crashed")
				}
				return next.RoundTrip(r)
			}
			switch n := sent.Add(1); {
			case n > writes:
				return nil, fmt.Errorf("the operator has crashed")
			case n == writes:
				defer close(crashed)
			}
			return next.RoundTrip(r)
		}), nil)
		c.template(func(t *corev1.PodTemplateSpec) {
			cpu(fmt.Sprintf("%dm", 200+writes))(t)
			agent(fmt.Sprintf("localhost/agent:crash%d", writes))(t)
		})
		c.Eventually(crashed).Should(BeClosed())
		stopFirst()
		stopSecond := c.startWith(testEnv.ForOperator(), nil)
		c.finalRollout(int(writes))
		c.updated()
		c.Expect(c.PodUIDs(c, len(c.Members.Names))).To(Equal(before), "a crash after %d writes", writes)
		stopSecond()
	}
}

// held waits until the only rollout waits for main-2, which is being updated, and says why. It may wait for something else at first.
func (c *cluster) held(says string) {
	c.T.Helper()
	c.Eventually(func(g Gomega) {
		all := c.rollouts(g)
		g.Expect(all).To(HaveLen(1))
		r := all[0].Status.Rollout
		g.Expect(r).NotTo(BeNil())
		g.Expect(r.HeldBy).NotTo(BeNil())
		g.Expect(r.HeldBy.Guard).To(Equal(v1alpha1.GuardUpdateObserved))
		g.Expect(r.HeldBy.Pod).To(Equal("main-2"))
		g.Expect(r.HeldBy.Message).To(ContainSubstring(says))
	}).Should(Succeed())
}

// An agent that does not come back blocks the rollout, and costs no member.
func TestAgentThatDoesNotComeBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, inPlace)
	c.start(nil)
	before := c.PodUIDs(c, len(c.Members.Names))
	c.Kubelet.Set("main-2", env.AgentDown)
	c.template(agent("localhost/agent:bad"))
	c.held("container backup-restore is not running after its update")
	c.Consistently(func(g Gomega) []types.UID { return c.PodUIDs(g, len(c.Members.Names)) }).WithTimeout(3 * time.Second).Should(Equal(before))
	c.Expect(c.read(c, 1).Spec.Containers[1].Image).To(Equal("localhost/agent:v1"), "one pod at a time")

	c.template(agent("localhost/agent:good"))
	c.Eventually(func() string { return c.read(c, 2).Spec.Containers[1].Image }).Should(Equal("localhost/agent:good"))
	c.Kubelet.Set("main-2", env.Ready)
	c.finalRollout(2)
	c.updated()
	c.Expect(c.PodUIDs(c, len(c.Members.Names))).To(Equal(before))
}

// A template that is rolled back, or changed again, while a pod is on its way.
func TestTemplateChangesWhileAPodIsOnItsWay(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, inPlace)
	c.start(nil)
	before := c.PodUIDs(c, len(c.Members.Names))
	c.Kubelet.Set("main-2", env.Deferred)
	c.template(cpu("300m"))
	c.held("Deferred")
	c.template(cpu("100m"))
	c.Kubelet.Set("main-2", env.Ready)
	// The pod has the label of the target all the time, and counts as outdated.
	c.finalRollout(2)
	c.updated()
	c.Expect(c.read(c, 2).Spec.Containers[0].Resources.Requests.Cpu().String()).To(Equal("100m"))
	c.Expect(c.PodUIDs(c, len(c.Members.Names))).To(Equal(before))
}

// What cannot be done in place takes new pods, one after the other: whatever the reason.
func TestUpdatesThatAreImpossibleInPlace(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		shape   func(*cluster)
		prepare func(*cluster)
		change  func(*corev1.PodTemplateSpec)
		reason  string
	}{
		"refused by the API server": {shape: func(c *cluster) {
			// Only etcd keeps it from the class Guaranteed, which a resize may not change.
			exact := corev1.ResourceRequirements{Requests: c.set.Spec.Template.Spec.Containers[0].Resources.Requests, Limits: c.set.Spec.Template.Spec.Containers[0].Resources.Requests}
			c.set.Spec.Template.Spec.InitContainers[0].Resources, c.set.Spec.Template.Spec.Containers[1].Resources = exact, exact
		}, change: func(t *corev1.PodTemplateSpec) {
			t.Spec.Containers[0].Resources.Limits = t.Spec.Containers[0].Resources.Requests
		}, reason: "Pod QOS Class may not change"},
		"infeasible": {prepare: func(c *cluster) {
			for i := range 3 {
				c.Kubelet.Set(c.Pod(i), env.Infeasible)
			}
		}, change: cpu("900"), reason: "Infeasible"},
		"its revision is missing": {prepare: func(c *cluster) {
			c.Create(&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: "of-somebody-else"}, Revision: 1, Data: runtime.RawExtension{Raw: []byte(`{"spec":{"template":{}}}`)}})
			for i := range 3 {
				p := c.read(c, i)
				patch := client.MergeFrom(p.DeepCopy())
				p.Labels[appsv1.StatefulSetRevisionLabel] = []string{"of-somebody-else", "gone", "gone"}[i]
				c.Expect(testEnv.Client.Patch(c.T.Context(), p, patch)).To(Succeed())
			}
		}, change: cpu("200m"), reason: "is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shapes := []func(*cluster){inPlace}
			if test.shape != nil {
				shapes = append(shapes, test.shape)
			}
			c := newCluster(t, 3, shapes...)
			before := c.PodUIDs(c, len(c.Members.Names))
			if test.prepare != nil {
				test.prepare(c)
			}
			c.template(test.change)
			c.start(nil)
			done := c.finalRollout(1)
			c.updated()
			for i, uid := range c.PodUIDs(c, len(c.Members.Names)) {
				c.Expect(uid).NotTo(Equal(before[i]))
			}
			for _, p := range done.Status.Rollout.Pods {
				c.Expect(p.LastOperation.Reason).To(ContainSubstring("it needs a new pod"))
				c.Expect(p.LastOperation.Reason).To(ContainSubstring(test.reason))
			}
		})
	}
}

// A write that the API server refuses: there is a quota that a new pod would exceed as well, so the old one is kept.
func TestQuotaKeepsPods(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, inPlace, func(c *cluster) {
		// A quota asks for requests of all containers.
		some := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
		c.set.Spec.Template.Spec.InitContainers[0].Resources.Requests, c.set.Spec.Template.Spec.Containers[1].Resources.Requests = some, some
	})
	before := c.PodUIDs(c, len(c.Members.Names))
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: "quota"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse("1")}}}
	c.Create(quota)
	// The controller of quotas is not running here.
	counted := func(hard string) {
		c.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(quota), quota)).To(Succeed())
		quota.Status.Hard = corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse(hard)}
		if quota.Status.Used == nil {
			quota.Status.Used = corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse("330m")}
		}
		c.Expect(testEnv.Client.Status().Update(t.Context(), quota)).To(Succeed())
	}
	counted("1")
	c.start(nil)
	c.template(cpu("900m"))
	c.held("change the quota")
	c.Expect(c.PodUIDs(c, len(c.Members.Names))).To(Equal(before))
	patch := client.MergeFrom(quota.DeepCopy())
	quota.Spec.Hard[corev1.ResourceRequestsCPU] = resource.MustParse("10")
	c.Expect(testEnv.Client.Patch(t.Context(), quota, patch)).To(Succeed())
	counted("10")
	c.finalRollout(1)
	c.Expect(c.PodUIDs(c, len(c.Members.Names))).To(Equal(before))
}

// The StatefulSet controller re-creates a pod that is on its way, and somebody debugs another one.
func TestPodIsReplacedOrDebuggedMeanwhile(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, inPlace)
	c.start(nil)
	before := c.PodUIDs(c, len(c.Members.Names))
	debugged := c.read(c, 1)
	debugged.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "localhost/debug"}}}
	c.Expect(testEnv.Client.SubResource("ephemeralcontainers").Update(t.Context(), debugged)).To(Succeed())
	c.Kubelet.Set("main-2", env.Deferred)
	c.template(cpu("300m"))
	c.held("")
	c.Expect(testEnv.Client.Delete(t.Context(), c.read(c, 2))).To(Succeed())
	c.Kubelet.Set("main-2", env.Ready)
	c.finalRollout(1)
	c.updated()
	after := c.PodUIDs(c, len(c.Members.Names))
	c.Expect(after[2]).NotTo(Equal(before[2]))
	c.Expect(after[:2]).To(Equal(before[:2]))
	c.Expect(c.read(c, 1).Spec.Containers[0].Resources.Requests.Cpu().String()).To(Equal("300m"))
}

// The node of a pod goes away while the pod is on its way, and its pod is re-created, at last on a node that is back. Nobody else goes.
func TestNodeGoesAwayHalfWay(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*corev1.PodTemplateSpec)
		// others is how many of the other pods are updated at a time while main-2 is being deleted. An update that disrupts no member does
		// not wait for that.
		others int
	}{
		"resources":         {change: cpu("300m"), others: 1},
		"the image of etcd": {change: etcd("localhost/etcd:v2")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 3, inPlace)
			c.start(nil)
			before := c.PodUIDs(c, len(c.Members.Names))
			othersStay := func(updating int) {
				t.Helper()
				c.Consistently(func(g Gomega) {
					var pods corev1.PodList
					g.Expect(testEnv.Client.List(t.Context(), &pods, client.InNamespace(c.Namespace))).To(Succeed())
					seen, marked := map[string]types.UID{}, 0
					for _, p := range pods.Items {
						if seen[p.Name] = p.UID; p.Name != "main-2" && clusterstate.MarkOf(&p) != nil {
							marked++
						}
					}
					g.Expect([]types.UID{seen["main-0"], seen["main-1"]}).To(Equal(before[:2]))
					g.Expect(marked).To(BeNumerically("<=", updating))
				}).WithTimeout(2 * time.Second).Should(Succeed())
			}
			c.Kubelet.Set("main-2", env.Lost)
			c.template(test.change)
			c.held("")
			half := c.read(c, 2)
			c.Expect(clusterstate.MarkOf(half)).NotTo(BeNil())
			half.Status.ContainerStatuses[0].Ready = false
			half.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()}}
			c.Expect(testEnv.Client.Status().Update(t.Context(), half)).To(Succeed())
			othersStay(0)
			c.Expect(c.read(c, 2).DeletionTimestamp).To(BeNil(), "it may come back with its node")

			// The node controller evicts it. Once the node is out of service, it is gone, and its replacement is not scheduled.
			c.Expect(testEnv.Client.Delete(t.Context(), half)).To(Succeed())
			othersStay(test.others)
			c.Expect(testEnv.Client.Delete(t.Context(), half, client.GracePeriodSeconds(0))).To(Succeed())
			c.Eventually(func(g Gomega) { g.Expect(c.read(g, 2).UID).NotTo(Equal(before[2])) }).Should(Succeed())
			othersStay(test.others)

			c.Kubelet.Set("main-2", env.Ready)
			c.finalRollout(1)
			c.updated()
			c.Expect(c.PodUIDs(c, len(c.Members.Names))[:2]).To(Equal(before[:2]))
		})
	}
}

// A cluster of one: nobody is there to take over, and etcd is restarted in its pod.
func TestOneMemberIsUpdatedInPlace(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, inPlace)
	c.start(nil)
	before := c.PodUIDs(c, len(c.Members.Names))
	for i, change := range []func(*corev1.PodTemplateSpec){cpu("200m"), etcd("localhost/etcd:v3")} {
		c.template(change)
		c.finalRollout(i + 1)
		c.updated()
		c.Expect(c.PodUIDs(c, len(c.Members.Names))).To(Equal(before))
	}
}

// An operator that was paused sends its write late: the pod has changed, and the API server refuses both a patch and a resize.
func TestLateWritesAreRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, inPlace)
	p := c.read(c, 0)
	seen := fmt.Sprintf(`"uid":%q,"resourceVersion":%q`, p.UID, p.ResourceVersion)
	touch := client.MergeFrom(p.DeepCopy())
	p.Labels["touched"] = "yes"
	c.Expect(testEnv.Client.Patch(t.Context(), p, touch)).To(Succeed())
	late := func(metadata, spec string) client.Patch {
		return client.RawPatch(types.StrategicMergePatchType, fmt.Appendf(nil, `{"metadata":{%s},"spec":{"containers":[%s]}}`, metadata, spec))
	}
	resize, image := `{"name":"etcd","resources":{"requests":{"cpu":"200m"}}}`, `{"name":"etcd","image":"localhost/etcd:late"}`
	c.Expect(apierrors.IsConflict(testEnv.Client.Patch(t.Context(), p.DeepCopy(), late(seen, image)))).To(BeTrue())
	c.Expect(apierrors.IsConflict(testEnv.Client.SubResource("resize").Patch(t.Context(), p.DeepCopy(), late(seen, resize)))).To(BeTrue())
	other := fmt.Sprintf(`"uid":"of-another-pod","resourceVersion":%q`, p.ResourceVersion)
	c.Expect(testEnv.Client.Patch(t.Context(), p.DeepCopy(), late(other, image))).NotTo(Succeed())
	c.Expect(testEnv.Client.SubResource("resize").Patch(t.Context(), p.DeepCopy(), late(other, resize))).NotTo(Succeed())
	c.Expect(c.read(c, 0).ResourceVersion).To(Equal(p.ResourceVersion))
	c.Expect(testEnv.Client.SubResource("resize").Patch(t.Context(), p.DeepCopy(), late(fmt.Sprintf(`"uid":%q,"resourceVersion":%q`, p.UID, p.ResourceVersion), resize))).To(Succeed())
}

// Whoever may write to pods but not delete them forges marks: of an update that is impossible, and of one from another revision.
// The pods are replaced, one after the other and under all guards; none is taken for updated.
func TestForgedMarks(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, inPlace)
	before := c.PodUIDs(c, len(c.Members.Names))
	forge := func(i int, m clusterstate.Mark) {
		p := c.read(c, i)
		patch := client.MergeFrom(p.DeepCopy())
		m.UID = p.UID
		p.Annotations = map[string]string{v1alpha1.AnnotationInPlaceUpdate: m.String()}
		c.Expect(testEnv.Client.Patch(t.Context(), p, patch)).To(Succeed())
	}
	current := c.read(c, 0).Labels[appsv1.StatefulSetRevisionLabel]
	forge(0, clusterstate.Mark{Source: current, Target: current, Failed: "forged"})
	forge(1, clusterstate.Mark{Source: "another", Target: current})
	c.start(nil)
	done := c.finalRollout(1)
	c.updated()
	after := c.PodUIDs(c, len(c.Members.Names))
	c.Expect(after[0]).NotTo(Equal(before[0]))
	c.Expect(after[1]).NotTo(Equal(before[1]))
	c.Expect(after[2]).To(Equal(before[2]), "it was not touched")
	c.Expect(done.Status.Rollout.Pods).To(HaveLen(2))
	for _, p := range done.Status.Rollout.Pods {
		c.Expect(p.Evidence.Serving).To(HaveLen(3), "all others participate")
	}
}

// A LimitRange is younger than the pods, and the API server would give them its default limits with any resize: pod after pod, and
// while etcd runs. They get them with new pods, under all guards.
func TestALimitRangeLimitsNoRunningMember(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, inPlace, func(c *cluster) {
		// Resources of init containers are resized only by nodes that say so.
		c.set.Spec.Template.Spec.InitContainers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
	})
	before := c.PodUIDs(c, len(c.Members.Names))
	c.Create(&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: "defaults"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
	}}}})
	c.template(cpu("200m"))
	c.start(nil)
	done := c.finalRollout(1)
	c.updated()
	for i, uid := range c.PodUIDs(c, len(c.Members.Names)) {
		c.Expect(uid).NotTo(Equal(before[i]))
		c.Expect(done.Status.Rollout.Pods[i].LastOperation.Reason).To(ContainSubstring("would also change limits.memory of container"))
	}
}
