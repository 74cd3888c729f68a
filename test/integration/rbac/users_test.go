// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"fmt"
	"slices"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	safeTypes      = []v1alpha1.TaskType{v1alpha1.QuorumAwareRollout, v1alpha1.OnDemandSnapshot, v1alpha1.OnDemandCompaction, v1alpha1.OnDemandMaintenance}
	dangerousTypes = []v1alpha1.TaskType{v1alpha1.CopyBackups, v1alpha1.QuorumLossRecovery, v1alpha1.RecreateRollout, v1alpha1.Restore}
)

// world is a namespace with users, who have certificates and are bound to the roles that are shipped.
type world struct{ *env.Cluster }

func newWorld(t *testing.T) *world { return &world{testEnv.NewCluster(t, "main")} }

// user is a client of a user with some ClusterRoles in the namespace.
func (w *world) user(name string, roles ...string) client.Client {
	w.T.Helper()
	name += "-of-" + w.Namespace
	for _, role := range roles {
		w.Create(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name + "-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
		})
	}
	config, err := testEnv.AsUser(name)
	w.Expect(err).NotTo(HaveOccurred())
	c, err := client.New(config, client.Options{Scheme: testEnv.Scheme})
	w.Expect(err).NotTo(HaveOccurred())
	w.Eventually(func() error {
		return c.List(w.T.Context(), &v1alpha1.EtcdOperatorTaskList{}, client.InNamespace(w.Namespace))
	}).Should(Succeed())
	return c
}

func (w *world) task(taskType v1alpha1.TaskType, change ...func(*v1alpha1.EtcdOperatorTaskSpec)) *v1alpha1.EtcdOperatorTask {
	task := w.NewTask("", taskType, "")
	task.GenerateName = "task-"
	for _, c := range change {
		c(&task.Spec)
	}
	return task
}

func overriding(s *v1alpha1.EtcdOperatorTaskSpec) {
	s.OverrideGuards = []v1alpha1.OverridableGuard{v1alpha1.OverridableGuard(v1alpha1.GuardUnreadyConfirmed)}
}

func suspended(s *v1alpha1.EtcdOperatorTaskSpec) { s.Suspend = true }

// forbidden expects that it takes a verb that the user does not have.
func (w *world) forbidden(err error, verb string, what ...any) {
	w.T.Helper()
	w.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v: %v", fmt.Sprint(what...), err)
	w.Expect(err).To(MatchError(ContainSubstring("%q", verb)), fmt.Sprint(what...))
}

func TestWhoMayRunWhichTasks(t *testing.T) {
	w := newWorld(t)
	viewer := w.user("viewer", "etcd-foreman-view")
	operate := w.user("operate", "etcd-foreman-operate")
	dangerous := w.user("dangerous", "etcd-foreman-operate", "etcd-foreman-dangerous")
	w.Eventually(func() error { return dangerous.Create(t.Context(), w.task(v1alpha1.CopyBackups), client.DryRunAll) }).Should(Succeed(), "its second role is in force")

	for _, taskType := range append(safeTypes, dangerousTypes...) {
		w.Expect(apierrors.IsForbidden(viewer.Create(t.Context(), w.task(taskType)))).To(BeTrue(), "a viewer, %s", taskType)
		w.Expect(dangerous.Create(t.Context(), w.task(taskType))).To(Succeed(), "%s", taskType)
		w.Expect(testEnv.Client.Create(t.Context(), w.task(taskType))).To(Succeed(), "an administrator has every verb")
	}
	for _, taskType := range safeTypes {
		w.Expect(operate.Create(t.Context(), w.task(taskType))).To(Succeed(), "%s", taskType)
	}
	for _, taskType := range dangerousTypes {
		w.forbidden(operate.Create(t.Context(), w.task(taskType)), "create:"+string(taskType), taskType)
	}
	w.forbidden(operate.Create(t.Context(), w.task(v1alpha1.QuorumAwareRollout, overriding)), "override-guards")
	w.Expect(dangerous.Create(t.Context(), w.task(v1alpha1.QuorumAwareRollout, overriding))).To(Succeed())

	elsewhere := w.task(v1alpha1.OnDemandSnapshot)
	elsewhere.Namespace = metav1.NamespaceDefault
	w.Expect(apierrors.IsForbidden(dangerous.Create(t.Context(), elsewhere))).To(BeTrue(), "in another namespace")
}

// People paste commands with the name of a task's Etcd into a shell.
func TestATaskNamesAnEtcd(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"$(evil)", "main; evil", "Main", "`evil`", "-n", "main\n"} {
		task := w.task(v1alpha1.OnDemandSnapshot, func(s *v1alpha1.EtcdOperatorTaskSpec) { s.OwnerEtcdReference.Name = name })
		w.Expect(apierrors.IsInvalid(testEnv.Client.Create(t.Context(), task))).To(BeTrue(), "%q", name)
	}
	w.Expect(testEnv.Client.Create(t.Context(), w.task(v1alpha1.OnDemandSnapshot, func(s *v1alpha1.EtcdOperatorTaskSpec) { s.OwnerEtcdReference.Name = "a.b-1" }))).To(Succeed())
}

// What may not be created may not be had by changing something else either.
func TestWhoMayChangeTasks(t *testing.T) {
	w := newWorld(t)
	operate := w.user("operate", "etcd-foreman-operate")
	dangerous := w.user("dangerous", "etcd-foreman-operate", "etcd-foreman-dangerous")
	w.Eventually(func() error { return dangerous.Create(t.Context(), w.task(v1alpha1.CopyBackups), client.DryRunAll) }).Should(Succeed())
	change := func(by client.Client, task *v1alpha1.EtcdOperatorTask, to func(*v1alpha1.EtcdOperatorTaskSpec)) error {
		fresh := &v1alpha1.EtcdOperatorTask{}
		w.Expect(by.Get(t.Context(), client.ObjectKeyFromObject(task), fresh)).To(Succeed())
		before := client.MergeFrom(fresh.DeepCopy())
		to(&fresh.Spec)
		return by.Patch(t.Context(), fresh, before)
	}
	resumed := func(s *v1alpha1.EtcdOperatorTaskSpec) { s.Suspend = false }

	rollout := w.task(v1alpha1.QuorumAwareRollout)
	w.Expect(operate.Create(t.Context(), rollout)).To(Succeed())
	w.forbidden(change(operate, rollout, overriding), "override-guards", "adding an override")
	w.Expect(change(operate, rollout, suspended)).To(Succeed())
	w.Expect(change(operate, rollout, resumed)).To(Succeed())
	w.Expect(change(dangerous, rollout, overriding)).To(Succeed())
	w.Expect(change(operate, rollout, suspended)).To(Succeed(), "an override of somebody else is no obstacle to a pause")
	w.forbidden(change(operate, rollout, resumed), "override-guards", "resuming with an override")
	w.Expect(change(operate, rollout, func(s *v1alpha1.EtcdOperatorTaskSpec) { s.OverrideGuards = nil })).To(Succeed(), "removing one")
	w.Expect(change(operate, rollout, resumed)).To(Succeed())

	recovery := w.task(v1alpha1.QuorumLossRecovery, suspended)
	w.Expect(dangerous.Create(t.Context(), recovery)).To(Succeed())
	w.forbidden(change(operate, recovery, resumed), "create:QuorumLossRecovery", "resuming")
	w.Expect(change(dangerous, recovery, resumed)).To(Succeed())
	w.Expect(change(operate, recovery, suspended)).To(Succeed(), "to suspend is no danger")
}

// With a task that has replaced data goes what the members had before: who may not create it may neither delete it, nor have the operator do
// so earlier, nor the garbage collector, which deletes what has only owners that are gone.
func TestWhoMayDeleteTasks(t *testing.T) {
	w := newWorld(t)
	operate := w.user("operate", "etcd-foreman-operate")
	dangerous := w.user("dangerous", "etcd-foreman-operate", "etcd-foreman-dangerous")
	w.Eventually(func() error { return dangerous.Create(t.Context(), w.task(v1alpha1.CopyBackups), client.DryRunAll) }).Should(Succeed())
	created := func(taskType v1alpha1.TaskType) *v1alpha1.EtcdOperatorTask {
		task := w.task(taskType, suspended)
		w.Expect(dangerous.Create(t.Context(), task)).To(Succeed())
		return task
	}
	operator := as(w, testEnv.AsOperator())
	for _, taskType := range append(safeTypes, dangerousTypes...) {
		task := created(taskType)
		ttl := func(by client.Client, seconds *int32) error {
			before := client.MergeFrom(task.DeepCopy())
			changed := task.DeepCopy()
			changed.Spec.TTLSecondsAfterFinished = seconds
			return by.Patch(t.Context(), changed, before, client.DryRunAll)
		}
		w.Expect(ttl(operate, ptr.To(*task.Spec.TTLSecondsAfterFinished+1))).To(Succeed(), "%s is kept for longer", taskType)
		w.Expect(ttl(dangerous, ptr.To[int32](0))).To(Succeed(), "%s", taskType)
		owned := func(by client.Client) error {
			before := client.MergeFrom(task.DeepCopy())
			changed := task.DeepCopy()
			changed.OwnerReferences = append(changed.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: "0"})
			return by.Patch(t.Context(), changed, before, client.DryRunAll)
		}
		w.Expect(owned(dangerous)).To(Succeed(), "%s", taskType)
		w.Expect(owned(operator)).To(Succeed(), "the operator makes the Etcd an owner of a %s", taskType)
		w.Expect(owned(as(w, asKubernetes("generic-garbage-collector")))).To(Succeed(), "the garbage collector removes owners that are gone from a %s", taskType)
		if slices.Contains(dangerousTypes, taskType) {
			w.forbidden(owned(operate), "create:"+string(taskType), "having the garbage collector delete it")
			w.forbidden(operate.Delete(t.Context(), task), "create:"+string(taskType), "deleting")
			w.forbidden(operate.Delete(t.Context(), task, client.GracePeriodSeconds(0), client.PropagationPolicy(metav1.DeletePropagationOrphan)), "create:"+string(taskType), "deleting")
			w.forbidden(ttl(operate, ptr.To[int32](0)), "create:"+string(taskType), "shortening the TTL")
		} else {
			w.Expect(ttl(operate, ptr.To[int32](0))).To(Succeed(), "%s", taskType)
			w.Expect(owned(operate)).To(Succeed(), "%s", taskType)
			w.Expect(operate.Delete(t.Context(), task)).To(Succeed(), "%s", taskType)
		}
		for name, by := range map[string]client.Client{
			"the operator": operator, "the garbage collector": as(w, asKubernetes("generic-garbage-collector")), "the namespace controller": as(w, asKubernetes("namespace-controller")),
			"a user with its verb": dangerous, "an administrator": testEnv.Client,
		} {
			w.Expect(by.Delete(t.Context(), created(taskType))).To(Succeed(), "%s, %s", name, taskType)
		}
	}
}

// Only who has the verb on EtcdFleetPolicies, which are in no namespace, has a task bypass them. Another annotation, and one that was there
// before, take nothing.
func TestWhoMayBypassTheFleet(t *testing.T) {
	w := newWorld(t)
	dangerous := w.user("dangerous", "etcd-foreman-operate", "etcd-foreman-dangerous", "etcd-foreman-fleet")
	fleet := w.user("fleet", "etcd-foreman-operate")
	w.Create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet-of-" + w.Namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "etcd-foreman-fleet"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "fleet-of-" + w.Namespace}},
	})
	bypassing := func() *v1alpha1.EtcdOperatorTask {
		task := w.task(v1alpha1.QuorumAwareRollout, suspended)
		task.Annotations = map[string]string{v1alpha1.AnnotationBypassFleet: "true"}
		return task
	}
	task := bypassing()
	w.Eventually(func() error { return fleet.Create(t.Context(), bypassing(), client.DryRunAll) }).Should(Succeed())
	w.forbidden(dangerous.Create(t.Context(), bypassing()), "bypass", "creating")
	w.Expect(fleet.Create(t.Context(), task)).To(Succeed())

	patch := func(by client.Client, change func(*v1alpha1.EtcdOperatorTask)) error {
		fresh := &v1alpha1.EtcdOperatorTask{}
		w.Expect(by.Get(t.Context(), client.ObjectKeyFromObject(task), fresh)).To(Succeed())
		before := client.MergeFrom(fresh.DeepCopy())
		change(fresh)
		return by.Patch(t.Context(), fresh, before)
	}
	annotated := func(value string) func(*v1alpha1.EtcdOperatorTask) {
		return func(task *v1alpha1.EtcdOperatorTask) {
			metav1.SetMetaDataAnnotation(&task.ObjectMeta, v1alpha1.AnnotationBypassFleet, value)
		}
	}
	w.forbidden(patch(dangerous, func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Suspend = false }), "bypass", "resuming")
	w.Expect(patch(dangerous, func(task *v1alpha1.EtcdOperatorTask) { metav1.SetMetaDataAnnotation(&task.ObjectMeta, "a", "b") })).To(Succeed())
	w.Expect(patch(dangerous, annotated("false"))).To(Succeed())
	w.forbidden(patch(dangerous, annotated("true")), "bypass", "annotating")
	w.Expect(patch(fleet, annotated("true"))).To(Succeed())
}

// The operator creates tasks of those types that an Etcd asks for, and of no others.
func TestWhichTasksTheOperatorCreates(t *testing.T) {
	w := newWorld(t)
	operator, err := client.New(testEnv.AsOperator(), client.Options{Scheme: testEnv.Scheme})
	w.Expect(err).NotTo(HaveOccurred())
	for _, taskType := range safeTypes {
		w.Eventually(func() error { return operator.Create(t.Context(), w.task(taskType), client.DryRunAll) }).Should(Succeed(), "%s", taskType)
	}
	for _, taskType := range dangerousTypes {
		w.forbidden(operator.Create(t.Context(), w.task(taskType), client.DryRunAll), "create:"+string(taskType), taskType)
	}
}

// Kubernetes adds the roles to its own: a user who may view, edit or administer a namespace may do so with its Etcds and tasks.
func TestRolesAreAggregated(t *testing.T) {
	w := newWorld(t)
	viewer, editor, admin := w.user("viewer", "view"), w.user("editor", "edit"), w.user("admin", "admin")
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "main"}, Spec: v1alpha1.EtcdSpec{Replicas: 1}}
	overrides := func() *v1alpha1.EtcdOperatorTask { return w.task(v1alpha1.QuorumAwareRollout, overriding) }
	w.Eventually(func() error { return editor.Create(t.Context(), etcd.DeepCopy(), client.DryRunAll) }).Should(Succeed())
	w.Eventually(func() error { return editor.Create(t.Context(), w.task(v1alpha1.OnDemandSnapshot), client.DryRunAll) }).Should(Succeed())
	w.Eventually(func() error { return admin.Create(t.Context(), overrides(), client.DryRunAll) }).Should(Succeed())

	w.Expect(apierrors.IsForbidden(viewer.Create(t.Context(), etcd.DeepCopy()))).To(BeTrue())
	w.Expect(admin.Create(t.Context(), etcd.DeepCopy(), client.DryRunAll)).To(Succeed())
	for _, taskType := range append(safeTypes, dangerousTypes...) {
		w.Expect(apierrors.IsForbidden(viewer.Create(t.Context(), w.task(taskType)))).To(BeTrue(), "%s", taskType)
		w.Expect(admin.Create(t.Context(), w.task(taskType))).To(Succeed(), "%s", taskType)
	}
	for _, taskType := range safeTypes {
		w.Expect(editor.Create(t.Context(), w.task(taskType))).To(Succeed(), "%s", taskType)
	}
	for _, taskType := range dangerousTypes {
		w.forbidden(editor.Create(t.Context(), w.task(taskType)), "create:"+string(taskType), taskType)
	}
	w.forbidden(editor.Create(t.Context(), overrides()), "override-guards")
}

// RBAC tells the types of etcd-druid apart by their names.
func TestWhoMayUseTheTypesOfEtcdDruid(t *testing.T) {
	w := newWorld(t)
	store := v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "claim", Prefix: "a"}
	copies := &v1alpha1.EtcdCopyBackupsTask{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, GenerateName: "copy-"}, Spec: v1alpha1.EtcdCopyBackupsTaskSpec{SourceStore: store, TargetStore: store}}
	snapshot := &v1alpha1.EtcdOpsTask{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, GenerateName: "snapshot-"}, Spec: v1alpha1.EtcdOpsTaskSpec{
		Config: v1alpha1.EtcdOpsTaskConfig{OnDemandSnapshot: &v1alpha1.OnDemandSnapshotConfig{Type: "full"}},
	}}
	for name, c := range map[string]struct {
		roles          []string
		copy, snapshot bool
	}{
		"edits":     {[]string{"etcd-foreman-view", "etcd-foreman-edit", "etcd-foreman-operate"}, false, false},
		"dangerous": {[]string{"etcd-foreman-operate", "etcd-foreman-dangerous"}, false, false},
		"snapshots": {[]string{"etcd-foreman-view", "etcd-foreman-opstasks"}, false, true},
		"copies":    {[]string{"etcd-foreman-view", "etcd-foreman-copies"}, true, false},
	} {
		user := w.user(name, c.roles...)
		for object, allowed := range map[client.Object]bool{copies: c.copy, snapshot: c.snapshot} {
			create := func() error {
				return user.Create(t.Context(), object.DeepCopyObject().(client.Object), client.DryRunAll)
			}
			if allowed {
				w.Eventually(create).Should(Succeed(), "%s, %T", name, object)
			} else {
				w.Expect(apierrors.IsForbidden(create())).To(BeTrue(), "%s, %T", name, object)
			}
		}
	}
}
