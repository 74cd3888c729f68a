// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package hibernation stops a cluster, keeps its data in a final snapshot if its volumes are to be deleted, and wakes it up again
// (docs/adr/0010-sleep-without-volumes.md).
package hibernation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/base/servertime"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	"github.com/etcd-foreman/etcd-foreman/internal/job/storeaccess"
	"github.com/etcd-foreman/etcd-foreman/internal/job/survey"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;create;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=delete

// jobTimeout is the timeout of the Jobs of a hibernation, which read and write at most a database.
const jobTimeout = 4 * time.Hour

// Hibernator hibernates clusters, and wakes them up.
type Hibernator struct {
	state.Access
	// Images for an Etcd that does not name its own.
	Images configv1alpha1.Images
}

// View is the progress of a hibernation.
type View struct {
	// Record of the hibernation without volumes from now on; nil if there is none.
	Record    *v1alpha1.Hibernation
	Condition metav1.Condition
}

// Hibernate takes the next step of a hibernation; the View is nil if the cluster is not to hibernate. It is called after the spec was
// applied; settled: the cache shows each object as applied.
func (h Hibernator) Hibernate(ctx context.Context, s *state.State, held, settled bool, objects *apply.Session) (*View, error) {
	etcd := s.Etcd
	if etcd.Spec.Replicas > 0 || s.StatefulSet == nil || held || etcd.SourceStays() {
		return nil, nil
	}
	f := input{
		blocked: cmp.Or(Blocked(etcd, s.StatefulSet), Loses(etcd, s.StatefulSet, s.Snapshot, s.Claims)), pods: s.StatefulSet.Status.Replicas, deletes: etcd.Spec.Retention().WhenScaled == v1alpha1.VolumesDeleted,
		obstacle: obstacle(s, s.Tasks), record: etcd.Status.Hibernation,
		clusterID: etcd.Status.ClusterID, size: int(etcd.Status.ClusterSize), round: strconv.FormatInt(etcd.Generation, 10),
	}
	if err := h.find(ctx, s, settled, &f); err != nil {
		return nil, err
	}
	d := decide(f, h.Clock.Now())
	if err := h.carryOut(ctx, etcd, f, d, objects); err != nil {
		return nil, err
	}
	return &View{Record: d.record, Condition: d.condition}, nil
}

// find reads the input of a decision. It does not query the API server for a cluster that is already hibernated.
func (h Hibernator) find(ctx context.Context, s *state.State, settled bool, f *input) (err error) {
	etcd := s.Etcd
	switch {
	case f.blocked != "" || f.pods > 0:
		return nil
	case f.record == nil && !f.deletes:
		// Only a cluster that was to hibernate without its volumes before may have Jobs.
		if etcd.Status.Conditions.IsFalse(v1alpha1.ConditionHibernated) {
			f.jobs, err = job.AnyLeft(ctx, h.API, etcd, h.jobKeys(etcd))
		}
		return err
	case f.record == nil && f.clusterID == "":
		// Its size was never recorded.
		f.claims, err = h.identities(ctx, h.Client, etcd, survey.MaxMembers)
		return err
	case f.record == nil && f.obstacle != "":
		return nil
	case f.record != nil:
		if f.claims, err = h.identities(ctx, h.Client, etcd, membersOf(etcd)); err != nil || len(f.claims) == 0 {
			return err
		}
	}
	if f.stopped, err = h.stopped(ctx, etcd, settled); err != nil || !f.stopped {
		return err
	}
	if f.record != nil {
		f.claims, err = h.identities(ctx, h.API, etcd, membersOf(etcd))
		return err
	}
	tasks, err := etcdtasks.List(ctx, h.API, etcd)
	if err != nil {
		return err
	}
	if f.obstacle = obstacle(s, tasks); f.obstacle != "" {
		return nil
	}
	if f.volumes, err = h.Surveyor().Look(ctx, h.order(etcd)); err != nil {
		return err
	}
	f.final, err = h.findFinal(ctx, etcd)
	return err
}

// stopped reports whether no member is running and none can be started. The applied objects, including the configuration of the members,
// have no members, so a pod that is started without the operator does not find itself among them.
func (h Hibernator) stopped(ctx context.Context, etcd *v1alpha1.Etcd, settled bool) (bool, error) {
	if !settled {
		return false, nil
	}
	snapshot, err := h.Observe(ctx, h.API, etcd)
	if err != nil || snapshot == nil {
		return false, err
	}
	return snapshot.StatefulSet.Observed && snapshot.Replicas() == 0 && len(snapshot.Surplus) == 0, nil
}

// membersOf returns how many members may have a claim that a hibernation deletes: those of the cluster, and those beyond that its record
// names, which joined while no operator was running.
func membersOf(etcd *v1alpha1.Etcd) int32 {
	members := etcd.Status.ClusterSize
	if record := etcd.Status.Hibernation; record != nil {
		for i := range int32(survey.MaxMembers) {
			if slices.ContainsFunc(record.Claims, func(c v1alpha1.HibernatedClaim) bool { return c.Name == etcd.ClaimName(i) }) {
				members = max(members, i+1)
			}
		}
	}
	return members
}

// identities returns the existing claims of a number of members that are the Etcd's own.
func (h Hibernator) identities(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd, members int32) (found []v1alpha1.HibernatedClaim, err error) {
	claims, err := state.Claims(ctx, reader, etcd, members)
	for i := range claims {
		if ownership.OfClaim(etcd, &claims[i]) == nil {
			found = append(found, v1alpha1.HibernatedClaim{Name: claims[i].Name, UID: claims[i].UID})
		}
	}
	return found, err
}

func (h Hibernator) order(etcd *v1alpha1.Etcd) survey.Order {
	return survey.Order{
		Etcd: etcd, Owner: job.OfEtcd(etcd), Members: etcd.Status.ClusterSize, Round: strconv.FormatInt(etcd.Generation, 10), Image: h.Images.EtcdAgent, Timeout: jobTimeout,
	}
}

func finalKey(etcd *v1alpha1.Etcd) client.ObjectKey {
	return client.ObjectKey{Namespace: etcd.Namespace, Name: job.Name(etcd) + "-final"}
}

func (h Hibernator) findFinal(ctx context.Context, etcd *v1alpha1.Etcd) (finalJob, error) {
	found, foreign, err := job.Find(ctx, h.API, etcd, finalKey(etcd))
	switch {
	case err != nil:
		return finalJob{}, err
	case foreign != nil:
		return finalJob{foreign: foreign.String()}, nil
	case found == nil:
		return finalJob{}, nil
	}
	f := finalJob{uid: found.UID, subject: found.Annotations[v1alpha1.AnnotationJobSubject]}
	if found.DeletionTimestamp != nil {
		f.subject = ""
		return f, nil
	}
	if f.state, err = job.Look(ctx, h.Client, h.API, found, h.Clock.Now()); err != nil || f.state.Running {
		return f, err
	}
	f.retry, err = servertime.Left(ctx, h.Client, found.CreationTimestamp.Time, retryFinalSnapshot, h.Clock.Now())
	return f, err
}

// carryOut takes the step of a decision.
func (h Hibernator) carryOut(ctx context.Context, etcd *v1alpha1.Etcd, f input, d decision, objects *apply.Session) (err error) {
	if d.step == wait {
		return nil
	}
	if owned, err := objects.Owned(ctx); err != nil || !owned {
		return err
	}
	switch d.step {
	case wait:
	case surveyVolumes:
		err = h.Surveyor().Go(ctx, h.order(etcd), f.volumes)
	case takeSnapshot:
		err = h.takeFinal(ctx, etcd, f, d.source)
	case dropSnapshot:
		err = job.Remove(ctx, h.Client, h.API, etcd, finalKey(etcd))
	case deleteClaims:
		if err = h.removeJobs(ctx, etcd); err == nil {
			left, _ := leftOver(f.record, f.claims)
			err = h.deleteClaims(ctx, etcd, left)
		}
	case removeJobs:
		err = h.removeJobs(ctx, etcd)
	}
	return err
}

func (h Hibernator) takeFinal(ctx context.Context, etcd *v1alpha1.Etcd, f input, source survey.Volume) error {
	stores, err := storeaccess.Own(etcd)
	if err != nil {
		return err
	}
	key := finalKey(etcd)
	j, err := job.Build(job.Spec{
		Owner: job.OfEtcd(etcd), Name: key.Name, Subject: f.subject(source), Component: v1alpha1.ComponentFinalSnapshotJob,
		Image: cmp.Or(ptr.Deref(etcd.Spec.Backup.Image, ""), h.Images.EtcdAgent),
		Args: []string{
			"final-snapshot", "--data-dir=" + member.DataDir, "--cluster-id=" + f.clusterID, "--compression=" + component.SnapshotCompression(etcd),
		},
		Stores: stores, Claim: source.Claim, ClaimDir: member.VolumeDir, WorkDir: true, WorkLimit: job.WorkLimit(etcd), Database: etcd, Timeout: jobTimeout,
	})
	if err != nil {
		return fmt.Errorf("building the Job that takes the final snapshot of Etcd %s: %w", client.ObjectKeyFromObject(etcd), err)
	}
	// If it already exists, the next reconcile reads it.
	if err := h.Client.Create(ctx, j); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating Job %s: %w", key, err)
	}
	return nil
}

// jobKeys returns the keys of the Jobs of a hibernation.
func (h Hibernator) jobKeys(etcd *v1alpha1.Etcd) []client.ObjectKey {
	return append(h.order(etcd).Jobs(), finalKey(etcd))
}

func (h Hibernator) removeJobs(ctx context.Context, etcd *v1alpha1.Etcd) error {
	return job.Remove(ctx, h.Client, h.API, etcd, h.jobKeys(etcd)...)
}

// deleteClaims deletes the claims in the record of a hibernation, unless they were recreated or are no longer the Etcd's. The live Etcd
// must have that record.
func (h Hibernator) deleteClaims(ctx context.Context, etcd *v1alpha1.Etcd, claims []v1alpha1.HibernatedClaim) error {
	if len(claims) == 0 {
		return nil
	}
	reads := h.Live()
	live, err := reads.Etcd(ctx, etcd)
	if err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(live.Status.Hibernation, etcd.Status.Hibernation) {
		return state.Behind(ctx, "Etcd %s no longer gives up these volumes", client.ObjectKeyFromObject(etcd))
	}
	for _, c := range claims {
		key := client.ObjectKey{Namespace: etcd.Namespace, Name: c.Name}
		claim, err := lookup.Get[corev1.PersistentVolumeClaim](ctx, h.API, "claim", key)
		if err != nil {
			return err
		} else if claim == nil || claim.UID != c.UID || claim.DeletionTimestamp != nil || ownership.OfClaim(etcd, claim) != nil {
			continue
		}
		if err := reads.Fresh(ctx); err != nil {
			return err
		}
		err = h.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID, ResourceVersion: &claim.ResourceVersion})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			// A changed claim is read again.
			continue
		}
		if err != nil {
			return fmt.Errorf("deleting claim %s: %w", key, err)
		}
		ctrl.LoggerFrom(ctx).Info("Deleted a claim whose data is in the final snapshot", "claim", c.Name, "uid", c.UID)
	}
	return nil
}
