// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"
	"testing"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/composition"
	"github.com/etcd-foreman/etcd-foreman/test/druid"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// newDruidWorld creates an Etcd and its objects as etcd-druid does, without a running etcd-druid.
func newDruidWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, 3)
	w.Members.Version = "3.5.27"
	w.druidReconciles("etcd-druid-before")
	w.Get(w, name, w.Etcd)
	w.Eventually(func(g Gomega) {
		set := w.StatefulSet(g)
		g.Expect(set.Status.ReadyReplicas).To(Equal(int32(3)))
		g.Expect(set.Status.CurrentRevision).To(Equal(set.Status.UpdateRevision))
	}).Should(Succeed())
	return w
}

// druidReconciles has an etcd-druid with a field manager reconcile the Etcd.
func (w *world) druidReconciles(manager string) {
	w.T.Helper()
	imitation := druid.Druid{Client: client.WithFieldOwner(testEnv.Client, manager), Etcd: w.Etcd, Storage: true}
	w.Expect(imitation.Reconcile(w.T.Context(), "1")).To(Succeed())
}

// adopting has an operator adopt, with images of etcd 3.6.
var adopting = composition.Configured(func(c *configv1alpha1.OperatorConfiguration) {
	c.Images.Etcd = "localhost/etcd:v3.6.16"
	c.FeatureGates[string(configv1alpha1.AdoptFromDruid)] = true
})

func (w *world) adopted(g Gomega, status metav1.ConditionStatus, reason string) string {
	c := w.condition(g, v1alpha1.ConditionAdopted)
	g.Expect(c.Reason).To(Equal(reason), "%s", c.Message)
	g.Expect(c.Status).To(Equal(status))
	return c.Message
}

// adopt adopts the Etcd, and waits for it.
func (w *world) adopt() {
	w.T.Helper()
	w.Change(annotate(v1alpha1.AnnotationOperation, v1alpha1.OperationAdopt))
	w.Eventually(func(g Gomega) {
		w.adopted(g, metav1.ConditionTrue, v1alpha1.ReasonConversionPending)
		g.Expect(w.Etcd.Annotations).NotTo(HaveKey(v1alpha1.AnnotationOperation))
		g.Expect(w.strategy()).To(Satisfy(onDelete))
	}).Should(Succeed())
}

// An Etcd of etcd-druid is left alone until it is asked for. Adopting it replaces no pod and changes no template; the first change
// converts pod by pod in one rollout; and it can be handed back.
func TestAdoptFromDruid(t *testing.T) {
	t.Parallel()
	w := newDruidWorld(t)
	pods, set := w.PodUIDs(w, 3), w.StatefulSet(w)
	o := w.startAll(adopting)
	w.Eventually(func(g Gomega) {
		g.Expect(w.condition(g, v1alpha1.ConditionObjectsOwned).Message).To(ContainSubstring("druid.gardener.cloud/operation=adopt"))
	}).Should(Succeed())
	w.untouched(w, set)

	marked := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationRolloutBy, v1alpha1.ManagedBy)
	w.Expect(testEnv.Client.Patch(t.Context(), w.StatefulSet(w), client.RawPatch(types.MergePatchType, marked))).To(Succeed(), "as after executor mode")
	w.adopt()
	w.Expect(w.Etcd.Finalizers).To(BeEmpty())
	w.nudge(o)
	now := w.StatefulSet(w)
	w.Expect(now.Spec.Template).To(Equal(set.Spec.Template), "nothing is applied")
	w.Expect(now.Spec.Selector).To(Equal(set.Spec.Selector))
	w.Expect(now.Labels).To(Equal(set.Labels))
	w.Expect(now.Annotations).To(And(HaveKeyWithValue(v1alpha1.AnnotationAdoptedBy, string(w.Etcd.UID)), HaveKeyWithValue(v1alpha1.AnnotationAdoptedVersion, "3.5.27"), Not(HaveKey(v1alpha1.AnnotationRolloutBy))))
	w.Expect(w.PodUIDs(w, 3)).To(Equal(pods))
	for _, object := range []client.Object{&corev1.ServiceAccount{}, &policyv1.PodDisruptionBudget{}} {
		w.Get(w, name, object)
		w.Expect(object.GetAnnotations()).To(HaveKey(v1alpha1.AnnotationAdoptedBy))
	}
	w.sizeStaysBeforeTheConversion(o)
	w.claimAdoptedAgain()
	role := &rbacv1.Role{}
	w.Get(w, "druid.gardener.cloud:etcd:"+name, role)
	w.Expect(role.Rules).To(HaveLen(3), "the agents of etcd-druid need it")

	w.Change(annotate(v1alpha1.AnnotationGardenerOperation, v1alpha1.OperationReconcile))
	w.Eventually(func(g Gomega) {
		w.adopted(g, metav1.ConditionTrue, v1alpha1.ReasonConverted)
		g.Expect(w.Etcd.Annotations).NotTo(HaveKey(v1alpha1.AnnotationGardenerOperation))
		g.Expect(w.Etcd.Status.ObservedGeneration).To(Equal(w.Etcd.Generation))
	}).Should(Succeed())
	w.converted(set, pods)

	w.Change(annotate(v1alpha1.AnnotationOperation, v1alpha1.OperationHandBack))
	pods = w.PodUIDs(w, 3)
	w.Eventually(func(g Gomega) {
		g.Expect(w.StatefulSet(g).Annotations).NotTo(HaveKey(v1alpha1.AnnotationAdoptedBy))
		w.Get(g, name, w.Etcd)
		g.Expect(w.Etcd.Annotations).NotTo(HaveKey(v1alpha1.AnnotationOperation))
	}).Should(Succeed())
	w.Expect(w.strategy()).To(Satisfy(rolling))
	w.nudge(o)
	w.Expect(w.strategy()).To(Satisfy(rolling), "the operator leaves it alone")
	w.Expect(w.PodUIDs(w, 3)).To(Equal(pods))
	w.Eventually(func(g Gomega) {
		g.Expect(w.condition(g, v1alpha1.ConditionObjectsOwned).Status).To(Equal(metav1.ConditionFalse))
		g.Expect(w.Etcd.Status.Conditions.IsTrue(v1alpha1.ConditionReady)).To(BeTrue(), "the members are as they were")
		g.Expect(w.Etcd.Status.Conditions.Find(v1alpha1.ConditionStalled)).To(BeNil(), "etcd-druid would not correct it")
	}).Should(Succeed())
}

// Before an adoption, and after the way back, the operator does nothing in the members: their upkeep is etcd-druid's.
func TestNoUpkeepBesideDruid(t *testing.T) {
	t.Parallel()
	w := newDruidWorld(t)
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Etcd.DefragmentationSchedule = ptr.To("0 3 * * *") })
	w.Etcd.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionAllMembersReady, Status: metav1.ConditionTrue, Reason: "AllMembersReady", LastTransitionTime: metav1.Now()})
	w.Expect(testEnv.Client.Status().Update(t.Context(), w.Etcd)).To(Succeed(), "as etcd-druid has written it")
	ahead := &shiftedClock{}
	ahead.set(time.Now().UTC().Truncate(24 * time.Hour).Add(2*24*time.Hour + 3*time.Hour + 12*time.Minute))
	o := w.startAll(adopting, at(ahead))
	w.Eventually(func(g Gomega) {
		g.Expect(w.condition(g, v1alpha1.ConditionObjectsOwned).Status).To(Equal(metav1.ConditionFalse))
	}).Should(Succeed())
	w.nudge(o)
	w.Expect(w.Tasks(w)).To(BeEmpty())
	w.CreateTask("by-hand", v1alpha1.OnDemandMaintenance, "etcdDefragmentation: true")
	w.Expect(w.UntilTask("by-hand", v1alpha1.TaskStateRejected).Status.LastErrors[0].Code).To(Equal(v1alpha1.ErrForeignObject))
}

// sizeStaysBeforeTheConversion checks that another size changes nothing while the pods are etcd-druid's, and that the status says why.
func (w *world) sizeStaysBeforeTheConversion(o *operator) {
	w.T.Helper()
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 5 })
	w.Eventually(func(g Gomega) {
		scaled := w.condition(g, v1alpha1.ConditionScaled)
		g.Expect(scaled.Reason).To(Equal(v1alpha1.ReasonScalingHeld))
		g.Expect(scaled.Message).To(ContainSubstring("has 3 replicas while spec.replicas is 5: set spec.replicas to 3, and convert the pods"))
	}).Should(Succeed())
	w.nudge(o)
	w.Expect(w.StatefulSet(w).Spec.Replicas).To(HaveValue(Equal(int32(3))))
	w.Expect(w.Tasks(w)).To(BeEmpty())
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 3 })
}

// claimAdoptedAgain checks that a claim which is as the StatefulSet controller makes it is adopted, as those of further members are.
func (w *world) claimAdoptedAgain() {
	w.T.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	w.Get(w, name+"-"+name+"-2", claim)
	before := claim.DeepCopy()
	delete(claim.Annotations, v1alpha1.AnnotationAdoptedBy)
	w.Expect(testEnv.Client.Patch(w.T.Context(), claim, client.MergeFrom(before))).To(Succeed())
	w.Eventually(func(g Gomega) {
		w.Get(g, claim.Name, claim)
		g.Expect(claim.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationAdoptedBy, string(w.Etcd.UID)))
	}).Should(Succeed())
}

// converted checks what one rollout has made of the objects of etcd-druid.
func (w *world) converted(before *appsv1.StatefulSet, pods []types.UID) {
	w.T.Helper()
	for i, uid := range w.PodUIDs(w, 3) {
		w.Expect(uid).NotTo(Equal(pods[i]))
	}
	tasks := &v1alpha1.EtcdOperatorTaskList{}
	w.Expect(testEnv.Client.List(w.T.Context(), tasks, client.InNamespace(w.Namespace))).To(Succeed())
	w.Expect(tasks.Items).To(HaveLen(1))
	w.Expect(tasks.Items[0].Status.Rollout.Pods).To(HaveLen(3))

	set := w.StatefulSet(w)
	w.Expect(set.UID).To(Equal(before.UID))
	w.Expect(set.Spec.Selector).To(Equal(before.Spec.Selector))
	pod := set.Spec.Template.Spec
	w.Expect(pod.HostAliases).To(BeEmpty())
	w.Expect(pod.ShareProcessNamespace).To(BeNil())
	w.Expect(set.Spec.Template.Annotations).NotTo(HaveKey("checksum/etcd-configmap"))
	for _, c := range pod.Containers {
		w.Expect(c.Args).NotTo(ContainElement("server"), "%s: nothing of etcd-druid's container is left", c.Name)
		for _, m := range c.VolumeMounts {
			w.Expect(m.Name).NotTo(Equal("etcd-config-file"))
		}
	}
	mounted := ""
	for _, v := range pod.Volumes {
		if v.ConfigMap != nil {
			mounted = v.ConfigMap.Name
		}
	}
	config, theirs := &corev1.ConfigMap{}, &corev1.ConfigMap{}
	w.Get(w, mounted, config)
	w.Eventually(func(g Gomega) {
		w.Get(g, mounted, config)
		g.Expect(config.Data).To(HaveKeyWithValue("cluster-id", w.Etcd.Status.ClusterID))
	}).Should(Succeed())
	w.Get(w, name+"-config", theirs)
	w.Expect(theirs.Data).To(HaveLen(1), "that of etcd-druid is left alone")
	w.Expect(theirs.Annotations).To(BeEmpty())

	service, role, account := &corev1.Service{}, &rbacv1.Role{}, &corev1.ServiceAccount{}
	w.Get(w, name+"-client", service)
	w.Expect(service.Spec.Selector).To(HaveKeyWithValue(v1alpha1.LabelManagedBy, v1alpha1.ManagedByDruid))
	w.Eventually(func(g Gomega) {
		w.Get(g, "druid.gardener.cloud:etcd:"+name, role)
		g.Expect(role.Rules).To(HaveLen(1), "once no pod of etcd-druid is left, its rights go")
	}).Should(Succeed())
	w.Get(w, name, account)
	w.Expect(account.AutomountServiceAccountToken).To(Equal(ptr.To(false)))
	w.Expect(w.Etcd.Status.Selector).To(ContainSubstring(v1alpha1.ManagedByDruid))
}

// What keeps an Etcd from being adopted is said, and nothing is written.
func TestAdoptionRefused(t *testing.T) {
	t.Parallel()
	w := newDruidWorld(t)
	w.Members.Version = "3.4.34"
	before := w.StatefulSet(w)
	w.startAll(adopting)
	w.Change(annotate(v1alpha1.AnnotationOperation, v1alpha1.OperationAdopt))
	w.Eventually(func(g Gomega) {
		g.Expect(w.adopted(g, metav1.ConditionFalse, v1alpha1.ReasonAdoptionRefused)).To(ContainSubstring("etcd-main-0 runs etcd 3.4.34"))
	}).Should(Succeed())
	w.untouched(w, before)
	w.Expect(w.Etcd.Finalizers).To(ConsistOf(v1alpha1.FinalizerDruid))
}

// An etcd-druid that comes back during the conversion sets its finalizer first: by that alone no further pod is replaced.
func TestDruidComesBackDuringTheConversion(t *testing.T) {
	t.Parallel()
	w := newDruidWorld(t)
	w.startAll(adopting)
	w.adopt()
	pods := w.PodUIDs(w, 3)
	w.Change(annotate(v1alpha1.AnnotationRollout, v1alpha1.RolloutManual))
	w.Change(annotate(v1alpha1.AnnotationGardenerOperation, v1alpha1.OperationReconcile))
	w.Eventually(func(g Gomega) { g.Expect(w.Tasks(g)).To(HaveLen(1)) }).Should(Succeed())
	w.Change(func(e *v1alpha1.Etcd) { controllerutil.AddFinalizer(e, v1alpha1.FinalizerDruid) })
	w.Eventually(func(g Gomega) { w.adopted(g, metav1.ConditionFalse, v1alpha1.ReasonDruidActive) }).Should(Succeed())

	task := w.Tasks(w)[0]
	before := task.DeepCopy()
	task.Spec.Suspend = false
	w.Expect(testEnv.Client.Patch(t.Context(), &task, client.MergeFrom(before))).To(Succeed())
	w.Eventually(func(g Gomega) {
		status := w.Task(g, task.Name).Status
		g.Expect(status.State.IsFinal()).To(BeTrue())
		g.Expect(status.LastErrors).To(ContainElement(HaveField("Code", v1alpha1.ErrForeignObject)))
	}).Should(Succeed())
	w.Expect(w.PodUIDs(w, 3)).To(Equal(pods))

	// Once it is stopped, the conversion continues.
	w.Change(annotate(v1alpha1.AnnotationRollout, ""))
	w.Change(annotate(v1alpha1.AnnotationOperation, v1alpha1.OperationAdopt))
	w.Eventually(func(g Gomega) { w.adopted(g, metav1.ConditionTrue, v1alpha1.ReasonConverted) }).Should(Succeed())
}

// An etcd-druid that reconciles an adopted Etcd is noticed, and nothing is done against it.
func TestDruidComesBack(t *testing.T) {
	t.Parallel()
	w := newDruidWorld(t)
	o := w.startAll(adopting)
	w.adopt()
	pods := w.PodUIDs(w, 3)
	w.Change(func(e *v1alpha1.Etcd) { controllerutil.AddFinalizer(e, v1alpha1.FinalizerDruid) })
	w.Eventually(func(g Gomega) {
		g.Expect(w.adopted(g, metav1.ConditionFalse, v1alpha1.ReasonDruidActive)).To(ContainSubstring("scale etcd-druid to 0"))
	}).Should(Succeed())
	w.Change(annotate(v1alpha1.AnnotationOperation, v1alpha1.OperationReconcile))
	w.druidReconciles(v1alpha1.ManagedByDruid)
	w.Eventually(func(g Gomega) {
		g.Expect(w.condition(g, v1alpha1.ConditionObjectsOwned).Message).To(ContainSubstring("managed by etcd-druid"))
	}).Should(Succeed())
	w.nudge(o)
	w.Expect(w.strategy().Type).To(Equal(appsv1.RollingUpdateStatefulSetStrategyType), "the operator does not fight it")
	w.Expect(w.StatefulSet(w).Annotations).To(BeEmpty())
	w.Expect(w.PodUIDs(w, 3)).To(Equal(pods))
}
