// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operations

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/history"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/oracle"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// The states in which tasks end in these tests.
var (
	succeeded = v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStateSucceeded}
	gaveUp    = v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStateFailed}
	previewed = v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStateSucceeded, Result: map[string]string{"confirm": "d@41"}}
)

func wentBack(source v1alpha1.RecoverySource, revision int64) v1alpha1.EtcdOperatorTaskStatus {
	s := succeeded
	s.Recovery = &v1alpha1.RecoveryStatus{Source: source, Restore: &v1alpha1.RestoreStatus{ClusterRestore: v1alpha1.ClusterRestore{Revision: revision}}}
	return s
}

// What a restore and its undo ask for, what the judge is told, and what is left: nothing, if the cluster has gone back, and only then is the
// judge told so.
func TestRestoreAndUndo(t *testing.T) {
	const delta, preview, back, undo = "type: delta", "to: {revision: 40}", "{to: {revision: 40}, confirm: d@41, maxWritesSince: 1000000}", "undo: restore-3"
	const second, backAgain = "to: {revision: 42}", "{to: {revision: 42}, confirm: d@41, maxWritesSince: 1000000}"
	target, undone := history.Restore{Target: 40}, history.Restore{Undoes: true}
	once, kept := []v1alpha1.EtcdOperatorTaskStatus{succeeded, previewed, wentBack(v1alpha1.RecoverFromTarget, 40)}, wentBack(v1alpha1.RecoverFromKeptData, 0)
	twice := append(slices.Clone(once), succeeded, previewed, wentBack(v1alpha1.RecoverFromTarget, 42))
	for name, test := range map[string]struct {
		times int
		ends  []v1alpha1.EtcdOperatorTaskStatus
		want  []string
		told  []history.Restore
		left  int
		says  string
	}{
		"all of it":                             {1, append(slices.Clone(once), kept), []string{delta, preview, back, undo}, []history.Restore{target, undone}, 2, ""},
		"an undo by the final snapshot":         {1, append(slices.Clone(once), wentBack(v1alpha1.RecoverFromTarget, 45)), []string{delta, preview, back, undo}, []history.Restore{target, {Undoes: true, Target: 45}}, 4, "by the final snapshot, although no volume was lost"},
		"the delta fails":                       {1, []v1alpha1.EtcdOperatorTaskStatus{gaveUp}, []string{delta}, nil, 1, ""},
		"the preview fails":                     {1, []v1alpha1.EtcdOperatorTaskStatus{succeeded, gaveUp}, []string{delta, preview}, nil, 2, ""},
		"the restore fails and changes nothing": {1, []v1alpha1.EtcdOperatorTaskStatus{succeeded, previewed, gaveUp}, []string{delta, preview, back}, nil, 3, ""},
		"the undo fails":                        {1, append(slices.Clone(once), gaveUp), []string{delta, preview, back, undo}, []history.Restore{target}, 3, ""},
		"twice":                                 {2, append(slices.Clone(twice), kept, kept), []string{delta, preview, back, delta, second, backAgain, "undo: restore-6", undo}, []history.Restore{target, {Target: 42}, undone, undone}, 4, ""},
		"twice, and the first undo fails":       {2, append(slices.Clone(twice), gaveUp), []string{delta, preview, back, delta, second, backAgain, "undo: restore-6"}, []history.Restore{target, {Target: 42}}, 5, ""},
		"the second restore fails":              {2, append(slices.Clone(once), gaveUp, kept), []string{delta, preview, back, delta, undo}, []history.Restore{target, undone}, 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, asked := settledCluster(t, test.ends)
			var told []history.Restore
			var outages []oracle.Outage
			newest, reads := int64(39), 0
			c.Now = func() time.Duration { return 0 }
			c.Written = func(context.Context) error { newest++; return nil }
			c.Newest = func() int64 { return newest }
			c.Restored = func(r history.Restore) { told = append(told, r) }
			c.Read = func(context.Context) error { reads++; return nil }
			c.Outage = func(o oracle.Outage) { outages = append(outages, o) }
			c.Ended = func(string, v1alpha1.EtcdOperatorTaskStatus) {}
			err := c.restoresAndUndos(t.Context(), test.times)
			if (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Fatal(err)
			}
			if err != nil {
				reads++ // the run ends, and with it what members have is read
			}
			left := &v1alpha1.EtcdOperatorTaskList{}
			if err := c.Kube.List(t.Context(), left); err != nil {
				t.Fatal(err)
			}
			switches := len(slices.DeleteFunc(slices.Clone(test.want), func(config string) bool {
				return !strings.Contains(config, "confirm") && !strings.Contains(config, "undo")
			}))
			if !slices.Equal(*asked, test.want) || !slices.Equal(told, test.told) || reads != len(told) || len(left.Items) != test.left || len(outages) != switches {
				t.Errorf("asked for %q, told %+v, read %d times, %d tasks left, outages %v", *asked, told, reads, len(left.Items), outages)
			}
		})
	}
}

// settledCluster is a cluster that is as its spec says, whose tasks end as they are to, one after the other.
func settledCluster(t *testing.T, ends []v1alpha1.EtcdOperatorTaskStatus) (*Cluster, *[]string) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	meta := metav1.ObjectMeta{Namespace: "robustness", Name: "main"}
	etcd := &v1alpha1.Etcd{ObjectMeta: meta}
	for _, name := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionAllMembersReady, v1alpha1.ConditionAllMembersUpdated} {
		etcd.Status.Conditions.Set(metav1.Condition{Type: name, Status: metav1.ConditionTrue})
	}
	asked := &[]string{}
	kube := fake.NewClientBuilder().WithScheme(scheme).WithObjects(etcd, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](0)}}).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			task := object.(*v1alpha1.EtcdOperatorTask)
			if len(ends) == 0 {
				return fmt.Errorf("%s was not to be asked for", task.Spec.Config)
			}
			*asked = append(*asked, task.Spec.Config)
			task.Status, ends = ends[0], ends[1:]
			return c.Create(ctx, task, options...)
		},
	}).Build()
	return &Cluster{Kube: kube, Namespace: meta.Namespace, Name: meta.Name}, asked
}
