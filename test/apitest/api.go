// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package apitest imitates the API server for unit tests, and lets each request to it fail once.
package apitest

import (
	"context"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lock"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// scheme has every kind that the controller works on. It takes a while to make.
var scheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(v1alpha1.AddToScheme(s))
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	return s
})

// API returns an API server with some objects. It gives UIDs to new ones, and says what time it is. Of the preconditions of a deletion, it
// checks only the resourceVersion.
func API(objects ...client.Object) client.WithWatch {
	// A tracker that knows no field managers: the one that does takes ten times as long.
	tracker := clienttesting.NewObjectTracker(scheme(), serializer.NewCodecFactory(scheme()).UniversalDecoder())
	builder := fake.NewClientBuilder().WithScheme(scheme()).WithObjectTracker(tracker).WithObjects(objects...)
	utilruntime.Must(etcdtasks.Index(context.Background(), indexer{builder}))
	builder.WithIndex(&corev1.Event{}, "involvedObject.uid", func(o client.Object) []string { return []string{string(o.(*corev1.Event).InvolvedObject.UID)} })
	builder.WithIndex(&corev1.Event{}, "type", func(o client.Object) []string { return []string{o.(*corev1.Event).Type} })
	return interceptor.NewClient(builder.Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if review, asked := o.(*authenticationv1.SelfSubjectReview); asked {
				review.CreationTimestamp = metav1.Now()
				return nil
			}
			if o.GetUID() == "" {
				o.SetUID(types.UID(o.GetName() + "-uid"))
			}
			return c.Create(ctx, o, options...)
		},
	})
}

// indexer registers the index of tasks with a fake client.
type indexer struct{ *fake.ClientBuilder }

// IndexField implements client.FieldIndexer.
func (i indexer) IndexField(_ context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	i.WithIndex(object, field, extract)
	return nil
}

// ControlledBy returns the owner references of an object that an Etcd controls.
func ControlledBy(etcd *v1alpha1.Etcd) []metav1.OwnerReference {
	return controlledBy(etcd, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))
}

// Own returns the metadata of an object of an Etcd's own. Its UID is its name.
func Own(etcd *v1alpha1.Etcd, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: etcd.Namespace, Name: name, UID: types.UID(name), OwnerReferences: ControlledBy(etcd),
		Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: etcd.Name},
	}
}

// StatefulSet returns the StatefulSet of an Etcd.
func StatefulSet(etcd *v1alpha1.Etcd, replicas int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: Own(etcd, etcd.Name), Spec: appsv1.StatefulSetSpec{Replicas: &replicas}}
}

// Claim returns an Etcd's own claim of an ordinal, as the StatefulSet controller makes it: without an owner.
func Claim(etcd *v1alpha1.Etcd, ordinal int32) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: Own(etcd, etcd.ClaimName(ordinal))}
	claim.OwnerReferences = nil
	return claim
}

func controlledBy(o metav1.Object, kind schema.GroupVersionKind) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(o, kind)}
}

// Locked reports whether the lock of an Etcd is held. It can err only where the lock is free.
func Locked(locks *lock.Locks, etcd *v1alpha1.Etcd) bool {
	free := make(chan struct{})
	go func() {
		defer locks.Lock(client.ObjectKeyFromObject(etcd))()
		close(free)
	}()
	select {
	case <-free:
		return false
	case <-time.After(200 * time.Millisecond):
		return true
	}
}
