// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// watch follows the pods of the StatefulSet until the context ends. It returns once it has seen the existing ones.
func (w *Writer) watch(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(w.kube, 0, informers.WithNamespace(w.options.Namespace))
	informer := factory.Core().V1().Pods().Informer()
	handler, err := informer.AddEventHandler(cache.FilteringResourceEventHandler{
		FilterFunc: w.isMember,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { w.see(ctx, object.(*corev1.Pod)) },
			UpdateFunc: func(_, object any) { w.see(ctx, object.(*corev1.Pod)) },
			DeleteFunc: w.miss,
		},
	})
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		return fmt.Errorf("watching pods: %w", context.Cause(ctx))
	}
	return nil
}

// isMember reports whether an object is a pod of the StatefulSet. Labels would not distinguish it from the pod of a backup
// job.
func (w *Writer) isMember(object any) bool {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return false
	}
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "StatefulSet" && owner.Name == w.options.StatefulSet
}

func (w *Writer) see(ctx context.Context, pod *corev1.Pod) {
	w.pods.record(pod.Name, stateOf(pod), time.Now())
	if pod.Status.Phase == corev1.PodRunning {
		w.members.follow(ctx, w.member(pod), w.use)
	}
}

func (w *Writer) miss(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	pod := object.(*corev1.Pod)
	w.pods.record(pod.Name, State{Class: v1alpha1.ClassMissing}, time.Now())
	w.members.leave(pod.UID)
}

// stateOf returns the state of a pod.
func stateOf(pod *corev1.Pod) State {
	s := State{UID: pod.UID, Revision: pod.Labels[appsv1.StatefulSetRevisionLabel], Class: v1alpha1.ClassStarting}
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name != v1alpha1.ContainerEtcd {
			continue
		}
		switch {
		case c.State.Running != nil && c.Ready:
			s.Class = v1alpha1.ClassParticipating
		case c.State.Running != nil:
			s.Class = v1alpha1.ClassUnready
		case c.State.Terminated != nil, c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff":
			s.Class = v1alpha1.ClassDead
		}
	}
	if pod.DeletionTimestamp != nil {
		s.Class = v1alpha1.ClassTerminating
	}
	return s
}
