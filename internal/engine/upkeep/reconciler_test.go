// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package upkeep

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What is due is created in a cluster that the operator manages, and in no other one: another operator, such as etcd-druid before an
// adoption and after the way back, does the upkeep itself.
func TestNothingIsDueInAForeignCluster(t *testing.T) {
	back := false
	for name, tc := range map[string]struct {
		change func(set *appsv1.StatefulSet)
		due    bool
	}{
		"its own": {func(set *appsv1.StatefulSet) {
			set.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
		}, true},
		"adopted": {func(set *appsv1.StatefulSet) {
			set.Annotations = map[string]string{v1alpha1.AnnotationAdoptedBy: "etcd"}
		}, true},
		"etcd-druid's": {func(*appsv1.StatefulSet) {}, false},
		"adopted, and etcd-druid is back": {func(set *appsv1.StatefulSet) {
			set.Annotations = map[string]string{v1alpha1.AnnotationAdoptedBy: "etcd"}
			back = true
		}, false},
		"of an older Etcd":  {func(set *appsv1.StatefulSet) { set.OwnerReferences[0].UID = "older" }, false},
		"without an object": {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := scheduled()
			etcd.UID = "etcd"
			begin := time.Date(2026, 7, 2, 3, 0, 0, 0, time.UTC).Add(offset(etcd, 24*time.Hour))
			objects := []client.Object{etcd}
			if tc.change != nil {
				set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
					Namespace: etcd.Namespace, Name: etcd.Name, Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByDruid},
					OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(etcd, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))},
				}}
				back = false
				if tc.change(set); back {
					etcd.Finalizers = []string{v1alpha1.FinalizerDruid}
				}
				objects = append(objects, set)
			}
			api := apitest.API(objects...)
			r := &Reconciler{Client: api, Live: api, Recorder: &events.FakeRecorder{}, Clock: clocktesting.NewFakePassiveClock(begin)}
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(etcd)})
			g.Expect(err).NotTo(HaveOccurred())
			all := &v1alpha1.EtcdOperatorTaskList{}
			g.Expect(api.List(t.Context(), all)).To(Succeed())
			if tc.due {
				g.Expect(all.Items).To(HaveLen(1))
				return
			}
			g.Expect(all.Items).To(BeEmpty())
			g.Expect(result.RequeueAfter).To(And(BeNumerically(">", 0), BeNumerically("<", latestStart)), "no turn lapses once it is adopted")
		})
	}
}

// A task for another Etcd has the name of the defragmentation that is due: the user is told, and the Etcd is defragmented, once.
func TestNameOfADueTaskIsTaken(t *testing.T) {
	g := NewWithT(t)
	etcd := scheduled()
	etcd.UID = "etcd"
	begin := time.Date(2026, 7, 2, 3, 0, 0, 0, time.UTC).Add(offset(etcd, 24*time.Hour))
	squatter := &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: etcd.Namespace, Name: "etcd-main-defragmentation-202607020300"},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.OnDemandMaintenance, OwnerEtcdReference: v1alpha1.EtcdReference{Name: "other"}},
	}
	api, says := apitest.API(etcd, squatter), make(chan string, 9)
	for range 2 {
		// Another operator goes on.
		r := &Reconciler{Client: api, Live: api, Recorder: &events.FakeRecorder{Events: says}, Clock: clocktesting.NewFakePassiveClock(begin)}
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(etcd)})
		g.Expect(err).NotTo(HaveOccurred())
		all := &v1alpha1.EtcdOperatorTaskList{}
		g.Expect(api.List(t.Context(), all)).To(Succeed())
		g.Expect(all.Items).To(ConsistOf(HaveField("Name", squatter.Name), HaveField("Name", HavePrefix(squatter.Name+"-"))))
	}
	g.Expect(says).To(Receive(ContainSubstring("TaskNameTaken")))
	g.Expect(says).To(Receive(MatchRegexp("Defragmenting Created task " + squatter.Name + "-[a-z2-7]+: ")))
	g.Expect(says).To(BeEmpty())
}
