// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package inmemory is a cluster in memory, for tests that run the operator thousands of times: an API server, the controllers of
// StatefulSets and Jobs, a kubelet, and members. It is single-threaded, and what happens next is decided by the test. The API server is
// that of controller-runtime's fake client, with what the operator relies on and the fake lacks: UIDs, generations, preconditions of
// deletions, evictions. test/integration has the real one.
package inmemory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// NewScheme returns a scheme with the types of Kubernetes and this project.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
}

// server is the API server.
type server struct {
	// storage has the objects. What is written to it directly is written by nobody.
	storage client.WithWatch
	// Client is the API server as clients see it.
	client.WithWatch
	scheme *runtime.Scheme
	now    func() time.Time
	uids   int
	// writes counts the changes, and removed the removals of pods, by name.
	writes  int
	removed map[string]int
}

func newServer(scheme *runtime.Scheme, now func() time.Time) (*server, error) {
	storage, err := newStorage(scheme)
	if err != nil {
		return nil, err
	}
	s := &server{storage: storage, scheme: scheme, now: now, removed: map[string]int{}}
	s.WithWatch = interceptor.NewClient(storage, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			s.born(o)
			s.writes++
			return c.Create(ctx, o, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			return s.change(ctx, o, func() error { return c.Update(ctx, o, options...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			return s.change(ctx, o, func() error { return c.Patch(ctx, o, patch, options...) })
		},
		Apply:  s.apply,
		Delete: s.delete,
		SubResourceCreate: func(ctx context.Context, _ client.Client, name string, o, sub client.Object, _ ...client.SubResourceCreateOption) error {
			eviction, ok := sub.(*policyv1.Eviction)
			if name != "eviction" || !ok {
				return fmt.Errorf("creating %s of %s: not simulated", name, o.GetName())
			}
			if len(eviction.DeleteOptions.DryRun) > 0 {
				return nil // no budget is simulated
			}
			return s.delete(ctx, storage, o, client.Preconditions(*eviction.DeleteOptions.Preconditions))
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, o client.Object, options ...client.SubResourceUpdateOption) error {
			s.writes++
			return c.SubResource(name).Update(ctx, o, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			s.writes++
			return c.SubResource(name).Patch(ctx, o, patch, options...)
		},
	})
	return s, nil
}

// newStorage returns a store of objects with the operator's index.
func newStorage(scheme *runtime.Scheme, objects ...client.Object) (client.WithWatch, error) {
	builder := fake.NewClientBuilder().WithScheme(scheme).WithGlobalResourceVersionCounter().WithObjects(objects...).WithStatusSubresource(
		&v1alpha1.Etcd{}, &v1alpha1.EtcdOperatorTask{}, &appsv1.StatefulSet{}, &corev1.Pod{}, &batchv1.Job{}, &policyv1.PodDisruptionBudget{})
	if err := etcdtasks.Index(context.Background(), indexer{builder}); err != nil {
		return nil, err
	}
	return builder.Build(), nil
}

type indexer struct{ *fake.ClientBuilder }

// IndexField implements client.FieldIndexer.
func (i indexer) IndexField(_ context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	i.WithIndex(o, field, extract)
	return nil
}

func (s *server) born(o client.Object) {
	s.uids++
	o.SetUID(types.UID(fmt.Sprintf("uid-%d", s.uids)))
	o.SetCreationTimestamp(metav1.NewTime(s.now()))
	o.SetGeneration(1)
}

// change keeps the generation of what changes.
func (s *server) change(ctx context.Context, o client.Object, do func() error) error {
	before := o.DeepCopyObject().(client.Object)
	if err := s.storage.Get(ctx, client.ObjectKeyFromObject(o), before); err != nil {
		return err
	}
	s.writes++
	if err := do(); err != nil {
		return err
	}
	return s.generate(ctx, before, o)
}

// generate raises the generation of an object whose spec has changed.
func (s *server) generate(ctx context.Context, before, after client.Object) error {
	old, err := runtime.DefaultUnstructuredConverter.ToUnstructured(before)
	if err != nil {
		return err
	}
	next, err := runtime.DefaultUnstructuredConverter.ToUnstructured(after)
	if err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(old["spec"], next["spec"]) {
		return nil
	}
	after.SetGeneration(before.GetGeneration() + 1)
	return s.storage.Update(ctx, after)
}

// identify returns the kind, the namespace and the name of what is applied.
func identify(config runtime.ApplyConfiguration) (schema.GroupVersionKind, types.NamespacedName, error) {
	switch of := config.(type) {
	case interface {
		GetName() *string
		GetNamespace() *string
		GetKind() *string
		GetAPIVersion() *string
	}:
		return schema.FromAPIVersionAndKind(*of.GetAPIVersion(), *of.GetKind()), types.NamespacedName{Namespace: *of.GetNamespace(), Name: *of.GetName()}, nil
	case interface {
		GetName() string
		GetNamespace() string
		GroupVersionKind() schema.GroupVersionKind
	}:
		return of.GroupVersionKind(), types.NamespacedName{Namespace: of.GetNamespace(), Name: of.GetName()}, nil
	}
	return schema.GroupVersionKind{}, types.NamespacedName{}, fmt.Errorf("applying a %T: not simulated", config)
}

// apply gives what an apply has created what every object has.
func (s *server) apply(ctx context.Context, c client.WithWatch, config runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	kind, key, err := identify(config)
	if err != nil {
		return err
	}
	read := func() (client.Object, error) {
		o, err := s.scheme.New(kind)
		if err != nil {
			return nil, err
		}
		found := o.(client.Object)
		err = s.storage.Get(ctx, key, found)
		return found, err
	}
	before, missing := read()
	if missing != nil && !apierrors.IsNotFound(missing) {
		return missing
	}
	s.writes++
	if err := c.Apply(ctx, config, options...); err != nil {
		return err
	}
	after, err := read()
	if err != nil {
		return err
	}
	if missing != nil {
		s.born(after)
		return s.storage.Update(ctx, after)
	}
	return s.generate(ctx, before, after)
}

// delete checks the preconditions. There are no finalizers, and nothing takes time to end.
func (s *server) delete(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
	given := (&client.DeleteOptions{}).ApplyOptions(options)
	found := o.DeepCopyObject().(client.Object)
	if err := s.storage.Get(ctx, client.ObjectKeyFromObject(o), found); err != nil {
		return err
	}
	if p := given.Preconditions; p != nil {
		if p.UID != nil && *p.UID != found.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != found.GetResourceVersion() {
			return apierrors.NewConflict(schema.GroupResource{Resource: "objects"}, o.GetName(), errors.New("the preconditions do not hold"))
		}
	}
	s.writes++
	if err := c.Delete(ctx, found); err != nil {
		return err
	}
	if _, isPod := found.(*corev1.Pod); isPod {
		s.removed[found.GetName()]++
	}
	return nil
}
