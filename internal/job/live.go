// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/base/servertime"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podsOf returns the pods that a Job controls. The label is not enough: every author of pods can set it.
func podsOf(ctx context.Context, live client.Reader, j *batchv1.Job) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	if err := live.List(ctx, pods, client.InNamespace(j.Namespace), client.MatchingLabels{batchv1.JobNameLabel: j.Name}); err != nil {
		return nil, fmt.Errorf("listing the pods of Job %s: %w", client.ObjectKeyFromObject(j), err)
	}
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !metav1.IsControlledBy(&p, j) }), nil
}

// Look returns the state of a Job. The API server has created the Job, so its clock says whether the Job has taken too long to
// start; that of the operator only says when to ask. The Job is then read again: a pod is gone only after its Job has recorded it.
func Look(ctx context.Context, c client.Client, live client.Reader, j *batchv1.Job, now time.Time) (State, error) {
	pods, err := podsOf(ctx, live, j)
	if err != nil {
		return State{}, err
	}
	state := judge(j, pods, now)
	if age := now.Sub(state.StartingSince); state.StartingSince.IsZero() || age >= 0 && age < startDeadline {
		return state, nil
	}
	latest, err := lookup.Get[batchv1.Job](ctx, live, "Job", client.ObjectKeyFromObject(j))
	if err != nil {
		return State{}, err
	}
	if latest == nil || latest.UID != j.UID {
		return State{Running: true, Message: fmt.Sprintf("Job %s is gone", j.Name)}, nil
	}
	if now, err = servertime.Now(ctx, c); err != nil {
		return State{}, err
	}
	return judge(latest, pods, now), nil
}

// Find returns a Job of an owner; nil if there is none. It reports a foreign Job of that name as such.
func Find(ctx context.Context, live client.Reader, owner metav1.Object, key client.ObjectKey) (*batchv1.Job, *ownership.Foreign, error) {
	j, err := lookup.Get[batchv1.Job](ctx, live, "Job", key)
	if err != nil || j == nil {
		return nil, nil, err
	}
	if foreign := ownership.OfJob(owner, j); foreign != nil {
		return nil, foreign, nil
	}
	return j, nil, nil
}

// AnyLeft reports whether any of the given Jobs of an owner still exists. A Job is gone only after its pods.
func AnyLeft(ctx context.Context, live client.Reader, owner metav1.Object, keys []client.ObjectKey) (bool, error) {
	for _, key := range keys {
		if found, _, err := Find(ctx, live, owner, key); err != nil || found != nil {
			return found != nil, err
		}
	}
	return false, nil
}

// Remove deletes Jobs of an owner in the foreground: while a Job exists, its pods may exist. It does not touch a foreign Job.
func Remove(ctx context.Context, c client.Client, live client.Reader, owner metav1.Object, keys ...client.ObjectKey) error {
	for _, key := range keys {
		j, _, err := Find(ctx, live, owner, key)
		if err != nil {
			return err
		}
		if j == nil || j.DeletionTimestamp != nil {
			continue
		}
		err = c.Delete(ctx, j, client.PropagationPolicy(metav1.DeletePropagationForeground), client.Preconditions{UID: &j.UID})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("removing Job %s: %w", key, err)
		}
	}
	return nil
}

// Intervals at which a Job is read.
const (
	minPoll = 2 * time.Second
	maxPoll = 30 * time.Second
)

// Poll returns after how long to read a running Job again, besides the events of its pods. The interval grows with the time that the Job
// has run. It is pure.
func Poll(s State, now time.Time) time.Duration {
	if s.RunningSince.IsZero() {
		return minPoll
	}
	return min(max(now.Sub(s.RunningSince)/10, minPoll), maxPoll)
}

// RecordArgs returns the agent's flags for the newest snapshot that the leases of an Etcd record; none if they record none. The agent
// refuses a store of signed snapshots that ends before it.
func RecordArgs(ctx context.Context, live client.Reader, etcd *v1alpha1.Etcd) ([]string, error) {
	var record backup.Record
	for _, name := range []string{etcd.FullSnapshotLeaseName(), etcd.DeltaSnapshotLeaseName()} {
		key := types.NamespacedName{Namespace: etcd.Namespace, Name: name}
		lease, err := lookup.Get[coordinationv1.Lease](ctx, live, "lease", key)
		if err != nil {
			return nil, err
		} else if lease == nil {
			continue
		}
		r, err := backup.ParseRecord(ptr.Deref(lease.Spec.HolderIdentity, ""), ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time)
		if err != nil {
			return nil, fmt.Errorf("reading lease %s: %w", key, err)
		}
		record = record.Continued(r)
	}
	if record == (backup.Record{}) {
		return nil, nil
	}
	return []string{"--recorded-revision=" + strconv.FormatInt(record.Revision, 10), "--recorded-created=" + record.Created.Format(time.RFC3339)}, nil
}
