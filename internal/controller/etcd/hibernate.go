// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/component"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	"github.com/etcd-foreman/etcd-foreman/internal/member"
	"github.com/etcd-foreman/etcd-foreman/internal/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/survey"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;create;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=delete

// jobTimeout is that of the Jobs by which a cluster is put to sleep. What they read and write is at most a database.
const jobTimeout = 4 * time.Hour

// hibernate carries on with putting a cluster to sleep. It comes after the spec was applied and the members observed.
func (r *Reconciler) hibernate(ctx context.Context, p *pass) error {
	etcd := p.etcd
	if etcd.Spec.Replicas > 0 || p.set == nil || p.held {
		return nil
	}
	s := sleep{
		awake: keptAwake(etcd, p.set), pods: p.set.Status.Replicas, deletes: etcd.Spec.Retention().WhenScaled == v1alpha1.VolumesDeleted,
		obstacle: obstacle(etcd), record: etcd.Status.Hibernation,
		clusterID: etcd.Status.ClusterID, size: int(etcd.Status.ClusterSize), round: strconv.FormatInt(etcd.Generation, 10),
	}
	if err := r.lookAsleep(ctx, p, &s); err != nil {
		return err
	}
	d := decideSleep(s, r.Clock.Now())
	if err := r.carryOut(ctx, p, s, d); err != nil {
		return err
	}
	p.hibernation, p.further = d.record, append(p.further, d.condition)
	return nil
}

// lookAsleep looks at what a decision needs. Of a cluster that sleeps as it should nothing is asked of the API server.
func (r *Reconciler) lookAsleep(ctx context.Context, p *pass, s *sleep) (err error) {
	switch {
	case s.awake != "" || s.pods > 0:
		return nil
	case s.record == nil && !s.deletes:
		// Only one that was to sleep without its volumes a moment ago may have Jobs.
		if meta.IsStatusConditionFalse(p.etcd.Status.Conditions, v1alpha1.ConditionHibernated) {
			s.jobs, err = r.jobsLeft(ctx, p.etcd)
		}
		return err
	case s.record == nil && s.clusterID == "":
		// Its size was never recorded.
		s.claims, err = identities(ctx, r.Client, p.etcd, maxMembers)
		return err
	case s.record == nil && s.obstacle != "":
		return nil
	case s.record != nil:
		if s.claims, err = identities(ctx, r.Client, p.etcd, p.etcd.Status.ClusterSize); err != nil || len(s.claims) == 0 {
			return err
		}
	}
	if s.stopped, err = r.stopped(ctx, p); err != nil || !s.stopped {
		return err
	}
	if s.record != nil {
		s.claims, err = identities(ctx, r.APIReader, p.etcd, p.etcd.Status.ClusterSize)
		return err
	}
	if s.volumes, err = r.surveyor().Look(ctx, r.order(p.etcd, p.etcd.Status.ClusterSize)); err != nil {
		return err
	}
	s.final, err = r.lookAtFinal(ctx, p.etcd)
	return err
}

// stopped tells whether no member runs, and none can be started: the members have been told that there are none, so
// that a pod that somebody else starts does not find itself among them.
func (r *Reconciler) stopped(ctx context.Context, p *pass) (bool, error) {
	if !p.settled {
		return false, nil
	}
	snapshot, err := r.observe(ctx, r.APIReader, p.etcd)
	if err != nil || snapshot == nil {
		return false, err
	}
	return snapshot.StatefulSet.Observed && snapshot.Replicas() == 0 && len(snapshot.Surplus) == 0, nil
}

// identities are the claims of so many members of an Etcd that exist and are its own.
func identities(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd, members int32) (found []v1alpha1.HibernatedClaim, err error) {
	claims, err := claimsOf(ctx, reader, etcd, members)
	for i := range claims {
		if ownership.OfClaim(etcd, &claims[i]) == nil {
			found = append(found, v1alpha1.HibernatedClaim{Name: claims[i].Name, UID: claims[i].UID})
		}
	}
	return found, err
}

func (r *Reconciler) surveyor() survey.Surveyor {
	return survey.Surveyor{Client: r.Client, Live: r.APIReader, Clock: r.Clock}
}

func (r *Reconciler) order(etcd *v1alpha1.Etcd, members int32) survey.Order {
	return survey.Order{
		Etcd: etcd, Owner: job.OfEtcd(etcd), Members: members, Round: strconv.FormatInt(etcd.Generation, 10), Image: r.Images.EtcdAgent, Timeout: jobTimeout,
	}
}

func finalKey(etcd *v1alpha1.Etcd) client.ObjectKey {
	return client.ObjectKey{Namespace: etcd.Namespace, Name: job.Name(etcd) + "-final"}
}

func (r *Reconciler) lookAtFinal(ctx context.Context, etcd *v1alpha1.Etcd) (finalJob, error) {
	found, foreign, err := job.Find(ctx, r.APIReader, etcd, finalKey(etcd))
	switch {
	case err != nil:
		return finalJob{}, err
	case foreign != nil:
		return finalJob{foreign: foreign.String()}, nil
	case found == nil:
		return finalJob{}, nil
	}
	f := finalJob{uid: found.UID, subject: found.Annotations[v1alpha1.AnnotationJobSubject], created: found.CreationTimestamp.Time}
	if found.DeletionTimestamp != nil {
		f.subject = ""
		return f, nil
	}
	pods, err := job.Pods(ctx, r.APIReader, found)
	if err != nil {
		return finalJob{}, err
	}
	f.state = job.Judge(found, pods, r.Clock.Now())
	return f, nil
}

// carryOut takes the step of a decision.
func (r *Reconciler) carryOut(ctx context.Context, p *pass, s sleep, d sleepDecision) (err error) {
	if d.step == rest {
		return nil
	}
	if owned, err := r.owns(ctx, p); err != nil || !owned {
		return err
	}
	etcd := p.etcd
	switch d.step {
	case rest:
	case surveyVolumes:
		err = r.surveyor().Go(ctx, r.order(etcd, int32(len(s.volumes))), s.volumes)
	case takeSnapshot:
		err = r.takeFinal(ctx, etcd, s, d.source)
	case dropSnapshot:
		err = job.Remove(ctx, r.Client, r.APIReader, etcd, finalKey(etcd))
	case deleteClaims:
		if err = r.removeJobs(ctx, etcd); err == nil {
			left, _ := leftOver(s.record, s.claims)
			err = r.deleteClaims(ctx, etcd, left)
		}
	case removeJobs:
		err = r.removeJobs(ctx, etcd)
	}
	return err
}

func (r *Reconciler) takeFinal(ctx context.Context, etcd *v1alpha1.Etcd, s sleep, source survey.Volume) error {
	access, err := component.Store(*component.BackupStore(etcd), etcd.Namespace, component.StoreMain)
	if err != nil {
		return err
	}
	key := finalKey(etcd)
	j, err := job.Build(job.Spec{
		Owner: job.OfEtcd(etcd), Name: key.Name, Subject: s.subject(source), Component: v1alpha1.ComponentFinalSnapshotJob,
		Image: cmp.Or(ptr.Deref(etcd.Spec.Backup.Image, ""), r.Images.EtcdAgent),
		Args: []string{
			"final-snapshot", "--data-dir=" + member.DataDir, "--cluster-id=" + s.clusterID, "--compression=" + component.SnapshotCompression(etcd),
		},
		Stores: []component.StoreAccess{access}, Claim: source.Claim, ClaimDir: member.VolumeDir, WorkDir: true, WorkLimit: job.WorkLimit(etcd), Database: etcd, Timeout: jobTimeout,
	})
	if err != nil {
		return fmt.Errorf("building the Job that takes the final snapshot of Etcd %s: %w", client.ObjectKeyFromObject(etcd), err)
	}
	// One that is there by now is looked at next time, like any other.
	if err := r.Client.Create(ctx, j); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating Job %s: %w", key, err)
	}
	return nil
}

// jobKeys are those of the Jobs by which a cluster is put to sleep.
func (r *Reconciler) jobKeys(etcd *v1alpha1.Etcd) []client.ObjectKey {
	return append(r.order(etcd, maxMembers).Jobs(), finalKey(etcd))
}

// jobsLeft reports whether the Etcd has such Jobs. One is gone only after its pods.
func (r *Reconciler) jobsLeft(ctx context.Context, etcd *v1alpha1.Etcd) (bool, error) {
	for _, key := range r.jobKeys(etcd) {
		if found, _, err := job.Find(ctx, r.APIReader, etcd, key); err != nil || found != nil {
			return found != nil, err
		}
	}
	return false, nil
}

func (r *Reconciler) removeJobs(ctx context.Context, etcd *v1alpha1.Etcd) error {
	for _, key := range r.jobKeys(etcd) {
		if err := job.Remove(ctx, r.Client, r.APIReader, etcd, key); err != nil {
			return err
		}
	}
	return nil
}

// deleteClaims deletes claims that the record of a hibernation gives up: none that was created again under its name, and none
// that is no longer the Etcd's. The live Etcd has to have that record.
func (r *Reconciler) deleteClaims(ctx context.Context, etcd *v1alpha1.Etcd, claims []v1alpha1.HibernatedClaim) error {
	if len(claims) == 0 {
		return nil
	}
	reads := readLive(r)
	live, err := reads.etcd(ctx, etcd)
	if err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(live.Status.Hibernation, etcd.Status.Hibernation) {
		return behind(ctx, "Etcd %s does not give up these volumes any more", client.ObjectKeyFromObject(etcd))
	}
	for _, c := range claims {
		key := client.ObjectKey{Namespace: etcd.Namespace, Name: c.Name}
		claim := &corev1.PersistentVolumeClaim{}
		if err := r.APIReader.Get(ctx, key, claim); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("reading claim %s: %w", key, err)
		}
		if claim.UID != c.UID || claim.DeletionTimestamp != nil || ownership.OfClaim(etcd, claim) != nil {
			continue
		}
		if err := reads.fresh(ctx); err != nil {
			return err
		}
		err := r.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID, ResourceVersion: &claim.ResourceVersion})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			// What has changed is looked at again.
			continue
		}
		if err != nil {
			return fmt.Errorf("deleting claim %s: %w", key, err)
		}
		ctrl.LoggerFrom(ctx).Info("Deleted a claim whose data is in the final snapshot", "claim", c.Name, "uid", c.UID)
	}
	return nil
}

// tellOfHibernation tells in an event that the volumes of a cluster that sleeps are given up, or why they are not.
func (r *Reconciler) tellOfHibernation(etcd *v1alpha1.Etcd, before, after *v1alpha1.EtcdStatus) {
	c := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionHibernated)
	b := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionHibernated)
	switch {
	case c == nil:
	case before.Hibernation == nil && after.Hibernation != nil:
		r.Recorder.Eventf(etcd, nil, corev1.EventTypeNormal, c.Reason, "DeleteVolumes", "%s", c.Message)
	case c.Reason == v1alpha1.ReasonNoFinalSnapshot && (b == nil || b.Reason != c.Reason):
		r.Recorder.Eventf(etcd, nil, corev1.EventTypeWarning, c.Reason, "KeepVolumes", "%s", c.Message)
	}
}
