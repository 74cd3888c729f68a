// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package newcluster

import (
	"context"
	"strconv"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	"github.com/etcd-foreman/etcd-foreman/internal/job/survey"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Deadline of a task that starts a cluster as a new one. It leaves a person time to bring a node back, or to decide that a volume is lost.
const Deadline = 4 * time.Hour

// Volumes surveys the volumes of a stopped cluster for a task.
type Volumes struct {
	// Client writes to the API server, and Live reads from it: nothing that a decision rests on comes from a cache.
	Client client.Client
	Live   client.Reader
	Clock  clock.PassiveClock
	// Beyond: claims beyond the known members are surveyed too. The members of a cluster that served until it was stopped are known.
	Beyond bool
	// Image of the agent for an Etcd that does not name its own.
	Image string
}

// Survey is the detail of the step that creates and removes Jobs.
type Survey struct {
	Volumes  []survey.Volume
	Snapshot *cluster.Snapshot
	// KeptFor is that of Input.
	KeptFor string
}

// Look returns the volumes, with the results of their Jobs.
func (v Volumes) Look(ctx context.Context, task tasks.Task, s *cluster.Snapshot) ([]survey.Volume, error) {
	volumes, err := v.surveyor().Look(ctx, v.Order(task, s))
	return volumes, coded.Error(v1alpha1.ErrObserve, err)
}

// Perform carries out a step whose detail is a Survey.
func (v Volumes) Perform(ctx context.Context, task tasks.Task, s Survey) error {
	order := v.Order(task, s.Snapshot)
	order.KeptFor = s.KeptFor
	return coded.Error(v1alpha1.ErrObserve, v.surveyor().Go(ctx, order, s.Volumes))
}

// Cleanup removes the Jobs. The Etcd controller scales the StatefulSet up by itself, once the task has ended or is gone.
func (v Volumes) Cleanup(ctx context.Context, task tasks.Task) error {
	return coded.Error(v1alpha1.ErrObserve, v.surveyor().Remove(ctx, v.Order(task, &cluster.Snapshot{})))
}

func (v Volumes) surveyor() survey.Surveyor {
	return survey.Surveyor{Client: v.Client, Live: v.Live, Clock: v.Clock}
}

// Order returns what to survey. The round is the generation of the StatefulSet: if members were started in between, they may have written,
// so their volumes are surveyed again.
func (v Volumes) Order(task tasks.Task, s *cluster.Snapshot) survey.Order {
	return survey.Order{
		Etcd: task.Etcd, Owner: job.OfTask(task.Object), Members: Members(task.Etcd), Beyond: v.Beyond, Round: strconv.FormatInt(s.StatefulSet.Generation, 10),
		Image: v.Image, Timeout: Deadline,
	}
}

// Members returns how many members the cluster is known to have, and is started with. It may not have grown to spec.replicas yet.
func Members(etcd *v1alpha1.Etcd) int32 {
	if etcd == nil {
		return 0
	}
	if size := etcd.Status.ClusterSize; size > 0 {
		return size
	}
	return etcd.Spec.Replicas
}
