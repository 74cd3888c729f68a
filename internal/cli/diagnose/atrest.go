// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/pods"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/diagnose"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	"github.com/etcd-foreman/etcd-foreman/internal/job/storeaccess"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// jobTimeout is how long a Job may read a snapshot, and jobTTL how long one is there after its end that the plugin could not delete.
	jobTimeout = 30 * time.Minute
	jobTTL     = time.Minute
	// removeTimeout bounds the creation and the deletion of a Job, also of one that the user no longer waits for.
	removeTimeout = 10 * time.Second
)

// readAtRest has a Job read the newest full snapshot in the backup store: to range over the keys of a member costs it too much.
func (g *gatherer) readAtRest(ctx context.Context) {
	if !g.LargePrefixes {
		return
	}
	found, err := g.atRest(ctx)
	if err != nil {
		g.miss(diagnose.SignalAtRest, err, "a backup store with a full snapshot, agents of this version, and the right to create, get and delete Jobs and to list pods in the namespace, as the ClusterRole edit has it")
		return
	}
	g.in.AtRest = atRest(found, g.clock.Now())
}

func (g *gatherer) atRest(ctx context.Context) (found backup.AtRest, err error) {
	j, err := g.atRestJob()
	if err != nil {
		return found, err
	}
	if err := g.createJob(ctx, j); err != nil {
		return found, fmt.Errorf("creating Job %s: %w", j.Name, err)
	}
	defer g.removeJob(ctx, j)
	if g.Note != nil {
		g.Note(fmt.Sprintf("Job %s reads the newest full snapshot. It is deleted afterwards.", j.Name))
	}
	for {
		if err := g.cluster.Get(ctx, client.ObjectKeyFromObject(j), j); err != nil {
			return found, fmt.Errorf("reading Job %s: %w", j.Name, err)
		}
		now := g.clock.Now()
		state, err := job.Look(ctx, g.cluster, g.cluster, j, now)
		switch {
		case err != nil:
			return found, err
		case state.Code != "":
			return found, kube.Failure("%s", state.Message)
		case !state.Running:
			if err := json.Unmarshal(state.Result, &found); err != nil || found.Snapshot == "" {
				return found, kube.Failure("Job %s left no readable result", j.Name)
			}
			return found, nil
		}
		select {
		case <-ctx.Done():
			return found, ctx.Err()
		case <-g.clock.After(job.Poll(state, now)):
		}
	}
}

// createJob creates a Job. It waits for the answer also if the user interrupts: a Job that exists has to be deleted.
func (g *gatherer) createJob(ctx context.Context, j *batchv1.Job) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	return g.cluster.Create(ctx, j)
}

// atRestJob builds the Job. It is the user's, and not the operator's, which neither owns nor labels it.
func (g *gatherer) atRestJob() (*batchv1.Job, error) {
	image := g.etcd.AgentImage("")
	for _, pod := range g.pods {
		image = cmp.Or(pods.Image(pod.Spec, v1alpha1.ContainerBackupRestore), image)
	}
	if g.etcd.BackupStore() == nil || image == "" {
		return nil, kube.Failure("Etcd %s has no backup store, or no pod with an agent", g.etcd.Name)
	}
	stores, err := storeaccess.Own(g.etcd)
	if err != nil {
		return nil, err
	}
	args := []string{"snapshot-prefixes"}
	if encryption := g.etcd.Encryption(); encryption != nil && encryption.AcceptPlainUntil != nil {
		args = append(args, "--store-plain-until="+encryption.AcceptPlainUntil.UTC().Format(time.RFC3339))
	}
	j, err := job.Build(job.Spec{
		Owner: job.OfEtcd(g.etcd), Name: jobName(g.etcd.Name, g.Suffix), Component: v1alpha1.ComponentDiagnosisJob, Image: image, Args: args,
		Stores: stores, WorkDir: true, WorkLimit: job.WorkLimit(g.etcd), Database: g.etcd, Timeout: jobTimeout,
	})
	if err != nil {
		return nil, err
	}
	j.OwnerReferences = nil
	delete(j.Labels, v1alpha1.LabelManagedBy)
	delete(j.Spec.Template.Labels, v1alpha1.LabelManagedBy)
	j.Spec.BackoffLimit, j.Spec.TTLSecondsAfterFinished = ptr.To[int32](0), ptr.To(int32(jobTTL.Seconds()))
	return j, nil
}

// jobName returns the name of a Job, which is at most as long as the name of a pod's label may be.
func jobName(etcd, suffix string) string {
	return fmt.Sprintf("%s-diagnosis-%s", strings.TrimRight(etcd[:min(len(etcd), 40)], ".-"), suffix)
}

// removeJob deletes a Job with its pod, whose termination message names prefixes of keys. If that fails, Kubernetes does it.
func (g *gatherer) removeJob(ctx context.Context, j *batchv1.Job) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	err := g.cluster.Delete(ctx, j, client.PropagationPolicy("Background"), client.Preconditions{UID: &j.UID})
	if client.IgnoreNotFound(err) != nil {
		g.miss(diagnose.SignalAtRest, fmt.Errorf("deleting Job %s: %w", j.Name, err), fmt.Sprintf("delete it: Kubernetes does so only %s after its end", jobTTL))
	}
}

// atRest converts what a Job has told, which anyone may have written who may write to the store.
func atRest(found backup.AtRest, now time.Time) *diagnose.AtRest {
	all := &diagnose.AtRest{
		Snapshot: sanitize.Text(found.Snapshot, maxPrefix), Created: found.Created, Age: max(now.Sub(found.Created), 0), Database: found.Database,
		Keys: found.Keys, Stored: found.Stored,
	}
	for _, p := range found.Prefixes[:min(len(found.Prefixes), maxPrefixes)] {
		all.Prefixes = append(all.Prefixes, diagnose.StoredPrefix{
			Prefix: sanitize.Text(p.Prefix, maxPrefix), Keys: p.Keys, Bytes: p.Bytes, Largest: p.Largest, Revisions: p.Revisions, Deletions: p.Deletions, Stored: p.Stored,
		})
	}
	return all
}
