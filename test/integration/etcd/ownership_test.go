// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	composed "github.com/etcd-foreman/etcd-foreman/internal/operator"
	"github.com/etcd-foreman/etcd-foreman/test/composition"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// withBackups enables backups, which adds the snapshot leases.
func withBackups(e *v1alpha1.Etcd) {
	e.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "backups"}}
}

// foreign creates a foreign object in the namespace of the Etcd.
func (w *world) foreign(object client.Object) client.Object {
	w.T.Helper()
	object.SetNamespace(w.Namespace)
	w.Expect(testEnv.Client.Create(w.T.Context(), object)).To(Succeed())
	return object
}

// essentials returns the part of an object that its owner controls. Others may write its status.
func essentials(g Gomega, object client.Object) map[string]any {
	data, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	g.Expect(err).NotTo(HaveOccurred())
	delete(data, "status")
	metadata := data["metadata"].(map[string]any)
	delete(metadata, "resourceVersion")
	delete(metadata, "managedFields")
	return data
}

// untouched expects that an object was not written, and that no other object of the Etcd was created.
func (w *world) untouched(g Gomega, object client.Object) {
	now := object.DeepCopyObject().(client.Object)
	g.Expect(testEnv.Client.Get(context.Background(), client.ObjectKeyFromObject(object), now)).To(Succeed())
	g.Expect(essentials(g, now)).To(Equal(essentials(g, object)))
	for _, f := range now.GetManagedFields() {
		g.Expect(f.Manager).NotTo(HavePrefix("etcd-foreman"), "%s", f.FieldsV1)
	}
}

// made returns the objects created for the Etcd, except for one.
func (w *world) made(g Gomega, but client.Object) (made []string) {
	for _, list := range []client.ObjectList{
		&corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &coordinationv1.LeaseList{}, &corev1.ConfigMapList{},
		&corev1.ServiceList{}, &policyv1.PodDisruptionBudgetList{}, &appsv1.StatefulSetList{}, &corev1.PersistentVolumeClaimList{}, &corev1.PodList{},
	} {
		g.Expect(testEnv.Client.List(context.Background(), list, client.InNamespace(w.Namespace), client.MatchingLabels{v1alpha1.LabelPartOf: name})).To(Succeed())
		g.Expect(meta.EachListItem(list, func(o runtime.Object) error {
			object := o.(client.Object)
			if but == nil || object.GetUID() != but.GetUID() {
				made = append(made, fmt.Sprintf("%T %s", object, object.GetName()))
			}
			return nil
		})).To(Succeed())
	}
	return made
}

// obstructed waits until the status reports a foreign object, and what it says about its owner.
func (w *world) obstructed(reason string, says ...string) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		c := w.condition(g, v1alpha1.ConditionObjectsOwned)
		g.Expect(c.Status).To(Equal(metav1.ConditionFalse))
		g.Expect(c.Reason).To(Equal(reason), c.Message)
		for _, s := range says {
			g.Expect(c.Message).To(ContainSubstring(s))
		}
		g.Expect(w.Etcd.Status.LastErrors).To(HaveLen(1))
		g.Expect(w.Etcd.Status.LastErrors[0].Code).To(Equal(v1alpha1.ErrForeignObject))
		g.Expect(w.Etcd.Status.ObservedGeneration).To(BeNumerically("<", w.Etcd.Generation), "the spec is not carried out")
	}).Should(Succeed())
}

// warnings returns the events about foreign objects.
func (w *world) warnings(g Gomega) (notes []string) {
	list := &eventsv1.EventList{}
	g.Expect(testEnv.Client.List(context.Background(), list, client.InNamespace(w.Namespace))).To(Succeed())
	for _, e := range list.Items {
		if e.Regarding.Kind == v1alpha1.KindEtcd && e.Action == "ApplyObjects" && e.Type == corev1.EventTypeWarning {
			notes = append(notes, e.Note)
		}
	}
	return notes
}

// The operator does not touch a foreign object with a name of the Etcd, creates no other object of the Etcd, and reports
// the object's owner. When the Etcd is deleted, the object stays.
func TestForeignObjects(t *testing.T) {
	t.Parallel()
	for what := range env.Foreigners(name) {
		t.Run(strings.ReplaceAll(what, " ", "-"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1, withBackups)
			object := w.foreign(env.Foreigners(name)[what])
			w.start()
			kind := what[strings.LastIndex(what, " ")+1:]
			reason, whose := v1alpha1.ReasonNoController, "has no controller"
			if kind == "PersistentVolumeClaim" {
				reason, whose = v1alpha1.ReasonClaimNotOwned, v1alpha1.AnnotationAdoptedBy+"="+string(w.Etcd.UID)
			}
			w.obstructed(reason, fmt.Sprintf("%s %s/%s", kind, w.Namespace, object.GetName()), whose)
			w.Change(annotate("test/reconcile", "again"))
			w.Consistently(func(g Gomega) {
				w.untouched(g, object)
				g.Expect(w.made(g, object)).To(BeEmpty())
			}).WithTimeout(time.Second).Should(Succeed())
			w.Eventually(w.warnings).Should(ConsistOf(ContainSubstring(object.GetName())))

			w.Expect(testEnv.Client.Delete(t.Context(), w.Etcd)).To(Succeed())
			w.Eventually(func(g Gomega) {
				g.Expect(apierrors.IsNotFound(testEnv.Client.Get(context.Background(), w.Key(name), &v1alpha1.Etcd{}))).To(BeTrue())
			}).Should(Succeed())
			// The garbage collector removes the objects of a deleted Etcd.
			w.goesWith(w.Etcd)
			w.untouched(w, object)
		})
	}
}

// goesWith waits until the garbage collector has removed a ConfigMap owned by a deleted Etcd.
func (w *world) goesWith(etcd *v1alpha1.Etcd) {
	w.T.Helper()
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "probe", OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd, Name: etcd.Name, UID: etcd.UID}},
	}}
	w.foreign(probe)
	w.Eventually(func(g Gomega) {
		g.Expect(apierrors.IsNotFound(testEnv.Client.Get(context.Background(), client.ObjectKeyFromObject(probe), probe))).To(BeTrue())
	}).Should(Succeed())
}

// A StatefulSet of another operator for the same Etcds is not touched: its update strategy is not changed, and no task
// holds it. Once adopted, it belongs to the Etcd.
func TestObjectsOfAnotherOperator(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	set := env.Foreigners(name)["StatefulSet"].(*appsv1.StatefulSet)
	set.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByDruid, v1alpha1.LabelPartOf: name}
	set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(w.Etcd, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))}
	set.Spec.Replicas = ptr.To[int32](1)
	w.foreign(set)
	w.recreate()
	w.start()
	w.obstructed(v1alpha1.ReasonManagedByAnother, "StatefulSet "+w.Namespace+"/"+name, "managed by etcd-druid")
	w.Consistently(func(g Gomega) {
		w.untouched(g, set)
		g.Expect(w.made(g, set)).To(BeEmpty())
	}).WithTimeout(time.Second).Should(Succeed())

	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationAdoptedBy, w.Etcd.UID)
	w.Expect(testEnv.Client.Patch(t.Context(), set, client.RawPatch(types.MergePatchType, patch))).To(Succeed())
	w.Eventually(w.strategy).Should(Satisfy(onDelete))
	w.Eventually(func(g Gomega) { g.Expect(w.StatefulSet(g).Spec.Replicas).To(HaveValue(BeZero())) }).Should(Succeed(), "a task holds the StatefulSet")
}

// recreate creates a task that stops the members.
func (w *world) recreate() *v1alpha1.EtcdOperatorTask {
	w.T.Helper()
	task := w.CreateTask("recreate", v1alpha1.RecreateRollout, "")
	task.Status.State = v1alpha1.TaskStateInProgress
	task.Status.Rollout = &v1alpha1.RolloutStatus{Phase: v1alpha1.RecreateNeedsDeletion}
	w.Expect(testEnv.Client.Status().Update(w.T.Context(), task)).To(Succeed())
	return task
}

// replace replaces an object of the Etcd with a foreign one and returns both.
func (w *world) replace(what string) (own, others client.Object) {
	w.T.Helper()
	own = env.Foreigners(name)[what]
	w.Get(w, own.GetName(), own)
	w.Eventually(func(g Gomega) {
		// A running operator may recreate its own object first.
		others = env.Foreigners(name)[what]
		others.SetNamespace(w.Namespace)
		g.Expect(client.IgnoreNotFound(testEnv.Client.Delete(w.T.Context(), own))).To(Succeed())
		g.Expect(testEnv.Client.Create(w.T.Context(), others)).To(Succeed())
	}).Should(Succeed())
	return own, others
}

// A task stops the members only while they could be started again, and they are not started while an object is foreign.
func TestHoldWhileAnObjectIsForeign(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	o := w.start()
	w.eventuallyWell()
	_, others := w.replace("ServiceAccount")
	w.obstructedAfter("ServiceAccount")
	task := w.recreate()
	w.nudge(o)
	w.nudge(o)
	w.Expect(w.StatefulSet(w).Spec.Replicas).To(HaveValue(Equal(int32(1))), "the members are not stopped")

	w.Expect(testEnv.Client.Delete(t.Context(), others)).To(Succeed())
	w.Eventually(func(g Gomega) { g.Expect(w.StatefulSet(g).Spec.Replicas).To(HaveValue(BeZero())) }).Should(Succeed())
	others = w.foreign(env.Foreigners(name)["ServiceAccount"])
	w.Expect(testEnv.Client.Delete(t.Context(), task)).To(Succeed())
	w.obstructedAfter("ServiceAccount")
	w.nudge(o)
	w.Expect(w.StatefulSet(w).Spec.Replicas).To(HaveValue(BeZero()), "the members are not started")
	w.untouched(w, others)
	w.Expect(testEnv.Client.Delete(t.Context(), others)).To(Succeed())
	w.eventuallyWell()
}

// obstructedAfter waits until the status of a formerly healthy Etcd reports a foreign object.
func (w *world) obstructedAfter(kind string) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		c := w.condition(g, v1alpha1.ConditionObjectsOwned)
		g.Expect(c.Status).To(Equal(metav1.ConditionFalse))
		g.Expect(c.Message).To(ContainSubstring(kind + " " + w.Namespace + "/"))
	}).Should(Succeed())
}

// reader is a client that returns altered versions of some objects.
type reader struct {
	client.Client
	sees func(object client.Object) (seen client.Object, differently bool)
}

func (r reader) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	into.SetName(key.Name)
	seen, differently := r.sees(into)
	switch {
	case !differently:
		return r.Client.Get(ctx, key, into, options...)
	case seen == nil:
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(seen.DeepCopyObject()).Elem())
	return nil
}

// seeing returns, for a number of reads, an earlier version of an object.
func seeing(old client.Object, as client.Object, times int) func(client.Object) (client.Object, bool) {
	var mu sync.Mutex
	return func(object client.Object) (client.Object, bool) {
		mu.Lock()
		defer mu.Unlock()
		if reflect.TypeOf(object) != reflect.TypeOf(old) || object.GetName() != old.GetName() || times == 0 {
			return nil, false
		}
		times--
		return as, true
	}
}

// The cache still shows the Etcd's own Service; the live one is foreign.
func TestForeignObjectBehindAStaleCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	first := w.start()
	w.eventuallyWell()
	first.stop()
	own, others := w.replace("client Service")
	w.Change(func(e *v1alpha1.Etcd) {
		e.Spec.Etcd.ClientService = &v1alpha1.ClientService{Annotations: map[string]string{"a": "b"}}
	})
	w.start(reading(func(cache client.Client) client.Client { return reader{cache, seeing(own, own, -1)} }))
	w.obstructed(v1alpha1.ReasonNoController, "Service "+w.Namespace+"/"+own.GetName())
	w.untouched(w, others)
}

// The ServiceAccount did not exist, or was the Etcd's own, when it was read; when it is written, it is foreign.
func TestForeignObjectAppears(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		there bool
	}{{"where none existed", false}, {"replacing the Etcd's own", true}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			if tc.there {
				first := w.start()
				w.eventuallyWell()
				first.stop()
			}
			var seen, others client.Object
			if tc.there {
				seen, others = w.replace("ServiceAccount")
				w.Change(annotate(v1alpha1.AnnotationOperation, v1alpha1.OperationReconcile))
			} else {
				others = w.foreign(env.Foreigners(name)["ServiceAccount"])
			}
			if tc.there {
				// The former ServiceAccount differs from what would be applied.
				without := seen.DeepCopyObject().(client.Object)
				without.SetAnnotations(nil)
				// The former ServiceAccount was applied, not only created.
				without.SetManagedFields(nil)
				seen = without
			}
			w.start(composition.Depending(func(d *composed.Dependencies) { d.Live = reader{testEnv.Client, seeing(others, seen, 1)} }))
			w.obstructedAfter("ServiceAccount")
			w.untouched(w, others)
			if !tc.there {
				w.Expect(w.made(w, nil)).To(BeEmpty(), "the ServiceAccount is created first")
			}
		})
	}
}

// A user removes the owner reference of an object: the status says how to restore it, and the operator writes nothing until then.
func TestOwnerReferenceIsRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.start()
	w.eventuallyWell()
	budget := &policyv1.PodDisruptionBudget{}
	w.Get(w, name, budget)
	reference := budget.OwnerReferences
	w.Expect(testEnv.Client.Patch(t.Context(), budget, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null},"spec":{"minAvailable":0}}`)))).To(Succeed())
	started := time.Now()
	w.obstructedAfter("PodDisruptionBudget")
	w.Expect(time.Since(started)).To(BeNumerically("<", machine.Scaled(10*time.Second)), "an event triggers the reconcile")
	message := w.condition(w, v1alpha1.ConditionObjectsOwned).Message
	w.Expect(message).To(ContainSubstring("put it back: kubectl -n %s patch poddisruptionbudget %s -p '", w.Namespace, name))
	w.Get(w, name, budget)
	w.Expect(budget.Spec.MinAvailable.IntValue()).To(BeZero(), "the object is not written")

	_, patch, _ := strings.Cut(message, " -p '")
	patch, _, _ = strings.Cut(patch, "'")
	w.Expect(testEnv.Client.Patch(t.Context(), budget, client.RawPatch(types.StrategicMergePatchType, []byte(patch)))).To(Succeed())
	w.Eventually(func(g Gomega) {
		w.Get(g, name, budget)
		g.Expect(budget.OwnerReferences).To(Equal(reference))
		g.Expect(budget.Spec.MinAvailable.IntValue()).To(Equal(2))
		g.Expect(w.condition(g, v1alpha1.ConditionObjectsOwned).Status).To(Equal(metav1.ConditionTrue))
		g.Expect(w.Etcd.Status.LastErrors).To(BeEmpty())
	}).Should(Succeed())
	w.Eventually(w.warnings).Should(HaveLen(1))
}

// A foreign StatefulSet or ConfigMap replaces that of a serving cluster: the status reports it, and the operator does not
// write member instructions into it.
func TestForeignObjectInACluster(t *testing.T) {
	t.Parallel()
	for what, suspended := range map[string]bool{"StatefulSet": false, "ConfigMap": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			first := w.start()
			w.eventuallyWell()
			first.stop()
			_, others := w.replace(what)
			if suspended {
				// It is reported even while the spec is suspended.
				w.Change(annotate(v1alpha1.AnnotationSuspendSpecReconcile, ""))
			}
			w.start()
			w.obstructedAfter(what)
			w.Consistently(func(g Gomega) { w.untouched(g, others) }).WithTimeout(time.Second).Should(Succeed())
			w.Expect(w.Status(w).ClusterID).To(Equal("1"))
		})
	}
}

// An Etcd is deleted and created again: the objects of the earlier one block it until the garbage collector has removed
// them; the retained claims are used.
func TestEtcdIsCreatedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.start()
	w.eventuallyWell()
	w.bind(1)
	claim, set, id := w.claim(w, 0), w.StatefulSet(w), w.Etcd.Status.ClusterID
	w.Expect(testEnv.Client.Delete(t.Context(), w.Etcd)).To(Succeed())
	again := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}, Spec: w.Etcd.Spec}
	w.Eventually(func() error { return testEnv.Client.Create(t.Context(), again) }).Should(Succeed())
	w.Eventually(func(g Gomega) {
		g.Expect(w.StatefulSet(g).UID).NotTo(Equal(set.UID))
		g.Expect(metav1.IsControlledBy(w.StatefulSet(g), again)).To(BeTrue())
	}).Should(Succeed())
	w.looked(1, func(string) member.Survey {
		s := surveyed(id, 0)
		s.Voters = []string{"0"}
		return s
	})
	w.eventuallyWell()
	w.Expect(w.Etcd.Status.ClusterID).To(Equal(id))
	w.Expect(w.claim(w, 0).UID).To(Equal(claim.UID))
	w.Expect(w.condition(w, v1alpha1.ConditionObjectsOwned).Status).To(Equal(metav1.ConditionTrue))
	for _, note := range w.warnings(w) {
		w.Expect(note).To(ContainSubstring("an earlier Etcd of this name"))
	}
}

// While the same foreign object blocks the Etcd, the operator writes nothing, not even a status, and rarely reads from the
// API server.
func TestObstructionThatLasts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.foreign(env.Foreigners(name)["ServiceAccount"])
	o := w.start()
	w.obstructed(v1alpha1.ReasonNoController)
	w.Eventually(w.warnings).Should(HaveLen(1))
	w.writesNothing(o)
	o.requests.takeReads()
	began := time.Now()
	for range 5 {
		w.nudge(o)
	}
	reads := slices.DeleteFunc(o.requests.takeReads(), func(path string) bool { return !strings.Contains(path, "/serviceaccounts/") })
	w.Expect(len(reads)).To(BeNumerically("<=", 1+int(time.Since(began)/apply.RecheckForeign)))
	w.Expect(o.requests.take()).To(BeEmpty())
	w.Expect(w.warnings(w)).To(HaveLen(1))
}
