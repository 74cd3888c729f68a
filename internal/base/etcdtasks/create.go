// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcdtasks

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/logging"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Creator creates the operator's own tasks.
type Creator struct {
	Client client.Client
	// Live reads from the API server: with a stale cache, a task that was just created would be created again.
	Live     client.Reader
	Recorder events.EventRecorder
}

const (
	// suffixLength is the length of a suffix.
	suffixLength = 10
	// maxTaken is how many tasks in a row may have the names that follow from each other.
	maxTaken = 5
)

// Create creates a task whose name is derived from its cause, so that a cause has only one task; it reports whether it created the task
// rather than found it. Someone may have created another task under that name, for something else. An event reports that, and the task gets
// a suffix that is derived from the other task, so that two operators choose the same name.
func (c Creator) Create(ctx context.Context, etcd *v1alpha1.Etcd, t *v1alpha1.EtcdOperatorTask) (created bool, err error) {
	name := t.Name
	var first *foreignTask
	for n := 0; ; n++ {
		if err := c.Client.Create(ctx, t); err == nil {
			c.report(ctx, etcd, name, first, t)
			return true, nil
		} else if !apierrors.IsAlreadyExists(err) {
			return false, fmt.Errorf("creating task %s: %w", klog.KObj(t), err)
		}
		other, err := c.inPlaceOf(ctx, etcd, t)
		if err != nil || other == nil {
			return false, err
		}
		if first == nil {
			first = other
			if exists, err := c.named(ctx, etcd, name, t.Spec.Type); err != nil || exists {
				return false, err
			}
		}
		t.Name = name + "-" + suffix(other.task.UID, n)
	}
}

// CreateDue creates a task that is due as Create does, and says why in the log and in an event of the Etcd.
func (c Creator) CreateDue(ctx context.Context, etcd *v1alpha1.Etcd, t *v1alpha1.EtcdOperatorTask, reason, why string) error {
	created, err := c.Create(ctx, etcd, t)
	if err != nil || !created {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Created a task", logging.KeyTask, klog.KObj(t), "type", t.Spec.Type, "reason", why)
	c.Recorder.Eventf(etcd, nil, corev1.EventTypeNormal, reason, "CreateTask", "Created task %s: %s", t.Name, why)
	return nil
}

// foreignTask is a task that has the name of one to create.
type foreignTask struct {
	task *v1alpha1.EtcdOperatorTask
	why  string
}

// inPlaceOf returns the foreign task that has the name of one to create; nil if it may be that task.
func (c Creator) inPlaceOf(ctx context.Context, etcd *v1alpha1.Etcd, t *v1alpha1.EtcdOperatorTask) (*foreignTask, error) {
	other := &v1alpha1.EtcdOperatorTask{}
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(t), other); err != nil {
		return nil, fmt.Errorf("reading task %s, which exists already: %w", klog.KObj(t), err)
	}
	if why := unlike(other, t, etcd); why != "" {
		return &foreignTask{other, why}, nil
	}
	return nil, nil
}

// named reports whether a task was created under a name with a suffix before.
func (c Creator) named(ctx context.Context, etcd *v1alpha1.Etcd, name string, is v1alpha1.TaskType) (bool, error) {
	all, err := List(ctx, c.Live, etcd)
	return slices.ContainsFunc(all, func(o v1alpha1.EtcdOperatorTask) bool { return IsNamed(&o, name) && o.Spec.Type == is }), err
}

func (c Creator) report(ctx context.Context, etcd *v1alpha1.Etcd, name string, other *foreignTask, t *v1alpha1.EtcdOperatorTask) {
	if other == nil {
		return
	}
	const note = "Task %s has the name of one that the operator creates for this Etcd, but %s: task %s was created instead. Delete the other one if it is not needed"
	ctrl.LoggerFrom(ctx).Info("Found a foreign task in the place of one to create", "found", name, "because", other.why, "created", t.Name)
	c.Recorder.Eventf(etcd, other.task, corev1.EventTypeWarning, v1alpha1.ReasonTaskNameTaken, "CreateTask", note, name, other.why, t.Name)
}

// suffix returns what follows from the UID of the task that has the name, which the API server chose when it was created. After several in
// a row, which are there to stop the operator, it cannot be predicted.
func suffix(uid types.UID, before int) string {
	if before+1 >= maxTaken {
		return strings.ToLower(rand.Text()[:suffixLength])
	}
	sum := sha256.Sum256([]byte(uid))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:suffixLength]
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
