// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	"github.com/etcd-foreman/etcd-foreman/internal/job/storeaccess"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/tasks/newcluster"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
)

// preview runs the Job of the preview to its end. A task that only previews ends with it. Otherwise its result is the evidence on which the
// data may be replaced.
func (h *Handler) preview(ctx context.Context, task tasks.Typed[Config]) (tasks.Verdict, error) {
	undone, why, err := h.undone(ctx, task, task.Etcd)
	switch {
	case err != nil:
		return tasks.Verdict{}, err
	case why != "":
		return tasks.Failed(v1alpha1.ErrRestoreRefused, "%s. Nothing was changed", why), nil
	}
	v, said, err := h.Run(ctx, task.Task, func() (*batchv1.Job, error) { return h.job(ctx, task, undone) })
	if err != nil || v.Outcome == tasks.Continue {
		return v, err
	}
	found := backup.Preview{}
	if v.Outcome == tasks.Done {
		if found, err = readable(said); err != nil {
			v = tasks.Failed(v1alpha1.ErrJob, "Job %s left no readable result: %v. Check which image spec.backup.image names", job.Name(task.Object), err)
		}
		delete(v.Result, keyConfirm)
	}
	leased := int64(0)
	if found.Base != "" && found.End == nil {
		if leased, err = h.newestRecorded(ctx, task.Etcd); err != nil {
			return tasks.Verdict{}, err
		}
	}
	next := judge(v, found, task, undone, leased, h.Clock.Now())
	if next.Outcome == tasks.Fail || found.Base == "" || found.Refused != nil || task.Config.From != nil {
		return next, nil
	}
	present, _ := h.Stays.next(task.Object, h.Clock.Now())
	call, asked := h.calls.Of(task.Object.UID)
	if !asked {
		return holding(next, found, task.Config.replaces(), nil, present.since, h.Clock.Now()), nil
	}
	return holding(next, found, task.Config.replaces(), &call, present.since, h.Clock.Now()), nil
}

// keyConfirm is the entry of status.result with the confirmation of what was previewed. Only judge writes it, never the Job.
const keyConfirm = "confirm"

// readable parses and validates the result of the Job of a preview.
func readable(said json.RawMessage) (backup.Preview, error) {
	found := backup.Preview{}
	if err := json.Unmarshal(said, &found); err != nil {
		return backup.Preview{}, errors.New("it is no preview in JSON")
	}
	if err := found.Validate(); err != nil {
		return backup.Preview{}, err
	}
	return found, nil
}

// job builds the Job of the preview.
func (h *Handler) job(ctx context.Context, task tasks.Typed[Config], undone *Undone) (*batchv1.Job, error) {
	etcd := task.Etcd
	stores, err := storeaccess.Own(etcd)
	if err != nil {
		return nil, err
	}
	version, err := h.version(ctx, etcd)
	if err != nil {
		return nil, err
	}
	args := append([]string{"restore-preview"}, targetArgs(task.Config, undone)...)
	args = append(args, "--etcd-uid="+string(etcd.UID), "--cluster-id="+etcd.Status.ClusterID,
		"--quota="+strconv.FormatInt(ptr.To(job.Quota(etcd)).Value(), 10), "--accept-auth="+strconv.FormatBool(task.Config.AcceptAuth || undone != nil))
	if version != "" {
		args = append(args, "--etcd-version="+version)
	}
	if encryption := etcd.Encryption(); encryption != nil && encryption.AcceptPlainUntil != nil {
		args = append(args, "--store-plain-until="+encryption.AcceptPlainUntil.UTC().Format(time.RFC3339))
	}
	if etcd.Signing() != nil {
		recorded, err := h.Recorded(ctx, etcd)
		if err != nil {
			return nil, err
		}
		args = append(args, recorded...)
	}
	return job.Build(job.Spec{
		Owner: job.OfTask(task.Object), Component: v1alpha1.ComponentPreviewJob, Image: h.ImageFor(etcd), Args: args,
		Stores: stores, WorkDir: true, WorkLimit: job.WorkLimit(etcd), Database: etcd, Timeout: newcluster.Deadline,
	})
}

// targetArgs returns the agent's flags for the target.
func targetArgs(c Config, undone *Undone) (args []string) {
	if undone != nil {
		return []string{"--snapshot=" + undone.FinalSnapshot}
	}
	switch to := c.To.target(); {
	case to.Latest:
		args = []string{"--latest"}
	case to.Revision != 0:
		args = []string{"--revision=" + strconv.FormatInt(to.Revision, 10)}
	case to.Snapshot != "":
		args = []string{"--snapshot=" + to.Snapshot}
	default:
		args = []string{"--time=" + to.Time.UTC().Format(time.RFC3339)}
	}
	if c.To.Base != "" {
		args = append(args, "--base="+c.To.Base)
	}
	if prefix := c.prefix(); prefix != "" {
		args = append(args, "--from-prefix="+prefix)
	}
	return args
}

// version returns the oldest version of etcd that the members run; empty if none is known.
func (h *Handler) version(ctx context.Context, etcd *v1alpha1.Etcd) (string, error) {
	s, err := h.Observer.Observe(ctx, h.Live, etcd)
	if errors.Is(err, observe.ErrNoStatefulSet) {
		return "", nil
	} else if err != nil {
		return "", coded.Error(v1alpha1.ErrObserve, err)
	}
	var oldest *version.Version
	for _, o := range s.Ordinals {
		if v, err := version.ParseGeneric(o.Versions.Etcd); err == nil && (oldest == nil || v.LessThan(oldest)) {
			oldest = v
		}
	}
	if oldest == nil {
		return "", nil
	}
	return oldest.String(), nil
}

// judge returns the verdict on a task whose preview has run: the end of the task, or the first phase of replacing the data. Leased is
// the revision that the snapshot Leases record, which counts where the end of the store is not known. It is pure.
func judge(v tasks.Verdict, found backup.Preview, task tasks.Typed[Config], undone *Undone, leased int64, now time.Time) tasks.Verdict {
	c, etcd := task.Config, task.Etcd
	why := refusal(v, found, c, etcd)
	switch {
	case c.Undo != "" && why.Outcome == tasks.Fail && !refusesKept(found):
		// An undo can still use the data that a member has kept.
		found = backup.Preview{}
		return begin(v, found, task, undone, 0, now, fmt.Sprintf("the final snapshot cannot be restored, so only the data that was kept can be used (%s)", strings.TrimSuffix(why.Message, nothingChanged)))
	case why.Outcome == tasks.Fail:
		return why
	case !c.replaces():
		v.Message = describe(found, c, etcd, leased)
		v.Result[keyConfirm] = confirmation(found, leased)
		return v
	}
	if digest, _, err := parseConfirmation(c.Confirm); c.Undo == "" && (err != nil || !strings.HasPrefix(found.Digest, digest)) {
		f := tasks.Failed(v1alpha1.ErrNotConfirmed, "what would be restored is not what was confirmed: the backup or the cluster has changed since the preview. Now it is: %s. Nothing was changed", describe(found, c, etcd, leased))
		f.Result = v.Result
		return f
	}
	return begin(v, found, task, undone, newestKnown(found, leased), now, "the preview shows what was confirmed")
}

// nothingChanged ends the message of a task that has failed before anything was changed.
const nothingChanged = ". Nothing was changed"

// refusesKept reports whether the data that members have kept is refused as well as the final snapshot: it is of the same version of etcd, and of
// about the same size.
func refusesKept(found backup.Preview) bool {
	return found.Refused != nil && (found.Refused.Code == backup.NewerVersion || found.Refused.Code == backup.OverQuota)
}

// refusal returns a failed verdict that says why the previewed state must not be restored; a verdict of another outcome if it may be.
func refusal(v tasks.Verdict, found backup.Preview, c Config, etcd *v1alpha1.Etcd) tasks.Verdict {
	if v.Outcome == tasks.Fail {
		return v
	}
	why := ""
	if found.Refused != nil {
		why = found.Refused.Message
		if found.Refused.Older != "" {
			why += fmt.Sprintf("; to begin with the older full snapshot instead, preview again with --base %s", found.Refused.Older)
		}
	} else if c.From != nil && found.End == nil {
		// Revisions of two histories cannot be compared.
		why = fmt.Sprintf("how much is lost is not known, since the newest state in the backup of the Etcd cannot be read (%s): take a full snapshot first (kubectl etcdtask snapshot %s -n %s --wait)", found.NotCompared, etcd.Name, etcd.Namespace)
	} else if needs := found.EndBytes + member.NeedsOfRestore(found.Bytes); needs > ptr.To(etcd.Spec.Capacity()).Value() {
		why = fmt.Sprintf("the volumes have %d bytes (spec.storageCapacity), and the restore takes %d, for the present data, the restored data and a copy of that: enlarge the volumes first", ptr.To(etcd.Spec.Capacity()).Value(), needs)
	}
	if why == "" {
		return tasks.Verdict{Outcome: tasks.Done}
	}
	f := tasks.Failed(v1alpha1.ErrRestoreRefused, "%s"+nothingChanged, strings.TrimSuffix(why, "."))
	f.Result = v.Result
	return f
}

// begin returns the verdict that enters the first phase of replacing the data. Known is the newest revision that the preview knows of.
func begin(v tasks.Verdict, found backup.Preview, task tasks.Typed[Config], undone *Undone, known int64, now time.Time, why string) tasks.Verdict {
	previous := task.Etcd.Status.ClusterID
	recovery := v1alpha1.RecoveryStatus{
		PreviousClusterID: previous, EarlierClusterIDs: newcluster.Earlier(lineage(task.Etcd, undone), previous),
		Restore: &v1alpha1.RestoreStatus{
			ClusterRestore: v1alpha1.ClusterRestore{Base: found.Base, Prefix: task.Config.prefix(), Revision: found.Revision, Hash: int64(found.Hash), Bytes: found.Bytes},
			Fenced:         !task.Config.KeepService, HighestRevision: known,
		},
	}
	clients := "the client Service stops selecting members"
	if task.Config.KeepService {
		clients = "clients stay connected"
	}
	in := newcluster.Input{Recorded: recovery}
	next := in.Verdict(in.Enter(v1alpha1.RecoveryFencing, now, "%s; %s", why, clients), now)
	next.Reason, next.Result = v1alpha1.ReasonRestoring, v.Result
	return next
}

// lineage returns the IDs of the clusters that a task leaves behind, the oldest first. Members use no kept data of another cluster, so those of an
// undone Restore are among them, which the status of the Etcd may have forgotten, or has no room for.
func lineage(etcd *v1alpha1.Etcd, undone *Undone) []string {
	ids := newcluster.Lineage(etcd.Status.Recovery, nil, "", etcd.Status.ClusterID)
	if undone == nil || undone.ClusterID == "" {
		return ids
	}
	replaced := v1alpha1.ClusterRecovery{PreviousClusterID: undone.ClusterID, EarlierClusterIDs: undone.EarlierClusterIDs}
	ids = newcluster.Lineage(&replaced, ids, "", etcd.Status.ClusterID)
	if !slices.Contains(ids, undone.ClusterID) {
		ids[0] = undone.ClusterID
	}
	return ids
}

// describe says what a restore would change, and how to confirm exactly that.
func describe(p backup.Preview, c Config, etcd *v1alpha1.Etcd, leased int64) string {
	what := fmt.Sprintf("revision %d of %s, from %s and %d deltas, with %d keys in %d bytes", p.Revision, p.Time.UTC().Format(time.RFC3339), p.Base, p.Deltas, p.Keys, p.Bytes)
	switch {
	case p.NotCompared != "":
		what += fmt.Sprintf("; it could not be compared with the newest state in the backup: %s. What is written counts from revision %d, by which maxWritesSince is judged", strings.TrimSuffix(p.NotCompared, "."), newestKnown(p, leased))
	case c.From != nil:
		taken := ""
		if !p.FromTaken.IsZero() { // an older agent does not say so
			taken = fmt.Sprintf("the newest snapshot is of %s and ", p.FromTaken.UTC().Format(time.RFC3339))
		}
		what += fmt.Sprintf("; it is in prefix %s, where %snothing protects snapshots from removal until the restore has ended, and all that the cluster has now is lost: ", c.From.Prefix, taken)
	default:
		what += fmt.Sprintf("; %d revisions are lost: ", p.Lost)
	}
	if p.NotCompared == "" {
		what += fmt.Sprintf("compared with the newest state in the backup, %d keys come back, %d get an earlier value, and %d vanish", p.Changes.Back, p.Changes.Changed, p.Changes.Gone)
	}
	return fmt.Sprintf("%s. To go back to it: kubectl etcdtask restore %s -n %s %s --confirm %s", what, etcd.Name, etcd.Namespace, strings.Join(again(c, p), " "), confirmation(p, leased))
}

// again returns the flags that name the previewed state. They include the base, since a newer full snapshot of the same revision, or a
// newer history, would be another state. "latest" becomes a revision, since there may be a later state by then.
func again(c Config, p backup.Preview) []string {
	target := fmt.Sprintf("revision=%d", p.Revision)
	switch {
	case c.To.Snapshot != "":
		target = "snapshot=" + c.To.Snapshot
	case c.To.Time != nil:
		target = c.To.Time.UTC().Format(time.RFC3339)
	}
	flags := []string{"--to", target, "--base", p.Base}
	if c.From != nil {
		flags = append(flags, "--from", c.From.Prefix)
	}
	if c.KeepService {
		flags = append(flags, "--keep-service")
	}
	if c.AcceptAuth {
		flags = append(flags, "--accept-auth")
	}
	if n := ptr.Deref(c.MaxWritesSince, defaultMaxWritesSince); n != defaultMaxWritesSince {
		flags = append(flags, fmt.Sprintf("--max-writes-since %d", n))
	}
	return flags
}
