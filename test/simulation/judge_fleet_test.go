// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A template that crashes reaches one cluster. What allows another one is asked when its task starts, and not when it replaces a pod: by then, there may be
// another policy.
func TestJudgeOfAFleet(t *testing.T) {
	for name, test := range map[string]struct {
		does   func(f testFleet)
		broken bool
	}{
		"a second cluster": {func(f testFleet) { f.tries("main"); f.tries("north") }, true},
		"the same cluster": {func(f testFleet) { f.tries("main"); f.tries("main") }, false},
		"a second cluster that starts without a policy": {func(f testFleet) {
			f.tries("main")
			f.deletePolicy()
			f.starts("north")
			f.createPolicy()
			f.removes("north")
		}, false},
		"a second cluster that starts before the policy is deleted": {func(f testFleet) {
			f.tries("main")
			f.starts("north")
			f.deletePolicy()
			f.removes("north")
		}, true},
		"a third cluster after one that started without a policy": {func(f testFleet) {
			f.tries("main")
			f.deletePolicy()
			f.tries("north")
			f.createPolicy()
			f.tries("south")
		}, true},
		"a second cluster after one that started without a policy": {func(f testFleet) {
			f.deletePolicy()
			f.tries("main")
			f.createPolicy()
			f.tries("north")
		}, false},
		"a second cluster once a person has resumed the change":        {func(f testFleet) { f.tries("main"); f.resumes("v1-main.7"); f.tries("north") }, false},
		"a third cluster after that":                                   {func(f testFleet) { f.tries("main"); f.resumes("v1-main.7"); f.tries("north"); f.tries("south") }, true},
		"a second cluster although another change is resumed":          {func(f testFleet) { f.tries("main"); f.resumes("v1-north.7"); f.tries("north") }, true},
		"a second cluster although an earlier state is resumed":        {func(f testFleet) { f.tries("main"); f.resumes("v1-main.6"); f.tries("north") }, true},
		"a second cluster once the ledger is deleted":                  {func(f testFleet) { f.tries("main"); f.deleteLedger(); f.tries("north") }, false},
		"a third cluster after that one":                               {func(f testFleet) { f.tries("main"); f.deleteLedger(); f.tries("north"); f.tries("south") }, true},
		"a second cluster once the first one was recovered":            {func(f testFleet) { f.tries("main"); f.recovers("main"); f.tries("north") }, false},
		"a second cluster although the first one was recovered before": {func(f testFleet) { f.recovers("main"); f.tries("main"); f.tries("north") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newTestFleet(t)
				test.does(f)
				if *f.broken != "" != test.broken {
					t.Errorf("says %q", *f.broken)
				}
				f.Close()
			})
		})
	}
}

// testFleet is a fleet without an operator. All StatefulSets have a template that crashes, and each change has failed in one cluster.
type testFleet struct {
	*World
	t      *testing.T
	broken *string
}

func newTestFleet(t *testing.T) testFleet {
	t.Helper()
	w, err := New(1, 3, len(names))
	if err != nil {
		t.Fatal(err)
	}
	w.fleet = newFleetJudge(w, 1)
	f := testFleet{w, t, new(string)}
	for _, etcd := range names {
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: etcd}}
		set.Spec.Template.Annotations = map[string]string{crashes + "it": "true"}
		w.must(w.writer.Create(t.Context(), set))
	}
	f.createPolicy()
	return f
}

// tries has the task of an Etcd start, which gets a slot, and replace a pod.
func (f testFleet) tries(etcd string) { f.starts(etcd); f.removes(etcd) }

func (f testFleet) starts(etcd string) {
	f.t.Helper()
	name := fmt.Sprintf("%s-%d", etcd, f.Now())
	f.of(etcd+"-0").Task(name, v1alpha1.QuorumAwareRollout, "")
	task := apiserver.Find[*v1alpha1.EtcdOperatorTask](f.API.Live(), Namespace, name)
	f.fleet.ledger(fmt.Sprintf(`{"holders": [{"task": %q, "etcd": %q, "etcdName": %q, "change": "v1-%s", "canary": true, "unasked": true}], "changes": [{"name": "v1-%s", "resumed": 7}]}`,
		task.UID, etcd, etcd, etcd, etcd))
	edit(f.World, Namespace, name, "status", func(t *v1alpha1.EtcdOperatorTask) { t.Status.State = v1alpha1.TaskStateInProgress })
}

// removes has the task of an Etcd replace a pod, and end.
func (f testFleet) removes(etcd string) {
	f.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: etcd + "-0"}}
	if apiserver.Find[*corev1.Pod](f.API.Live(), Namespace, pod.Name) == nil {
		f.must(f.writer.Create(f.t.Context(), pod))
	}
	if says := f.fleet.removal(&operator{name: "op1"}, f.of(pod.Name), pod.Name); says != "" {
		*f.broken = says
	}
	for _, t := range apiserver.Of[*v1alpha1.EtcdOperatorTask](f.API.Live()) {
		if t.Spec.OwnerEtcdReference.Name == etcd {
			edit(f.World, Namespace, t.Name, "status", func(t *v1alpha1.EtcdOperatorTask) { t.Status.State = v1alpha1.TaskStateRejected })
		}
	}
	<-time.After(time.Second)
}

func (f testFleet) createPolicy() {
	f.t.Helper()
	f.must(f.writer.Create(f.t.Context(), f.fleet.policy()))
	<-time.After(2 * obeyed)
}

func (f testFleet) deletePolicy() {
	f.remove(&v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: policy}})
	<-time.After(time.Second)
}

func (f testFleet) deleteLedger() {
	f.t.Helper()
	ledger := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: v1alpha1.FleetConfigMap}, Data: map[string]string{"ledger": "{}"}}
	f.must(f.writer.Create(f.t.Context(), ledger))
	f.remove(ledger)
}

func (f testFleet) resumes(token string) {
	edit(f.World, "", policy, "", func(p *v1alpha1.EtcdFleetPolicy) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.AnnotationResumeChange, token)
	})
}

// recovers has a new cluster begin in an Etcd.
func (f testFleet) recovers(etcd string) {
	j := f.of(etcd + "-0")
	j.past = append(j.past, lineage{})
}
