// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operations

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Every task that has ended is recorded, also one that a recovery asks for in vain.
func TestTasksAreRecorded(t *testing.T) {
	notLost := []v1alpha1.LastError{{Code: v1alpha1.ErrQuorumNotLost}}
	for name, test := range map[string]struct {
		run    func(context.Context, *Cluster) error
		states []v1alpha1.EtcdOperatorTaskStatus
		want   []string
	}{
		"a task that fails": {
			task(v1alpha1.OnDemandSnapshot, "type: full"),
			[]v1alpha1.EtcdOperatorTaskStatus{{State: v1alpha1.TaskStateInProgress}, {State: v1alpha1.TaskStateFailed}},
			[]string{"ondemandsnapshot-1 Failed []"},
		},
		"a recovery that is asked for twice": {
			by((*Cluster).askForRecovery),
			[]v1alpha1.EtcdOperatorTaskStatus{{State: v1alpha1.TaskStateRejected, LastErrors: notLost}, {State: v1alpha1.TaskStateSucceeded}},
			[]string{"quorumlossrecovery-1 Rejected [ERR_QUORUM_NOT_LOST]", "quorumlossrecovery-2 Succeeded []"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			var got []string
			kube := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
					err := c.Get(ctx, key, object, options...)
					object.(*v1alpha1.EtcdOperatorTask).Status = test.states[0]
					test.states = test.states[1:]
					return err
				},
			}).Build()
			cluster := &Cluster{Kube: kube, Namespace: "robustness", Name: "main", Ended: func(name string, status v1alpha1.EtcdOperatorTaskStatus) {
				var codes []v1alpha1.ErrorCode
				for _, e := range status.LastErrors {
					codes = append(codes, e.Code)
				}
				got = append(got, fmt.Sprint(name, " ", status.State, " ", codes))
			}}
			if err := test.run(t.Context(), cluster); err != nil || !slices.Equal(got, test.want) {
				t.Errorf("error %v, recorded %q, want %q", err, got, test.want)
			}
		})
	}
}
