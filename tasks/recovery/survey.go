// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/component"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	"github.com/etcd-foreman/etcd-foreman/internal/member"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// volumes looks at the claim of each ordinal, and at the Job that surveys it.
func (h *Handler) volumes(ctx context.Context, task tasks.Task) ([]Volume, error) {
	n := members(task.Etcd)
	volumes := make([]Volume, 0, n)
	for i := range n {
		v := Volume{Member: task.Etcd.MemberName(component.PodName(task.Etcd.Name, i)), Claim: component.ClaimName(task.Etcd, i)}
		claim := &corev1.PersistentVolumeClaim{}
		err := h.Live.Get(ctx, client.ObjectKey{Namespace: task.Object.Namespace, Name: v.Claim}, claim)
		switch {
		case apierrors.IsNotFound(err):
			v.State = VolumeGone
		case err != nil:
			return nil, coded(fmt.Errorf("reading claim %s of member %s: %w", v.Claim, v.Member, err))
		default:
			if v, err = h.look(ctx, task, v, i); err != nil {
				return nil, err
			}
			if claim.DeletionTimestamp != nil {
				v = abandoned(v)
			}
		}
		volumes = append(volumes, v)
	}
	return volumes, nil
}

// look says how far the Job is that surveys a volume.
func (h *Handler) look(ctx context.Context, task tasks.Task, v Volume, ordinal int32) (Volume, error) {
	found := &batchv1.Job{}
	key := client.ObjectKey{Namespace: task.Object.Namespace, Name: jobName(task, ordinal)}
	if err := h.Live.Get(ctx, key, found); apierrors.IsNotFound(err) {
		v.State, v.Message = VolumeUnseen, fmt.Sprintf("Job %s is to look at claim %s of %s", key.Name, v.Claim, v.Member)
		return v, nil
	} else if err != nil {
		return v, coded(fmt.Errorf("reading Job %s: %w", key, err))
	}
	if !metav1.IsControlledBy(found, task.Object) {
		return v, coded(fmt.Errorf("reading Job %s: it is there already, and belongs to somebody else", key))
	}
	pods := &corev1.PodList{}
	if err := h.Live.List(ctx, pods, client.InNamespace(key.Namespace), client.MatchingLabels{batchv1.JobNameLabel: key.Name}); err != nil {
		return v, coded(fmt.Errorf("listing the pods of Job %s: %w", key, err))
	}
	return seen(v, key.Name, job.Judge(found, pods.Items, h.Clock.Now())), nil
}

// seen is a volume as its Job tells of it. It is pure.
func seen(v Volume, job string, s job.State) Volume {
	switch {
	case s.Running:
		v.State, v.Message = VolumeLooking, fmt.Sprintf("claim %s of %s is looked at: %s", v.Claim, v.Member, s.Message)
		return v
	case s.Code == "":
		if err := json.Unmarshal(s.Result, &v.Survey); err == nil && v.Survey.State != "" {
			v.State = VolumeSeen
			return v
		}
		s.Message = fmt.Sprintf("Job %s told nothing that can be read", job)
	}
	// What is on it may be all that there is, so nobody but a person can say that it does not matter.
	v.State, v.Message = VolumeUnread, fmt.Sprintf("it is not known what is on claim %s of %s: %s. Mend this, and delete Job %s to have it looked at again; "+
		"if the volume is lost for good, delete claim %s, and the recovery goes on without it", v.Claim, v.Member, s.Message, job, v.Claim)
	return v
}

// abandoned is a volume whose claim is being deleted. Whoever deletes it says that there is nothing on it to wait for.
func abandoned(v Volume) Volume {
	if v.State == VolumeLooking || v.State == VolumeUnread {
		v.State, v.Message = VolumeAbandoned, fmt.Sprintf("claim %s of %s is being deleted: nobody looks at it any more", v.Claim, v.Member)
		return v
	}
	return Volume{Member: v.Member, Claim: v.Claim, State: VolumeGone}
}

// survey creates a Job for each volume that has none, and removes those of volumes that were given up.
func (h *Handler) survey(ctx context.Context, task tasks.Task, volumes []Volume) error {
	for i, v := range volumes {
		switch v.State {
		case VolumeUnseen:
			j, err := h.job(task, v, int32(i))
			if err != nil {
				return coded(err)
			}
			if err := h.Client.Create(ctx, j); err != nil && !apierrors.IsAlreadyExists(err) {
				return coded(fmt.Errorf("creating Job %s for claim %s: %w", client.ObjectKeyFromObject(j), v.Claim, err))
			}
		case VolumeAbandoned:
			if err := h.removeJob(ctx, task, int32(i)); err != nil {
				return err
			}
		case VolumeGone, VolumeLooking, VolumeUnread, VolumeSeen:
		}
	}
	return nil
}

func (h *Handler) job(task tasks.Task, v Volume, ordinal int32) (*batchv1.Job, error) {
	image := ""
	if b := task.Etcd.Spec.Backup; b != nil && b.Image != nil {
		image = *b.Image
	}
	j, err := job.Build(job.Spec{
		Task: task.Object, Component: v1alpha1.ComponentSurveyJob, Image: cmp.Or(image, h.Image),
		Args: []string{"survey", "--data-dir=" + member.DataDir}, Claim: v.Claim, ClaimDir: member.VolumeDir, Timeout: Deadline,
	})
	if err != nil {
		return nil, fmt.Errorf("building the Job that looks at claim %s: %w", v.Claim, err)
	}
	j.Name = jobName(task, ordinal)
	return j, nil
}

func jobName(task tasks.Task, ordinal int32) string {
	return fmt.Sprintf("%s-%d", job.Name(task.Object), ordinal)
}

// removeJob removes the Job that looks at a volume, if there is one, so that its pod does not keep the volume from the
// member.
func (h *Handler) removeJob(ctx context.Context, task tasks.Task, ordinal int32) error {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: task.Object.Namespace, Name: jobName(task, ordinal)}}
	err := h.Client.Delete(ctx, j, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil && !apierrors.IsNotFound(err) {
		return coded(fmt.Errorf("removing Job %s: %w", client.ObjectKeyFromObject(j), err))
	}
	return nil
}
