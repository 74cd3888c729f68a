// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcdtasks

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Creator creates the tasks that the operator creates by itself.
type Creator struct {
	Client client.Client
	// Live reads from the API server: by a cache, a task that was just created would be created again.
	Live     client.Reader
	Recorder events.EventRecorder
}

// suffixLength is the length of a suffix that cannot be predicted.
const suffixLength = 10

// Create creates a task whose name follows from its cause, so that the same cause has no second one; it reports whether it has created
// it, and not found it. Anyone may have created another task of that name before, for something else. An event says so, and the task gets
// a suffix that cannot be predicted.
func (c Creator) Create(ctx context.Context, etcd *v1alpha1.Etcd, t *v1alpha1.EtcdOperatorTask) (created bool, err error) {
	name := t.Name
	if err := c.Client.Create(ctx, t); err == nil {
		return true, nil
	} else if !apierrors.IsAlreadyExists(err) {
		return false, fmt.Errorf("creating task %s: %w", klog.KObj(t), err)
	}
	other := &v1alpha1.EtcdOperatorTask{}
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(t), other); err != nil {
		return false, fmt.Errorf("reading task %s, which exists already: %w", klog.KObj(t), err)
	}
	taken := unlike(other, t, etcd)
	if taken == "" {
		return false, nil
	}
	all, err := List(ctx, c.Live, etcd)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(all, func(o v1alpha1.EtcdOperatorTask) bool { return IsNamed(&o, name) && o.Spec.Type == t.Spec.Type }) {
		return false, nil
	}
	t.Name = name + "-" + strings.ToLower(rand.Text()[:suffixLength])
	if err := c.Client.Create(ctx, t); err != nil {
		return false, fmt.Errorf("creating task %s: %w", klog.KObj(t), err)
	}
	const note = "Task %s has the name of one that the operator creates for this Etcd, but %s: task %s was created instead. Delete the other one if it is not needed"
	ctrl.LoggerFrom(ctx).Info("Found a foreign task in the place of one to create", "found", name, "because", taken, "created", t.Name)
	c.Recorder.Eventf(etcd, other, corev1.EventTypeWarning, v1alpha1.ReasonTaskNameTaken, "CreateTask", note, name, taken, t.Name)
	return true, nil
}

// IsNamed reports whether a task has the name that Create was given, or one that it has made of that.
func IsNamed(t *v1alpha1.EtcdOperatorTask, name string) bool {
	return t.Name == name || strings.HasPrefix(t.Name, name+"-")
}

// unlike returns why a task that exists is not the one to create; empty if it may be.
func unlike(exists, t *v1alpha1.EtcdOperatorTask, etcd *v1alpha1.Etcd) string {
	switch {
	case exists.Spec.OwnerEtcdReference.Name != etcd.Name:
		return fmt.Sprintf("it is for Etcd %q", exists.Spec.OwnerEtcdReference.Name)
	case exists.Spec.Type != t.Spec.Type:
		return fmt.Sprintf("it is of type %q", exists.Spec.Type)
	}
	return Foreign(exists, etcd)
}
