// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/measure/stage"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Names of the Etcds: ours is managed, peer is orphaned.
const (
	ours = "ours"
	peer = "peer"
)

// goneTimeout is how long the deletion of a namespace may take.
const goneTimeout = 3 * time.Minute

// clusters are two clusters of the same size in their own namespace.
type clusters struct {
	bench     *bench
	namespace string
	members   int
	// ours belongs to an Etcd; peer is the orphaned StatefulSet of another.
	ours, peer stage.Cluster
	// images of the containers, by name, before any change.
	images map[string]string
}

func (b *bench) setUp(ctx context.Context, members int) (clusters, error) {
	namespace := fmt.Sprintf("bench-%d", members)
	c := clusters{
		bench: b, namespace: namespace, members: members, images: map[string]string{},
		ours: stage.Cluster{Stage: b.stage, Namespace: namespace, Name: ours},
		peer: stage.Cluster{Stage: b.stage, Namespace: namespace, Name: peer},
	}
	return c, b.console.Step("clusters", func(note func(string)) (string, error) {
		if err := b.stage.SetGate(ctx, true, note); err != nil {
			return "", err
		}
		note("removing leftovers of an earlier run")
		if err := c.remove(ctx); err != nil {
			return "", err
		}
		return "two, one of them unmanaged", c.create(ctx, note)
	})
}

func (c clusters) create(ctx context.Context, note stage.Note) error {
	if err := c.createEtcds(ctx, note, c.ours, c.peer); err != nil {
		return err
	}
	set, err := c.peer.StatefulSet(ctx)
	if err != nil {
		return err
	}
	for _, container := range set.Spec.Template.Spec.Containers {
		c.images[container.Name] = container.Image
	}
	return c.peer.Orphan(ctx, note)
}

// createEtcds creates the namespace and Etcds in it, and waits until they are ready.
func (c clusters) createEtcds(ctx context.Context, note stage.Note, etcds ...stage.Cluster) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}
	if err := c.bench.stage.Client.Create(ctx, namespace); err != nil {
		return fmt.Errorf("creating namespace %s: %w", c.namespace, err)
	}
	for _, cluster := range etcds {
		if err := c.bench.stage.Client.Create(ctx, c.etcd(cluster.Name)); err != nil {
			return fmt.Errorf("creating Etcd %s: %w", cluster.Name, err)
		}
	}
	for _, cluster := range etcds {
		if err := cluster.WaitEtcd(ctx, note); err != nil {
			return err
		}
	}
	return nil
}

// etcd returns an Etcd with the operator's defaults, except for its resource requests.
func (c clusters) etcd(name string) *v1alpha1.Etcd {
	return &v1alpha1.Etcd{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name},
		Spec: v1alpha1.EtcdSpec{
			Replicas: int32(c.members),
			Etcd: v1alpha1.EtcdConfig{Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(memory<<20, resource.BinarySI),
			}}},
			StorageCapacity: ptr.To(resource.MustParse("1Gi")),
		},
	}
}

// tearDown removes the clusters; it works even after the context has ended.
func (c clusters) tearDown(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	return c.bench.console.Step("removing the clusters", func(func(string)) (string, error) {
		return "done", errors.Join(c.ours.ThawAll(ctx), c.peer.ThawAll(ctx), c.remove(ctx))
	})
}

// remove deletes the namespace and waits until it is gone.
func (c clusters) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, goneTimeout, fmt.Errorf("it is not gone within %s", goneTimeout))
	defer cancel()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}
	err := c.bench.stage.Client.Delete(ctx, namespace)
	for ticker := time.NewTicker(time.Second); err == nil; {
		select {
		case <-ctx.Done():
			ticker.Stop()
			return fmt.Errorf("removing namespace %s: %w", c.namespace, context.Cause(ctx))
		case <-ticker.C:
			err = c.bench.stage.Client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
		}
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing namespace %s: %w", c.namespace, err)
	}
	return nil
}
