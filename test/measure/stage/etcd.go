// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/measure"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// WaitEtcd waits until the status of the Etcd reports that it is up to date and ready.
func (c Cluster) WaitEtcd(ctx context.Context, note Note) error {
	return until(ctx, waitTimeout, "Etcd "+c.Key().String(), note, func(ctx context.Context) (string, error) {
		etcd := &v1alpha1.Etcd{}
		if err := c.Client.Get(ctx, c.Key(), etcd); err != nil {
			return "", fmt.Errorf("reading Etcd %s: %w", c.Key(), err)
		}
		if etcd.Status.ObservedGeneration < etcd.Generation {
			return "the operator has not applied the newest spec", nil
		}
		for _, name := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionAllMembersReady, v1alpha1.ConditionAllMembersUpdated} {
			condition := etcd.Status.Conditions.Find(name)
			if condition == nil {
				return "there is no condition " + name, nil
			}
			if condition.Status != metav1.ConditionTrue {
				return fmt.Sprintf("condition %s is %s: %s", name, condition.Status, condition.Message), nil
			}
		}
		return "", nil
	})
}

// TLS returns the configuration for the client port of each member. The Etcd has managed TLS, or none.
func (c Cluster) TLS(ctx context.Context) (func(*corev1.Pod) *tls.Config, error) {
	secret, key := &corev1.Secret{}, c.Key()
	key.Name = (&v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: c.Name}}).ClientSecret()
	if err := c.Client.Get(ctx, key, secret); apierrors.IsNotFound(err) {
		return func(*corev1.Pod) *tls.Config { return nil }, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	return measure.TLSFrom(secret)
}

// errEnded is the error of a task that did not succeed.
var errEnded = errors.New("the rollout did not succeed")

// WaitRollout waits until the task of the rollout to a revision has succeeded.
func (c Cluster) WaitRollout(ctx context.Context, revision string, note Note) error {
	var bad error
	err := until(ctx, waitTimeout, "the rollout of "+c.Key().String(), note, func(ctx context.Context) (string, error) {
		task, err := c.rollout(ctx, revision)
		if err != nil || task == nil {
			return "there is no task for it yet", err
		}
		if !task.Status.State.IsFinal() {
			return task.Status.Progress + " pods are updated" + heldBy(task), nil
		}
		if task.Status.State != v1alpha1.TaskStateSucceeded {
			bad = fmt.Errorf("%w: task %s is %s", errEnded, task.Name, task.Status.State)
		}
		return "", nil
	})
	return errors.Join(err, bad)
}

func heldBy(task *v1alpha1.EtcdOperatorTask) string {
	if r := task.Status.Rollout; r != nil && r.HeldBy != nil {
		return ", blocked by " + string(r.HeldBy.Guard)
	}
	return ""
}

// rollout returns the task that brings the pods to a revision; nil if there is none yet.
func (c Cluster) rollout(ctx context.Context, revision string) (*v1alpha1.EtcdOperatorTask, error) {
	tasks := &v1alpha1.EtcdOperatorTaskList{}
	if err := c.Client.List(ctx, tasks, client.InNamespace(c.Namespace)); err != nil {
		return nil, fmt.Errorf("listing tasks: %w", err)
	}
	for i, task := range tasks.Items {
		if task.EtcdKey() == c.Key() && task.Status.Rollout != nil && task.Status.Rollout.TargetRevision == revision {
			return &tasks.Items[i], nil
		}
	}
	return nil, nil
}

// Orphan deletes the Etcd without its objects and waits until the StatefulSet has no owner.
func (c Cluster) Orphan(ctx context.Context, note Note) error {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}}
	if err := c.Client.Delete(ctx, etcd, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		return fmt.Errorf("orphaning the objects of Etcd %s: %w", c.Key(), err)
	}
	return until(ctx, waitTimeout, "StatefulSet "+c.Key().String()+" to be an orphan", note, func(ctx context.Context) (string, error) {
		set, err := c.StatefulSet(ctx)
		if err != nil || len(set.OwnerReferences) > 0 {
			return "the StatefulSet still belongs to an Etcd", err
		}
		if err := c.Client.Get(ctx, c.Key(), etcd); !apierrors.IsNotFound(err) {
			return "the Etcd is still there", err
		}
		return "", nil
	})
}
