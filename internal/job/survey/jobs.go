// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Surveyor surveys volumes.
type Surveyor struct {
	// Client writes to the API server, and Live reads from it: decisions on a survey do not come from a cache.
	Client client.Client
	Live   client.Reader
	Clock  clock.PassiveClock
}

// Order is what to survey, and for whom.
type Order struct {
	Etcd *v1alpha1.Etcd
	// Owner of the Jobs.
	Owner job.Owner
	// Members is the number of members that are known. Voters on their volumes may be more.
	Members int32
	// Beyond: claims of the Etcd's own beyond those are surveyed too, although an earlier Etcd may have left them.
	Beyond bool
	// Round distinguishes successive surveys for one owner, whose results may differ. Empty if an owner has only one.
	Round string
	// KeptFor is the UID of the task that is undone: what was set aside for it is described. Empty if none is.
	KeptFor string
	// Image of the agent for an Etcd that does not name its own.
	Image string
	// Timeout after which a Job is stopped.
	Timeout time.Duration
}

// MaxMembers is how many members an Etcd may have: five, which the API allows, and one that stands in while their volumes move.
const MaxMembers = 5 + 1

// maxVoters is how many voters a volume may name: those, and ten of a source cluster. Each costs a request in every reconcile, and what a
// volume holds is a tenant's word.
const maxVoters = MaxMembers + 10

// Look returns the volume of each ordinal, with the result of the Job that surveys it. A member may have joined while no operator
// watched: if the volumes name more voters than there are known members, it returns as many, and those beyond if they are ordered.
func (s Surveyor) Look(ctx context.Context, o Order) ([]Volume, error) {
	var volumes []Volume
	known, beyond := o.Members, int32(0)
	if o.Beyond {
		beyond = MaxMembers
	}
	for i := int32(0); i < max(known, beyond); i++ {
		v, err := s.ofOrdinal(ctx, o, i)
		if err != nil {
			return nil, err
		}
		volumes = append(volumes, v)
		known = max(known, int32(len(v.Survey.Voters)), int32(len(v.Survey.CommittedVoters)))
	}
	for last := len(volumes) - 1; int32(last) >= known && volumes[last].UID == ""; last-- {
		volumes = volumes[:last]
	}
	return volumes, nil
}

// ofOrdinal returns the volume of an ordinal.
func (s Surveyor) ofOrdinal(ctx context.Context, o Order, ordinal int32) (Volume, error) {
	v := Volume{Ordinal: ordinal, Member: o.Etcd.MemberName(o.Etcd.PodName(ordinal)), Claim: o.Etcd.ClaimName(ordinal)}
	claim := &corev1.PersistentVolumeClaim{}
	err := s.Live.Get(ctx, client.ObjectKey{Namespace: o.namespace(), Name: v.Claim}, claim)
	switch {
	case apierrors.IsNotFound(err):
		return v, nil
	case err != nil:
		return v, fmt.Errorf("reading claim %s of member %s: %w", v.Claim, v.Member, err)
	}
	if foreign := ownership.OfClaim(o.Etcd, claim); foreign != nil {
		v.State, v.Message = Foreign, foreign.String()
		return v, nil
	}
	v.UID = claim.UID
	if v, err = s.look(ctx, o, v); err != nil {
		return v, err
	}
	if claim.DeletionTimestamp != nil {
		v = abandoned(v)
	}
	return v, nil
}

// look adds the state of the Job that surveys a volume.
func (s Surveyor) look(ctx context.Context, o Order, v Volume) (Volume, error) {
	key := client.ObjectKey{Namespace: o.namespace(), Name: o.jobName(v.Ordinal)}
	found, foreign, err := job.Find(ctx, s.Live, o.Owner.Object, key)
	switch {
	case err != nil:
		return v, err
	case foreign != nil:
		v.State, v.Message = Foreign, fmt.Sprintf("claim %s of %s is not surveyed: %s", v.Claim, v.Member, foreign)
		return v, nil
	case found == nil:
		v.State, v.Message = Unseen, fmt.Sprintf("Job %s is about to survey claim %s of %s", key.Name, v.Claim, v.Member)
		return v, nil
	}
	if found.DeletionTimestamp != nil || found.Annotations[v1alpha1.AnnotationJobSubject] != o.subject(v) {
		v.State, v.Message = Abandoned, fmt.Sprintf("Job %s is being replaced by another that surveys claim %s of %s", key.Name, v.Claim, v.Member)
		return v, nil
	}
	state, err := job.Look(ctx, s.Client, s.Live, found, s.Clock.Now())
	if err != nil {
		return v, err
	}
	return seen(v, key.Name, state), nil
}

// seen returns a volume with the result of its Job. It is pure.
func seen(v Volume, job string, s job.State) Volume {
	switch {
	case s.ResultGone:
		v.State, v.Message = Abandoned, fmt.Sprintf("Job %s has surveyed claim %s of %s, and its pod was deleted with the result: another Job surveys it again", job, v.Claim, v.Member)
		return v
	case s.Running:
		v.State, v.Message = Looking, fmt.Sprintf("claim %s of %s is being surveyed: %s", v.Claim, v.Member, s.Message)
		return v
	case s.Code == "":
		err := json.Unmarshal(s.Result, &v.Survey)
		voters := max(len(v.Survey.Voters), len(v.Survey.CommittedVoters))
		if err == nil && v.Survey.State != "" && isID(v.Survey.ClusterID) && voters <= maxVoters {
			v.State = Seen
			return v
		}
		v.Survey = member.Survey{}
		s.Message = fmt.Sprintf("Job %s left no readable result", job)
		if voters > maxVoters {
			s.Message = fmt.Sprintf("Job %s names %d voters, more than %d", job, voters, maxVoters)
		}
	}
	// It may hold the only copy of the data, so only a person can decide to continue without it.
	v.State, v.Message = Unread, fmt.Sprintf("the content of claim %s of %s is unknown: %s. Fix this, and delete Job %s to survey the claim again; "+
		"if the volume is permanently lost, delete claim %s to go on without it", v.Claim, v.Member, s.Message, job, v.Claim)
	return v
}

// isID reports whether a text is the ID of a cluster, in hex, or empty. Commands in messages contain it.
func isID(text string) bool {
	_, err := strconv.ParseUint(text, 16, 64)
	return text == "" || err == nil
}

// abandoned returns a volume whose claim is being deleted: nothing on it is waited for.
func abandoned(v Volume) Volume {
	if v.State == Looking || v.State == Unread || v.State == Abandoned {
		v.State, v.Message = Abandoned, fmt.Sprintf("claim %s of %s is being deleted and is no longer surveyed", v.Claim, v.Member)
		return v
	}
	return Volume{Ordinal: v.Ordinal, Member: v.Member, Claim: v.Claim, State: Gone}
}

// Go creates a Job for each volume that has none, and removes the Jobs of abandoned volumes.
func (s Surveyor) Go(ctx context.Context, o Order, volumes []Volume) error {
	for _, v := range volumes {
		switch v.State {
		case Unseen:
			j, err := o.job(v)
			if err != nil {
				return err
			}
			// If it exists by now, the next Look judges it.
			if err := s.Client.Create(ctx, j); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("creating Job %s for claim %s: %w", client.ObjectKeyFromObject(j), v.Claim, err)
			}
		case Abandoned:
			if err := job.Remove(ctx, s.Client, s.Live, o.Owner.Object, client.ObjectKey{Namespace: o.namespace(), Name: o.jobName(v.Ordinal)}); err != nil {
				return err
			}
		case Gone, Looking, Unread, Seen, Foreign:
		}
	}
	return nil
}

func (o Order) job(v Volume) (*batchv1.Job, error) {
	env := []corev1.EnvVar{{Name: member.KeptForVariable, Value: cmp.Or(o.KeptFor, member.KeptForNone)}}
	j, err := job.Build(job.Spec{
		Owner: o.Owner, Name: o.jobName(v.Ordinal), Subject: o.subject(v), Component: v1alpha1.ComponentSurveyJob, Image: o.Etcd.AgentImage(o.Image),
		Args: []string{"survey", "--data-dir=" + member.DataDir}, Env: env, Claim: v.Claim, ClaimDir: member.VolumeDir, Database: o.Etcd, Timeout: o.Timeout,
	})
	if err != nil {
		return nil, fmt.Errorf("building the Job that surveys claim %s: %w", v.Claim, err)
	}
	return j, nil
}

func (o Order) jobName(ordinal int32) string {
	return fmt.Sprintf("%s-%d", job.Name(o.Owner.Object), ordinal)
}

// subject identifies what the Job of a volume surveys: this claim, not another of its name.
func (o Order) subject(v Volume) string {
	if o.Round == "" {
		return string(v.UID)
	}
	return o.Round + "/" + string(v.UID)
}

// Jobs returns the names of the Jobs that may survey volumes.
func (o Order) Jobs() []client.ObjectKey {
	keys := make([]client.ObjectKey, max(o.Members, MaxMembers))
	for i := range int32(len(keys)) {
		keys[i] = client.ObjectKey{Namespace: o.namespace(), Name: o.jobName(i)}
	}
	return keys
}

// Remove removes the Jobs that survey volumes, so that their pods do not keep volumes attached.
func (s Surveyor) Remove(ctx context.Context, o Order) error {
	return job.Remove(ctx, s.Client, s.Live, o.Owner.Object, o.Jobs()...)
}

func (o Order) namespace() string { return o.Owner.Object.GetNamespace() }
