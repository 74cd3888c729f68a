// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operations

import (
	"context"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/local/node"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The images, and the same ones by other names: the test has no other release that members could go to and come back from.
var images = map[string][2]string{
	"etcd":  {"localhost/etcd:v3.6.16", "localhost/etcd:v3.6.16-again"},
	"agent": {"localhost/etcd-agent:dev", "localhost/etcd-agent:again"},
}

// PrepareImages gives the images their second names.
func PrepareImages(ctx context.Context) error {
	for _, names := range images {
		if err := node.NameImage(ctx, names[0], names[1]); err != nil {
			return err
		}
	}
	return nil
}

// inPlace are the changes of the template that pods follow in place. The most frequent one in practice is there more than
// once. A change is the same if it is repeated, because the answer to it was lost.
func inPlace() []Operation {
	image := func(name string, set func(*v1alpha1.Etcd, string)) func(*Cluster) func(*v1alpha1.Etcd) {
		turns := 0
		return func(*Cluster) func(*v1alpha1.Etcd) {
			turns++
			next := images[name][turns%2]
			return func(e *v1alpha1.Etcd) { set(e, next) }
		}
	}
	raise := Operation{Name: "resources raised in place", Run: changeInPlace(addMemory(1))}
	all := []Operation{
		raise,
		{Name: "image of the agent in place", Run: changeInPlace(image("agent", func(e *v1alpha1.Etcd, name string) { e.Spec.Backup.Image = &name }))},
		raise,
		{Name: "labels in place", Run: changeInPlace(func(c *Cluster) func(*v1alpha1.Etcd) {
			return func(e *v1alpha1.Etcd) { e.Spec.Labels = map[string]string{"robustness": fmt.Sprint(c.asked)} }
		})},
		{Name: "image of etcd in place", Run: changeInPlace(image("etcd", func(e *v1alpha1.Etcd, name string) { e.Spec.Etcd.Image = &name }))},
		raise,
		{Name: "resources lowered in place", Run: changeInPlace(addMemory(-1))},
	}
	for i := range all {
		all[i].Not = []string{"finalizer on a pod"} // it keeps only what is deleted
	}
	return all
}

// changeInPlace returns an operation that changes the template, and has the pods updated in place.
func changeInPlace(next func(*Cluster) func(*v1alpha1.Etcd)) func(context.Context, *Cluster) error {
	return func(ctx context.Context, c *Cluster) error {
		change := next(c)
		return c.rollout(ctx, func(e *v1alpha1.Etcd) {
			e.Spec.PodUpdatePolicy = v1alpha1.InPlaceIfPossible
			change(e)
		})
	}
}

// The requests of etcd to begin with.
const (
	milliCPU = 20
	mebi     = 1 << 20
	memory   = 100 * mebi
)

func resources(raised int64) *corev1.ResourceRequirements {
	return &corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(milliCPU, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(memory+raised*mebi, resource.BinarySI),
	}}
}

// addMemory changes the request of etcd for memory by so many MiB.
func addMemory(n int64) func(*Cluster) func(*v1alpha1.Etcd) {
	return func(c *Cluster) func(*v1alpha1.Etcd) {
		c.raised += n
		raised := c.raised
		return func(e *v1alpha1.Etcd) { e.Spec.Etcd.Resources = resources(raised) }
	}
}
