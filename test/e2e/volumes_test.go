//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The test plan of KEP-1847 for an Etcd: the whole cluster scales, to zero and back, and the Etcd is deleted. "Deleted"
// below is the policy whenDeleted: Delete.

func claimName(i int) string { return fmt.Sprintf("%s-%s", etcdName, podName(i)) }

// claimLabels returns the labels of the Etcd's claims.
func claimLabels() map[string]string {
	return map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: etcdName}
}

func (c *cluster) claim(g Gomega, i int) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{}
	g.Expect(kube.Get(context.Background(), types.NamespacedName{Namespace: c.namespace, Name: claimName(i)}, claim)).To(Succeed())
	return claim
}

// claims returns the UIDs of the claims of n members: recreated claims have new ones.
func (c *cluster) claims(g Gomega, n int) (uids []types.UID) {
	for i := range n {
		claim := c.claim(g, i)
		g.Expect(claim.DeletionTimestamp).To(BeNil(), "%s is being deleted", claim.Name)
		uids = append(uids, claim.UID)
	}
	return uids
}

func (c *cluster) uids(g Gomega, n int) (uids []types.UID) {
	for i := range n {
		uids = append(uids, c.pod(g, i).UID)
	}
	return uids
}

func retain(deleted, scaled v1alpha1.VolumeRetention) func(*v1alpha1.Etcd) {
	return func(e *v1alpha1.Etcd) {
		e.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.PersistentVolumeClaimRetentionPolicy{WhenDeleted: deleted, WhenScaled: scaled}
	}
}

// policyInForce waits until the claims are owned by the StatefulSet, or have no owner.
func (c *cluster) policyInForce(n int, owned bool) {
	c.t.Helper()
	c.Eventually(func(g Gomega) {
		for i := range n {
			g.Expect(len(c.claim(g, i).OwnerReferences) > 0).To(Equal(owned))
		}
	}).Should(Succeed())
}

// deleteEtcd deletes the Etcd and waits until its StatefulSet and pods are gone; with Orphan they stay.
func (c *cluster) deleteEtcd(propagation metav1.DeletionPropagation) {
	c.t.Helper()
	c.Expect(kube.Delete(c.t.Context(), c.etcd(c), client.PropagationPolicy(propagation))).To(Succeed())
	c.Eventually(func(g Gomega) {
		etcds := &v1alpha1.EtcdList{}
		g.Expect(kube.List(context.Background(), etcds, client.InNamespace(c.namespace))).To(Succeed())
		g.Expect(etcds.Items).To(BeEmpty())
		if propagation != metav1.DeletePropagationOrphan {
			pods := &corev1.PodList{}
			g.Expect(kube.List(context.Background(), pods, client.InNamespace(c.namespace))).To(Succeed())
			g.Expect(pods.Items).To(BeEmpty())
		}
	}).Should(Succeed())
}

func (c *cluster) claimsGone(n int) {
	c.t.Helper()
	c.Eventually(func(g Gomega) {
		for i := range n {
			err := kube.Get(context.Background(), types.NamespacedName{Namespace: c.namespace, Name: claimName(i)}, &corev1.PersistentVolumeClaim{})
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%s still exists: %v", claimName(i), err)
		}
	}).Should(Succeed())
}

// hibernateAndWakeUp scales the cluster to zero and back.
func (c *cluster) hibernateAndWakeUp(n int32) {
	c.t.Helper()
	c.patch(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 })
	c.Eventually(func(g Gomega) {
		g.Expect(c.etcd(g).Status.Conditions.IsTrue(v1alpha1.ConditionHibernated)).To(BeTrue())
		pods := &corev1.PodList{}
		g.Expect(kube.List(context.Background(), pods, client.InNamespace(c.namespace))).To(Succeed())
		g.Expect(pods.Items).To(BeEmpty())
	}).Should(Succeed())
	c.patch(func(e *v1alpha1.Etcd) { e.Spec.Replicas = n })
	c.ready()
}

// With each policy, deleted pods (even all at once), rollouts and hibernation keep the claims and the data; the deletion of
// the Etcd follows the policy.
func TestClaimRetention(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]v1alpha1.VolumeRetention{"retained": v1alpha1.VolumesRetained, "deleted": v1alpha1.VolumesDeleted} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 3)
			c.patch(retain(policy, v1alpha1.VolumesRetained))
			c.policyInForce(3, policy == v1alpha1.VolumesDeleted)
			claims := c.claims(c, 3)

			c.deleteAndWait(1, isReady)
			c.ready()
			c.change("1")
			c.untilSucceeded()
			c.ready()
			c.Expect(kube.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(c.namespace))).To(Succeed())
			c.servesAgain()
			c.ready()
			c.writesSurvive()

			c.startWriter()
			c.hibernateAndWakeUp(3)
			c.Expect(c.claims(c, 3)).To(Equal(claims))
			c.writesSurvive()

			c.deleteEtcd(metav1.DeletePropagationBackground)
			if policy == v1alpha1.VolumesDeleted {
				c.claimsGone(3)
				return
			}
			c.Expect(c.claims(c, 3)).To(Equal(claims))
		})
	}
}

func isReady(pod *corev1.Pod) bool {
	return len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].Ready
}

// An Etcd is deleted, its claims stay, one of them is lost, and the Etcd is created again: with another UID, which is the token of a
// cluster that it would begin. It continues with its data, and at no time does any of its members serve as another cluster.
func TestCreatedAgainBesideItsClaims(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	before, claims := c.etcd(c), c.claims(c, 3)
	c.writer.Stop()
	c.deleteEtcd(metav1.DeletePropagationBackground)
	c.Expect(c.claims(c, 3)).To(Equal(claims))
	c.Expect(kube.Delete(t.Context(), c.claim(c, 2))).To(Succeed())
	c.Eventually(func() bool {
		return apierrors.IsNotFound(kube.Get(context.Background(), types.NamespacedName{Namespace: c.namespace, Name: claimName(2)}, &corev1.PersistentVolumeClaim{}))
	}).Should(BeTrue())

	served := c.clustersServed()
	c.create(c.newEtcd(3))
	c.ready()
	c.untilVoters(3)
	c.Expect(served()).To(HaveExactElements(before.Status.ClusterID))
	c.Expect(c.etcd(c).UID).NotTo(Equal(before.UID))
	c.Expect(c.etcd(c).Status.ClusterID).To(Equal(before.Status.ClusterID))
	after := c.claims(c, 3)
	c.Expect(after[:2]).To(Equal(claims[:2]))
	c.Expect(after[2]).NotTo(Equal(claims[2]))
	c.writesSurvive()
}

// clustersServed asks the members from now on, and returns a function that returns the IDs of the clusters, in hex, as which they answered.
func (c *cluster) clustersServed() func() []string {
	ids, done := sets.New[string](), make(chan struct{})
	ctx, cancel := context.WithCancel(c.t.Context())
	go func() {
		defer close(done)
		wait.UntilWithContext(ctx, func(ctx context.Context) { ids.Insert(c.clusterIDs(ctx)...) }, 50*time.Millisecond)
	}()
	stop := func() { cancel(); <-done }
	c.t.Cleanup(stop)
	return func() []string { stop(); return sets.List(ids) }
}

// clusterIDs returns the IDs of the clusters, in hex, as which members answer. Those that do not answer are left out.
func (c *cluster) clusterIDs(ctx context.Context) (ids []string) {
	pods := &corev1.PodList{}
	if kube.List(ctx, pods, client.InNamespace(c.namespace)) != nil {
		return nil
	}
	for _, pod := range pods.Items {
		if pod.Status.PodIP == "" {
			continue
		}
		m, err := etcdclient.NewDialer().Dial(fmt.Sprintf("http://%s:2379", pod.Status.PodIP), nil)
		if err != nil {
			continue
		}
		asked, cancel := context.WithTimeout(ctx, time.Second)
		if status, err := m.Status(asked); err == nil {
			ids = append(ids, strconv.FormatUint(status.ClusterID, 16))
		}
		cancel()
		_ = m.Close()
	}
	return ids
}

// Non-cascading deletion of an Etcd keeps everything, whatever the policy.
func TestNonCascadingDeletionKeepsTheClaims(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.patch(retain(v1alpha1.VolumesDeleted, v1alpha1.VolumesRetained))
	c.policyInForce(1, true)
	claims, pods := c.claims(c, 1), c.uids(c, 1)
	c.deleteEtcd(metav1.DeletePropagationOrphan)
	c.Expect(c.claims(c, 1)).To(Equal(claims))
	c.Expect(c.uids(c, 1)).To(Equal(pods))
	c.writesSurvive()
}

// The policy at the time of the deletion counts, in both directions.
func TestPolicyChangedInBetween(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.patch(retain(v1alpha1.VolumesDeleted, v1alpha1.VolumesRetained))
	c.policyInForce(1, true)
	c.patch(retain(v1alpha1.VolumesRetained, v1alpha1.VolumesRetained))
	c.policyInForce(1, false)
	claims := c.claims(c, 1)
	c.deleteEtcd(metav1.DeletePropagationBackground)
	c.Expect(c.claims(c, 1)).To(Equal(claims))
}

// A pre-provisioned claim is used, and treated like any other once it is labeled as the Etcd's.
func TestPreProvisionedClaim(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t)
	c.create(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: claimName(0), Labels: claimLabels()},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}},
		},
	})
	claims := c.claims(c, 1)
	etcd := c.newEtcd(1)
	retain(v1alpha1.VolumesDeleted, v1alpha1.VolumesRetained)(etcd)
	c.create(etcd)
	c.ready()
	c.Expect(c.claims(c, 1)).To(Equal(claims))
	c.policyInForce(1, true)
	c.deleteEtcd(metav1.DeletePropagationForeground)
	c.claimsGone(1)
}

// Hibernation loses no data: without a store for a final snapshot the cluster is kept running and serving.
func TestHibernationUnderDeleteIsRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	claims, pods := c.claims(c, 1), c.uids(c, 1)
	c.patch(retain(v1alpha1.VolumesRetained, v1alpha1.VolumesDeleted))
	c.patch(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 })
	c.Eventually(func(g Gomega) {
		held := c.etcd(g).Status.Conditions.Find(v1alpha1.ConditionHibernated)
		g.Expect(held).NotTo(BeNil())
		g.Expect(held.Reason).To(Equal(v1alpha1.ReasonNoFinalSnapshot))
		g.Expect(c.etcd(g).Status.ObservedGeneration).To(Equal(c.etcd(g).Generation))
	}).Should(Succeed())
	c.Expect(c.uids(c, 1)).To(Equal(pods))
	c.writesSurvive()
	c.patch(retain(v1alpha1.VolumesRetained, v1alpha1.VolumesRetained))
	c.hibernateAndWakeUp(1)
	c.Expect(c.claims(c, 1)).To(Equal(claims))
}

// The volumes of a serving cluster grow: no pod is deleted, and no write is delayed.
func TestVolumesGrow(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.patch(retain(v1alpha1.VolumesDeleted, v1alpha1.VolumesRetained))
	c.policyInForce(3, true)
	claims, pods, set := c.claims(c, 3), c.uids(c, 3), c.statefulSet(c).UID
	from := time.Now()
	c.patch(func(e *v1alpha1.Etcd) { e.Spec.StorageCapacity = ptr.To(resource.MustParse("2Gi")) })
	c.Eventually(func(g Gomega) {
		grown := c.etcd(g).Status.Conditions.Find(v1alpha1.ConditionVolumesGrown)
		g.Expect(grown).NotTo(BeNil())
		g.Expect(grown.Status).To(Equal(metav1.ConditionTrue), grown.Message)
		g.Expect(grown.Message).To(ContainSubstring("2Gi"))
		for i := range 3 {
			g.Expect(c.claim(g, i).Status.Capacity.Storage().String()).To(Equal("2Gi"))
		}
	}).Should(Succeed())
	c.Expect(c.statefulSet(c).UID).NotTo(Equal(set), "the StatefulSet was replaced, with a new claim template")
	c.policyInForce(3, true)
	c.ready()
	c.Expect(c.uids(c, 3)).To(Equal(pods))
	c.Expect(c.claims(c, 3)).To(Equal(claims))
	c.Expect(c.rollouts(c)).To(BeEmpty())
	report := c.writesSurvive()
	c.Expect(report.Between(from, time.Now()).LeaderChanges).To(BeZero())

	// A rollout under the new StatefulSet works as before.
	c.change("1")
	c.untilSucceeded()
	c.ready()
	c.Expect(c.claims(c, 3)).To(Equal(claims))
}

// anotherClass makes a StorageClass like the default one, for as long as the test runs.
func (c *cluster) anotherClass() string {
	c.t.Helper()
	class := &storagev1.StorageClass{}
	c.Expect(kube.Get(c.t.Context(), types.NamespacedName{Name: "local"}, class)).To(Succeed())
	class.ObjectMeta = metav1.ObjectMeta{GenerateName: "e2e-"}
	c.create(class)
	c.t.Cleanup(func() { _ = kube.Delete(context.Background(), class) })
	return class.Name
}

// Volumes move to another StorageClass: every member comes back under its name on a volume of that class, the cluster is the same, and
// nothing is left of the member that stood in.
func TestVolumesMoveToAnotherStorageClass(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 1} {
		t.Run(fmt.Sprintf("%d members", n), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, n)
			id, claims, class := c.etcd(c).Status.ClusterID, c.claims(c, n), c.anotherClass()
			from := time.Now()
			c.patch(func(e *v1alpha1.Etcd) { e.Spec.StorageClass = &class })
			c.Eventually(func(g Gomega) {
				etcd := c.etcd(g)
				g.Expect(etcd.Status.ObservedGeneration).To(Equal(etcd.Generation))
				g.Expect(etcd.Status.Conditions.Find(v1alpha1.ConditionVolumesMoved)).To(BeNil())
				for i := range n {
					g.Expect(c.claim(g, i).Spec.StorageClassName).To(HaveValue(Equal(class)))
				}
				further := types.NamespacedName{Namespace: c.namespace, Name: claimName(n)}
				g.Expect(apierrors.IsNotFound(kube.Get(t.Context(), further, &corev1.PersistentVolumeClaim{}))).To(BeTrue())
			}).WithTimeout(3 * patience).Should(Succeed())
			moved := time.Now()
			c.untilVoters(n)
			c.ready()
			for i, uid := range c.claims(c, n) {
				c.Expect(uid).NotTo(Equal(claims[i]))
			}
			c.Expect(c.etcd(c).Status.ClusterID).To(Equal(id))
			c.Expect(*c.statefulSet(c).Spec.Replicas).To(Equal(int32(n)))
			c.Expect(c.rollouts(c)).To(BeEmpty())
			report := c.writesSurvive()
			t.Logf("%d members moved in %s, longest gap %s", n, moved.Sub(from), report.Between(from, moved).LongestGap)
		})
	}
}
