// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Runs are the present runs of etcd, by pod name.
type Runs map[string]run

// run is one run of the etcd container of a pod.
type run struct {
	pod      types.UID
	restarts int32
}

// Runs returns the present runs of etcd.
func (c Cluster) Runs(ctx context.Context) (Runs, error) {
	set, err := c.StatefulSet(ctx)
	if err != nil {
		return nil, err
	}
	runs := Runs{}
	for i := range int(*set.Spec.Replicas) {
		pod, err := c.Pod(ctx, i)
		if err != nil {
			return nil, err
		}
		runs[pod.Name] = runOf(pod)
	}
	return runs, nil
}

func runOf(pod *corev1.Pod) run {
	r := run{pod: pod.UID}
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == v1alpha1.ContainerEtcd {
			r.restarts = s.RestartCount
		}
	}
	return r
}

// RestartsUntil returns how often etcd was restarted between these runs and later ones, in its pod or with a new one.
func (r Runs) RestartsUntil(later Runs) int {
	n := 0
	for name, now := range later {
		if before := r[name]; before.pod == now.pod {
			n += int(now.restarts - before.restarts)
		} else {
			n += 1 + int(now.restarts)
		}
	}
	return n
}
