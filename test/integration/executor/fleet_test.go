// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/druid/view"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet/control"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"
)

// ofDruid is an Etcd as etcd-druid 0.38 writes it.
const ofDruid = `
apiVersion: druid.gardener.cloud/v1alpha1
kind: Etcd
metadata: {name: etcd-main, namespace: shoot, uid: etcd, labels: {role: main}}
spec: {replicas: 3, labels: {role: main}}
status:
  ready: true
  conditions:
  - {type: AllMembersReady, status: "True", reason: AllMembersReady, message: All members are ready, lastTransitionTime: "2026-01-01T00:00:00Z", lastUpdateTime: "2026-01-01T00:00:00Z"}
  - {type: BackupReady, status: "True", reason: BackupSucceeded, message: Snapshot backup succeeded, lastTransitionTime: "2026-01-01T00:00:00Z", lastUpdateTime: "2026-01-01T00:00:00Z"}
  - {type: Ready, status: "True", reason: Quorate, message: The majority of ETCD members is ready, lastTransitionTime: "2026-01-01T00:00:00Z", lastUpdateTime: "2026-01-01T00:00:00Z"}
  lastOperation: {type: Reconcile, state: Succeeded, runID: x, description: done, lastUpdateTime: "2026-01-01T00:00:00Z"}
  members: [{name: etcd-main-0, id: "1", role: Leader, status: Ready, reason: LeaseSucceeded, lastTransitionTime: "2026-01-01T00:00:00Z"}]
`

// executing is the client of an operator in executor mode.
type executing struct{ client.WithWatch }

func (e executing) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return view.Reader{Reader: e.WithWatch}.Get(ctx, key, object, options...)
}

func (e executing) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return view.Reader{Reader: e.WithWatch}.List(ctx, list, options...)
}

// druids changes the Etcd as etcd-druid does, and setCondition a condition of it.
func (e executing) druids(t *testing.T, change func(*unstructured.Unstructured)) {
	t.Helper()
	u := view.New()
	if err := e.WithWatch.Get(t.Context(), client.ObjectKey{Namespace: "shoot", Name: "etcd-main"}, u); err != nil {
		t.Fatal(err)
	}
	change(u)
	if err := e.Update(t.Context(), u); err != nil {
		t.Fatal(err)
	}
}

func setCondition(name, status string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		all, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		for _, c := range all {
			if c := c.(map[string]any); c["type"] == name {
				c["status"], c["message"] = status, "because"
			}
		}
		_ = unstructured.SetNestedSlice(u.Object, all, "status", "conditions")
	}
}

func (e executing) unready(t *testing.T) {
	t.Helper()
	pod := &corev1.Pod{}
	if err := e.Get(t.Context(), client.ObjectKey{Namespace: "shoot", Name: "etcd-main-0"}, pod); err != nil {
		t.Fatal(err)
	}
	pod.Status.ContainerStatuses[0].Ready = false
	if err := e.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

// watching returns a fleet that watches a canary of etcd-druid for five minutes.
func watching(t *testing.T) (executing, *control.Controller, *clocktesting.FakeClock) {
	t.Helper()
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(v1alpha1.GroupVersion, &v1alpha1.EtcdFleetPolicy{}, &v1alpha1.EtcdFleetPolicyList{}, &v1alpha1.EtcdOperatorTask{}, &v1alpha1.EtcdOperatorTaskList{})
	metav1.AddToGroupVersion(scheme, v1alpha1.GroupVersion)
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(ofDruid), &u.Object); err != nil {
		t.Fatal(err)
	}
	policy := &v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all", UID: "policy", Generation: 1}}
	policy.Spec.Soak = &metav1.Duration{Duration: 5 * time.Minute}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shoot", Name: "etcd-main-0", UID: "pod", Labels: map[string]string{v1alpha1.LabelPartOf: "etcd-main"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "etcd-main", UID: "set", Controller: ptr.To(true)}},
	}}
	now := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: v1alpha1.ContainerEtcd, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Time{Time: now.Now()}}}}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shoot"}}
	e := executing{fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(policy).WithObjects(u, policy, pod, namespace).Build()}
	c := control.New(e, view.Reader{Reader: e.WithWatch}, "operator", now, events.NewFakeRecorder(100), control.NewMetrics(prometheus.NewRegistry()))
	if err := c.Store.Change(t.Context(), func(l *fleet.Ledger) bool {
		l.Grant(fleet.Holder{Task: "task", TaskName: "task", Namespace: "shoot", Etcd: "etcd", EtcdName: "etcd-main", Policies: []string{"all"}, Change: "A", Canary: true, Granted: now.Now()})
		l.Succeeded("task", now.Now())
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return e, c, now
}

// A canary beside etcd-druid is judged by what that says of its members, and by its pods: it does not keep its slot for ever, and what breaks
// does not pass.
func TestACanaryOfDruid(t *testing.T) {
	const done, failed, watched = "done", "failed", "watched"
	for name, c := range map[string]struct {
		happens func(*testing.T, executing)
		want    string
	}{
		"all is well": {func(*testing.T, executing) {}, done},
		"it lacks a member": {func(t *testing.T, e executing) {
			t.Helper()
			e.druids(t, setCondition("AllMembersReady", "False"))
		}, failed},
		"its backups fail": {func(t *testing.T, e executing) { t.Helper(); e.druids(t, setCondition("BackupReady", "False")) }, failed},
		"a status of an earlier etcd-druid": {func(t *testing.T, e executing) {
			t.Helper()
			e.druids(t, setCondition("Ready", "Progressing"))
		}, watched},
		"etcd-druid says nothing": {func(t *testing.T, e executing) {
			t.Helper()
			e.druids(t, func(u *unstructured.Unstructured) { delete(u.Object, "status") })
		}, watched},
		"etcd-druid is down, and a member hangs": {func(t *testing.T, e executing) { t.Helper(); e.unready(t) }, failed},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			e, controller, now := watching(t)
			pass := func(d time.Duration) {
				for range int(d / (5 * time.Second)) {
					now.Step(5 * time.Second)
					_, err := controller.Reconcile(t.Context(), ctrl.Request{})
					g.Expect(err).NotTo(HaveOccurred())
				}
			}
			pass(time.Minute)
			c.happens(t, e)
			pass(6 * time.Minute)
			l, err := controller.Store.Read(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			change, got := l.Change("all", "A"), ""
			switch {
			case change.Passed == 1 && len(l.Holders) == 0:
				got = done
			case len(change.Failures) == 1:
				got = failed
			case len(l.Holders) == 1:
				got = watched
			}
			g.Expect(got).To(Equal(c.want), "%+v", change)
		})
	}
}
