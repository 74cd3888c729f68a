// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/local/node"
)

// edit is a change of the pod template. Each has a number, which is higher than that of the one before.
type edit struct {
	// container whose image changes; empty if none does.
	container string
	// etcd returns a patch of an Etcd, template the same change as a patch of a pod template.
	etcd, template func(number int, image string) string
}

var (
	// annotate takes new pods in any way.
	annotate = edit{
		etcd: func(number int, _ string) string {
			return fmt.Sprintf(`{"spec":{"annotations":{"kubectl.kubernetes.io/restartedAt":"%d"}}}`, number)
		},
		template: func(number int, _ string) string {
			return fmt.Sprintf(`{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"%d"}}}`, number)
		},
	}
	// raise raises CPU and memory of etcd.
	raise = edit{
		etcd: func(number int, _ string) string {
			return fmt.Sprintf(`{"spec":{"etcd":{"resources":%s}}}`, raised(number))
		},
		template: func(number int, _ string) string {
			return fmt.Sprintf(`{"spec":{"containers":[{"name":%q,"resources":%s}]}}`, v1alpha1.ContainerEtcd, raised(number))
		},
	}
	// changeAgent changes the image of the agent, and changeEtcd that of etcd: to the same programs by another name.
	changeAgent = edit{
		container: v1alpha1.ContainerBackupRestore,
		etcd:      func(_ int, image string) string { return fmt.Sprintf(`{"spec":{"backup":{"image":%q}}}`, image) },
		template: func(_ int, image string) string {
			return fmt.Sprintf(`{"spec":{"containers":[{"name":%q,"image":%q}],"initContainers":[{"name":%q,"image":%q}]}}`,
				v1alpha1.ContainerBackupRestore, image, v1alpha1.InitContainerPrepare, image)
		},
	}
	changeEtcd = edit{
		container: v1alpha1.ContainerEtcd,
		etcd:      func(_ int, image string) string { return fmt.Sprintf(`{"spec":{"etcd":{"image":%q}}}`, image) },
		template: func(_ int, image string) string {
			return fmt.Sprintf(`{"spec":{"containers":[{"name":%q,"image":%q}]}}`, v1alpha1.ContainerEtcd, image)
		},
	}
)

// The requests of CPU (m) and memory (Mi) of a member before the first change.
const cpu, memory = 20, 64

func raised(number int) string {
	return fmt.Sprintf(`{"requests":{"cpu":"%dm","memory":"%dMi"}}`, cpu+number, memory+number)
}

// prepare returns the image that an edit changes to, once the container runtime has it; empty if it changes none. Two edits never
// have the same.
func (e edit) prepare(ctx context.Context, c clusters, number int) (string, error) {
	if e.container == "" {
		return "", nil
	}
	image := c.images[e.container]
	name := fmt.Sprintf("%s-bench.%d", image, number)
	return name, node.NameImage(ctx, image, name)
}
