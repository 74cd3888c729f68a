// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package read reads what the assessment of pods rests on: whole pods, which caches do not keep, and ControllerRevisions.
package read

import (
	"context"
	"fmt"
	"sync"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reader reads through another one, and keeps the pods that were listed last.
type Reader struct {
	client.Reader
	// Known are the templates that need not be read again; nil if all are.
	Known *Known
	pods  []corev1.Pod
}

// List implements client.Reader.
func (r *Reader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := r.Reader.List(ctx, list, options...); err != nil {
		return err
	}
	if pods, ok := list.(*corev1.PodList); ok {
		r.pods = pods.Items
	}
	return nil
}

// Assess assesses the pods that were listed last, as far as they are not at a revision. Refused says why the API server has
// refused to update a pod; empty if it has not.
func (r *Reader) Assess(ctx context.Context, namespace string, set cluster.StatefulSet, target string, refused func(types.UID) string) (map[types.UID]inplace.Assessment, error) {
	templates := map[string]*inplace.Template{}
	assessed := map[types.UID]inplace.Assessment{}
	for i := range r.pods {
		pod := &r.pods[i]
		of := metav1.GetControllerOf(pod)
		if of == nil || of.UID != set.UID || pod.DeletionTimestamp != nil || pod.Labels[appsv1.StatefulSetRevisionLabel] == target && cluster.MarkOf(pod) == nil {
			continue
		}
		for _, name := range inplace.Revisions(pod, target) {
			if _, known := templates[name]; known || name == "" {
				continue
			}
			template := r.Known.get(set.UID, name)
			if template == nil {
				var err error
				if template, err = r.template(ctx, client.ObjectKey{Namespace: namespace, Name: name}, set.UID); err != nil {
					return nil, err
				}
				r.Known.put(set.UID, name, template)
			}
			templates[name] = template
		}
		assessed[pod.UID] = inplace.Assess(inplace.Input{Pod: pod, TargetName: target, Templates: templates, Refused: refused(pod.UID)})
	}
	return assessed, nil
}

// template is that of a ControllerRevision of a StatefulSet; nil if there is none that can be read.
func (r *Reader) template(ctx context.Context, key client.ObjectKey, set types.UID) (*inplace.Template, error) {
	revision := &appsv1.ControllerRevision{}
	if err := r.Get(ctx, key, revision); apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading ControllerRevision %s: %w", key, err)
	}
	if of := metav1.GetControllerOf(revision); of == nil || of.UID != set {
		return nil, nil
	}
	template, err := inplace.ParseTemplate(revision.Data.Raw)
	if err != nil {
		// It counts as missing: the pod is replaced.
		return nil, nil
	}
	return template, nil
}

// Known are the templates of ControllerRevisions that were read before. For one StatefulSet, a name stands for one template: the
// StatefulSet controller makes it of a hash, and the data cannot be changed. If a revision is deleted, its pods
// still have the template that was read; if it is created again with other data, they do not have that. What is missing is
// not kept, so it is looked for again.
type Known struct {
	mu        sync.Mutex
	set       types.UID
	templates map[string]*inplace.Template
}

// maxKnown bounds Known. It is more than a rollout of a few pods whose template does not change all the time needs.
const maxKnown = 16

// get returns the template of a revision; nil if it is not known.
func (k *Known) get(set types.UID, name string) *inplace.Template {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.set != set {
		return nil
	}
	return k.templates[name]
}

// put keeps the template of a revision, unless there is none.
func (k *Known) put(set types.UID, name string, template *inplace.Template) {
	if k == nil || template == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.set != set || len(k.templates) >= maxKnown {
		k.set, k.templates = set, map[string]*inplace.Template{}
	}
	k.templates[name] = template
}
