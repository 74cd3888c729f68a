// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/engine"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxPrints bounds the fingerprints that are kept.
const maxPrints = 20000

// fingerprints identify what a task changes: the difference, and the whole new template. Both are empty for a task that changes nothing, and
// the target for a restart.
type fingerprints struct{ change, target string }

// change returns the fingerprints of a task. A restart brings outdated pods the new template; while it is unknown whether pods are outdated, the
// task waits.
func (c *Controller) change(ctx context.Context, task tasks.Task) (fingerprints, error) {
	if !task.Object.Spec.Type.IsRollout() {
		return fingerprints{}, nil
	}
	set, to, err := c.aim(ctx, task.Object)
	if err != nil {
		return fingerprints{}, err
	}
	from, outdated, err := c.oldest(ctx, set, to)
	if err != nil {
		return fingerprints{}, err
	}
	if !outdated {
		return fingerprints{change: fleet.Restart}, nil
	}
	return c.difference(ctx, task, set, from, to)
}

// brought returns the fingerprints of a task that runs. If no pod is outdated any more, they are those of the whole template: the pods may have it
// from this task.
func (c *Controller) brought(ctx context.Context, task tasks.Task) (fingerprints, error) {
	t := task.Object
	is, err := c.change(ctx, task)
	if err != nil || is.change != fleet.Restart || rollout.TargetOf(t).Restart || t.Status.Change == fleet.Restart {
		return is, err
	}
	set, to, err := c.aim(ctx, t)
	if err != nil {
		return fingerprints{}, err
	}
	if is, err = c.difference(ctx, task, set, nil, to); err != nil {
		return fingerprints{}, err
	}
	is.change = cmp.Or(t.Status.Change, is.change)
	return is, nil
}

// aim returns the StatefulSet of a rollout, and the revision that the rollout brings the pods.
func (c *Controller) aim(ctx context.Context, t *v1alpha1.EtcdOperatorTask) (*appsv1.StatefulSet, string, error) {
	set := &appsv1.StatefulSet{}
	if err := c.Live.Get(ctx, t.EtcdKey(), set); err != nil {
		return nil, "", fmt.Errorf("reading StatefulSet %s: %w", t.EtcdKey(), err)
	}
	target := rollout.TargetOf(t)
	if target.Revision != "" && !target.Restart {
		return set, target.Revision, nil
	}
	if set.Status.ObservedGeneration < set.Generation {
		return nil, "", &engine.Wait{Reason: v1alpha1.ReasonWaitingForSlot, RequeueAfter: stale, Message: fmt.Sprintf(
			"the StatefulSet controller has not seen the newest spec of StatefulSet %s yet, so it is not known what the task changes: if this persists, check kube-controller-manager", set.Name)}
	}
	return set, set.Status.UpdateRevision, nil
}

// difference returns the fingerprints of what changes from a revision to another. If no revision of the pods is left, all of the new template is
// the change.
func (c *Controller) difference(ctx context.Context, task tasks.Task, set *appsv1.StatefulSet, from *appsv1.ControllerRevision, to string) (fingerprints, error) {
	current, name := nothing, ""
	if from != nil {
		current, name = from.Data.Raw, from.Name
	}
	key := strings.Join([]string{string(set.UID), name, to}, "/")
	if known := c.print(key); known.change != "" {
		return known, nil
	}
	after, err := c.revision(ctx, set, to)
	if err != nil {
		return fingerprints{}, err
	}
	if after == nil {
		// The template has changed again: the task is about to be superseded.
		return fingerprints{change: "v1-unknown-" + to}, nil
	}
	names := fleet.Names{Etcd: task.Etcd.Name, Namespace: task.Object.Namespace, UID: string(task.Etcd.UID)}
	var found fingerprints
	if found.target, err = fleet.Fingerprint(nothing, after.Data.Raw, names); err != nil {
		return fingerprints{}, err
	}
	if found.change, err = fleet.Fingerprint(current, after.Data.Raw, names); err != nil {
		return fingerprints{}, err
	}
	c.keep(key, found)
	return found, nil
}

// nothing is an empty template: the difference to it is a whole template.
var nothing = []byte("{}")

// oldest returns the oldest revision of the pods that are not at a target, nil if none is left, and whether there are any.
func (c *Controller) oldest(ctx context.Context, set *appsv1.StatefulSet, target string) (oldest *appsv1.ControllerRevision, outdated bool, err error) {
	pods := &corev1.PodList{}
	if err := c.Client.List(ctx, pods, client.InNamespace(set.Namespace), client.MatchingLabels{v1alpha1.LabelPartOf: set.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, false, fmt.Errorf("listing the pods of StatefulSet %s/%s: %w", set.Namespace, set.Name, err)
	}
	var names []string
	for i := range pods.Items {
		if name := pods.Items[i].Labels[appsv1.StatefulSetRevisionLabel]; name != "" && name != target && metav1.IsControlledBy(&pods.Items[i], set) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		r, err := c.revision(ctx, set, name)
		if err != nil {
			return nil, false, err
		}
		if oldest == nil || r != nil && r.Revision < oldest.Revision {
			oldest = r
		}
	}
	return oldest, len(names) > 0, nil
}

// revision reads a revision of a StatefulSet; nil if there is none.
func (c *Controller) revision(ctx context.Context, set *appsv1.StatefulSet, name string) (*appsv1.ControllerRevision, error) {
	r, err := lookup.Get[appsv1.ControllerRevision](ctx, c.Live, "ControllerRevision", types.NamespacedName{Namespace: set.Namespace, Name: name})
	if err != nil || r == nil || !metav1.IsControlledBy(r, set) {
		return nil, err
	}
	return r, nil
}

func (c *Controller) print(key string) fingerprints {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.prints[key]
}

func (c *Controller) keep(key string, found fingerprints) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.prints) >= maxPrints {
		clear(c.prints)
	}
	c.prints[key] = found
}
