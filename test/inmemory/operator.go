// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package inmemory

import (
	"context"
	"crypto/tls"
	"reflect"
	"strings"
	"sync"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/test/crash/disturb"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Operator is how one operator sees the world: a cache, the API server, the members.
type Operator struct {
	World *World
	// Decide is asked for the fate of each write, and may wait. Read is told of each read from the API server or the cache.
	Decide func(disturb.Write) disturb.Fate
	Read   func(kind, namespace string)

	mu     sync.Mutex
	killed bool
	// cache has the objects as the operator's watches have delivered them, and held the kinds whose watches are held.
	cache client.WithWatch
	held  map[string]bool
	// seen is how much was written when the cache was last brought up to date.
	seen int
}

// Killed reports whether the operator was killed.
func (o *Operator) Killed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.killed
}

func (o *Operator) kill() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.killed = true
}

// cached are the kinds that the operator has in its cache.
func cached() []client.ObjectList {
	return []client.ObjectList{
		&v1alpha1.EtcdList{}, &v1alpha1.EtcdOperatorTaskList{}, &appsv1.StatefulSetList{}, &corev1.PodList{}, &corev1.ConfigMapList{}, &corev1.ServiceList{},
		&corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &policyv1.PodDisruptionBudgetList{}, &coordinationv1.LeaseList{}, &corev1.PersistentVolumeClaimList{}, &corev1.NodeList{},
	}
}

// Kinds are the kinds in the cache that change while tasks run.
func Kinds() []string { return []string{"Etcd", "EtcdOperatorTask", "StatefulSet", "Pod"} }

// Hold holds the watches of kinds: from now on the cache shows them as they are now. Without kinds, all are delivered again.
func (o *Operator) Hold(kinds ...string) {
	o.held, o.seen = map[string]bool{}, -1
	for _, k := range kinds {
		o.held[k] = true
	}
}

// Deliver brings the cache up to date, except for what is held.
func (o *Operator) Deliver(ctx context.Context) error {
	if o.cache != nil && o.seen == o.World.writes {
		return nil
	}
	o.seen = o.World.writes
	var objects []client.Object
	for _, list := range cached() {
		from := client.Reader(o.World.storage)
		if o.cache != nil && o.held[kindOf(list)] {
			from = o.cache
		}
		if err := from.List(ctx, list); err != nil {
			return err
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return err
		}
		for _, i := range items {
			objects = append(objects, i.(client.Object))
		}
	}
	cache, err := newStorage(o.World.scheme, objects...)
	o.cache = cache
	return err
}

func kindOf(o any) string {
	return strings.TrimSuffix(reflect.TypeOf(o).Elem().Name(), "List")
}

// write carries a write out as it is fated.
func (o *Operator) write(verb, kind, namespace, name string, do func() error) error {
	if o.Killed() {
		return disturb.ErrKilled
	}
	fate := disturb.Answered
	if o.Decide != nil {
		fate = o.Decide(disturb.Write{Verb: verb, Kind: kind, Name: name, Namespace: namespace})
	}
	switch {
	case fate == disturb.KilledBefore:
		o.kill()
		return disturb.ErrKilled
	case o.Killed():
		return disturb.ErrKilled
	case fate == disturb.NotSent:
		return apierrors.NewServerTimeout(v1alpha1.GroupVersion.WithResource("any").GroupResource(), verb, 1)
	}
	err := do()
	switch fate {
	case disturb.KilledAfter:
		o.kill()
		return disturb.ErrKilled
	case disturb.AnswerLost:
		return apierrors.NewTimeoutError("the answer was lost", 1)
	}
	return err
}

func (o *Operator) read(kind, namespace string) error {
	if o.Killed() {
		return disturb.ErrKilled
	}
	if o.Read != nil {
		o.Read(kind, namespace)
	}
	return nil
}

// Live reads from the API server.
func (o *Operator) Live() client.Client {
	return o.client(func() client.Reader { return o.World.storage })
}

// Client reads from the cache, and writes to the API server.
func (o *Operator) Client() client.Client { return o.client(func() client.Reader { return o.cache }) }

func (o *Operator) client(from func() client.Reader) client.Client {
	key := client.ObjectKeyFromObject
	return &view{interceptor.NewClient(o.World.WithWatch, interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, k client.ObjectKey, into client.Object, options ...client.GetOption) error {
			if err := o.read(kindOf(into), k.Namespace); err != nil {
				return err
			}
			return from().Get(ctx, k, into, options...)
		},
		List: func(ctx context.Context, _ client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
			if err := o.read(kindOf(into), (&client.ListOptions{}).ApplyOptions(options).Namespace); err != nil {
				return err
			}
			return from().List(ctx, into, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			return o.write("create", kindOf(object), object.GetNamespace(), object.GetName(), func() error { return c.Create(ctx, object, options...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			return o.write("delete", kindOf(object), object.GetNamespace(), object.GetName(), func() error { return c.Delete(ctx, object, options...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			return o.write("update", kindOf(object), object.GetNamespace(), object.GetName(), func() error { return c.Update(ctx, object, options...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			return o.write("patch", kindOf(object), object.GetNamespace(), object.GetName(), func() error { return c.Patch(ctx, object, patch, options...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, config runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			kind, key, err := identify(config)
			if err != nil {
				return err
			}
			return o.write("apply", kind.Kind, key.Namespace, key.Name, func() error { return c.Apply(ctx, config, options...) })
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, name string, object, sub client.Object, options ...client.SubResourceCreateOption) error {
			return o.write("create "+name, kindOf(object), object.GetNamespace(), object.GetName(), func() error { return c.SubResource(name).Create(ctx, object, sub, options...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, object client.Object, options ...client.SubResourceUpdateOption) error {
			return o.write("update "+name, kindOf(object), key(object).Namespace, object.GetName(), func() error { return c.SubResource(name).Update(ctx, object, options...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			return o.write("patch "+name, kindOf(object), object.GetNamespace(), object.GetName(), func() error { return c.SubResource(name).Patch(ctx, object, patch, options...) })
		},
	})}
}

// view is a client that can be compared, as the operator's own can.
type view struct{ client.Client }

// Dial implements etcdclient.Dialer: what is asked of members that changes something is a write.
func (o *Operator) Dial(endpoint string, config *tls.Config) (etcdclient.Client, error) {
	return disturb.Members{Dialer: o.World.Members, Write: func(w disturb.Write, do func() error) error {
		return o.write(w.Verb, w.Kind, w.Namespace, w.Name, do)
	}}.Dial(endpoint, config)
}
