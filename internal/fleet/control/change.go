// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxPrints bounds the fingerprints that are kept.
const maxPrints = 20000

// change returns the fingerprint of what a task changes; empty for one that changes nothing.
func (c *Controller) change(ctx context.Context, task tasks.Task) (string, error) {
	t := task.Object
	if !t.Spec.Type.IsRollout() {
		return "", nil
	}
	target := rollout.TargetOf(t)
	if target.Restart {
		return fleet.Restart, nil
	}
	set := &appsv1.StatefulSet{}
	if err := c.Live.Get(ctx, t.EtcdKey(), set); err != nil {
		return "", fmt.Errorf("reading StatefulSet %s: %w", t.EtcdKey(), err)
	}
	to := target.Revision
	if to == "" {
		to = set.Status.UpdateRevision
	}
	from, outdated, err := c.oldest(ctx, set, to)
	if err != nil || !outdated {
		return fleet.Restart, err
	}
	// If no revision of the pods is left, all of the new template is the change.
	current, name := []byte("{}"), ""
	if from != nil {
		current, name = from.Data.Raw, from.Name
	}
	key := strings.Join([]string{string(set.UID), name, to}, "/")
	if known := c.print(key); known != "" {
		return known, nil
	}
	after, err := c.revision(ctx, set, to)
	if err != nil {
		return "", err
	}
	if after == nil {
		// The template has changed again: the task is about to be superseded.
		return "v1-unknown-" + to, nil
	}
	found, err := fleet.Fingerprint(current, after.Data.Raw, fleet.Names{Etcd: task.Etcd.Name, Namespace: t.Namespace, UID: string(task.Etcd.UID)})
	if err == nil {
		c.keep(key, found)
	}
	return found, err
}

// oldest reports whether pods are not at a target, and returns the oldest of their revisions; nil if none is left.
func (c *Controller) oldest(ctx context.Context, set *appsv1.StatefulSet, target string) (oldest *appsv1.ControllerRevision, outdated bool, err error) {
	pods := &corev1.PodList{}
	if err := c.Client.List(ctx, pods, client.InNamespace(set.Namespace), client.MatchingLabels{v1alpha1.LabelPartOf: set.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, false, fmt.Errorf("listing the pods of StatefulSet %s/%s: %w", set.Namespace, set.Name, err)
	}
	seen := map[string]bool{target: true, "": true}
	for i := range pods.Items {
		name := pods.Items[i].Labels[appsv1.StatefulSetRevisionLabel]
		if seen[name] || !metav1.IsControlledBy(&pods.Items[i], set) {
			continue
		}
		seen[name], outdated = true, true
		r, err := c.revision(ctx, set, name)
		if err != nil {
			return nil, false, err
		}
		if r != nil && (oldest == nil || r.Revision < oldest.Revision) {
			oldest = r
		}
	}
	return oldest, outdated, nil
}

// revision reads a revision of a StatefulSet; nil if there is none.
func (c *Controller) revision(ctx context.Context, set *appsv1.StatefulSet, name string) (*appsv1.ControllerRevision, error) {
	r := &appsv1.ControllerRevision{}
	key := types.NamespacedName{Namespace: set.Namespace, Name: name}
	if err := c.Live.Get(ctx, key, r); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading ControllerRevision %s: %w", key, err)
	}
	if !metav1.IsControlledBy(r, set) {
		return nil, nil
	}
	return r, nil
}

func (c *Controller) print(key string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.prints[key]
}

func (c *Controller) keep(key, found string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.prints) >= maxPrints {
		clear(c.prints)
	}
	c.prints[key] = found
}
