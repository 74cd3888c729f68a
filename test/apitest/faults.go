// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Members are what each observation shows. It is a request to the API server, which may fail.
type Members func() *cluster.Snapshot

// Observe implements observe.Interface.
func (m Members) Observe(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd) (*cluster.Snapshot, error) {
	if err := reader.Get(ctx, client.ObjectKeyFromObject(etcd), &corev1.Namespace{}); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	return m(), nil
}

// ErrInjected is what a request fails with.
var ErrInjected = errors.New("the API server does not answer")

// EachRequestFails runs something once for each request that it makes to the API server, which fails, on a copy of what there is. The
// error has to come back, and nothing may be deleted after it.
func EachRequestFails(t *testing.T, api client.WithWatch, run func(api client.WithWatch) error) {
	t.Helper()
	// What it returns if nothing fails is for other tests.
	_, _ = EachFails(t, nil, func(before func(client.WithWatch) client.WithWatch) error { return run(before(Copy(t, api))) })
}

// EachFails is EachRequestFails for what has several clients, whose requests count together once before has wrapped them. It does not
// judge the failure of a request that is not needed, such as "list *v1.PodList". It returns how many requests there are, and what came of
// it when none failed.
func EachFails(t *testing.T, unneeded []string, run func(before func(client.WithWatch) client.WithWatch) error) (requests int, err error) {
	t.Helper()
	for n := 1; ; n++ {
		f := &faults{at: n}
		err := run(f.before)
		switch {
		case f.requests < n:
			return f.requests, err
		case slices.Contains(unneeded, f.failed):
			continue
		case !errors.Is(err, ErrInjected):
			t.Errorf("request %d (%s %s) failed, and the error was %v", n, f.failed, f.name, err)
		}
		if f.after {
			t.Errorf("something was deleted although request %d (%s %s) failed", n, f.failed, f.name)
		}
	}
}

// faults let the request of a number fail.
type faults struct {
	at, requests int
	// failed is what that request was for, as in "get *v1.Pod", and name is the object's.
	failed, name string
	after        bool
}

// request carries out a request, unless it is to fail.
func (f *faults) request(verb, name string, object runtime.Object, do func() error) error {
	f.requests++
	switch {
	case f.requests == f.at:
		f.failed, f.name = fmt.Sprintf("%s %T", verb, object), name
		return ErrInjected
	case f.requests > f.at && verb == "delete":
		f.after = true
	}
	return do()
}

func (f *faults) before(api client.WithWatch) client.WithWatch {
	return interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			return f.request("get", key.Name, into, func() error { return c.Get(ctx, key, into, options...) })
		},
		List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
			return f.request("list", "", into, func() error { return c.List(ctx, into, options...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			return f.request("create", o.GetName(), o, func() error { return c.Create(ctx, o, options...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			return f.request("update", o.GetName(), o, func() error { return c.Update(ctx, o, options...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			return f.request("patch", o.GetName(), o, func() error { return c.Patch(ctx, o, p, options...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			return f.request("delete", o.GetName(), o, func() error { return c.Delete(ctx, o, options...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, o client.Object, options ...client.SubResourceUpdateOption) error {
			return f.request("update "+name+" of", o.GetName(), o, func() error { return c.SubResource(name).Update(ctx, o, options...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
			return f.request("patch "+name+" of", o.GetName(), o, func() error { return c.SubResource(name).Patch(ctx, o, p, options...) })
		},
	})
}

// Copy returns an API server with the same objects, of the kinds that the parts of the controller work on.
func Copy(t *testing.T, api client.Client) client.WithWatch {
	t.Helper()
	var all []client.Object
	for _, list := range []client.ObjectList{
		&v1alpha1.EtcdList{}, &v1alpha1.EtcdOperatorTaskList{}, &appsv1.StatefulSetList{}, &corev1.PersistentVolumeClaimList{}, &corev1.ConfigMapList{},
		&corev1.PodList{}, &batchv1.JobList{}, &corev1.SecretList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{}, &corev1.EventList{}, &storagev1.StorageClassList{},
		&rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &coordinationv1.LeaseList{}, &policyv1.PodDisruptionBudgetList{},
	} {
		utilruntime.Must(api.List(t.Context(), list))
		utilruntime.Must(meta.EachListItem(list, func(o runtime.Object) error {
			all = append(all, o.DeepCopyObject().(client.Object))
			return nil
		}))
	}
	return API(all...)
}

// Run starts the pod of a Job.
func Run(t *testing.T, api client.Client, key client.ObjectKey) {
	t.Helper()
	put(t, api, key, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
}

// Complete ends a Job, and its pod, with a result of the agent.
func Complete(t *testing.T, api client.Client, key client.ObjectKey, result string) {
	t.Helper()
	j := put(t, api, key, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: result}})
	j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	utilruntime.Must(api.Status().Update(t.Context(), j))
}

// put gives the container of a Job a state.
func put(t *testing.T, api client.Client, key client.ObjectKey, container corev1.ContainerState) *batchv1.Job {
	t.Helper()
	j, p := &batchv1.Job{}, &corev1.Pod{}
	utilruntime.Must(api.Get(t.Context(), key, j))
	p.Namespace, p.Name, p.Labels = j.Namespace, j.Name+"-pod", map[string]string{batchv1.JobNameLabel: j.Name}
	p.OwnerReferences = controlledBy(j, batchv1.SchemeGroupVersion.WithKind("Job"))
	if err := api.Create(t.Context(), p); err != nil {
		utilruntime.Must(api.Get(t.Context(), client.ObjectKeyFromObject(p), p))
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: j.Spec.Template.Spec.Containers[0].Name, State: container}}
	utilruntime.Must(api.Status().Update(t.Context(), p))
	return j
}
