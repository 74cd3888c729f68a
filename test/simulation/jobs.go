// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// jobs is the controller of Jobs: each gets a pod. The agent in it surveys a volume, previews a restore, or takes a final snapshot.
func (w *World) jobs() {
	for _, j := range apiserver.Of[*batchv1.Job](w.API.Live()) {
		name := j.Name + "-pod"
		if len(j.Status.Conditions) > 0 || j.DeletionTimestamp != nil || apiserver.Find[*corev1.Pod](w.API.Live(), j.Namespace, name) != nil {
			continue
		}
		w.must(w.writer.Create(context.Background(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: j.Namespace, Name: name, Labels: map[string]string{batchv1.ControllerUidLabel: string(j.UID), batchv1.JobNameLabel: j.Name},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))},
			},
			Spec: j.Spec.Template.Spec,
		}))
		w.After(w.between(1000, 10_000), "Job controller", "", func() { w.finish(j.Name) })
	}
}

// finish has the agent in a Job report, once the node of the volume is there, and the store if it takes that.
func (w *World) finish(name string) {
	j, p := apiserver.Find[*batchv1.Job](w.API.Live(), Namespace, name), apiserver.Find[*corev1.Pod](w.API.Live(), Namespace, name+"-pod")
	if j == nil || p == nil || len(j.Status.Conditions) > 0 {
		return
	}
	var disk *members.Disk
	if claim := w.claimOf(p); claim != nil && claim.Spec.VolumeName != "" {
		volume := apiserver.Find[*corev1.PersistentVolume](w.API.Live(), "", claim.Spec.VolumeName)
		if n := w.node(volume.Labels[corev1.LabelHostname]); n.silent() {
			w.After(w.between(1000, 5000), "Job controller", "", func() { w.finish(name) })
			return
		}
		disk = w.disks[claim.Spec.VolumeName]
	}
	said, does := w.work(p.Spec.Containers[0].Args, disk)
	if !does || w.faults.still {
		w.After(w.between(1000, 5000), "Job controller", "", func() { w.finish(name) })
		return
	}
	report, err := json.Marshal(said)
	w.must(err)
	w.Log("Job "+name, string(report))
	edit(w, p.Namespace, p.Name, "status", func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{
			Name: p.Spec.Containers[0].Name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: string(report)}},
		}}}
	})
	w.After(w.between(1000, 3000), "Job controller", "", func() { w.complete(j) })
}

// complete has the Job controller count the pod of a Job, which it does a second or more after the pod has ended.
func (w *World) complete(ended *batchv1.Job) {
	edit(w, ended.Namespace, ended.Name, "status", func(j *batchv1.Job) {
		if j.UID == ended.UID {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		}
	})
}

// work is what the agent in a Job reports; false while it cannot.
func (w *World) work(args []string, d *members.Disk) (said any, does bool) {
	given := flags(args)
	if args[0] == "survey" {
		return survey(d), true
	}
	if w.faults.storeless {
		return nil, false
	}
	b := w.judges[slices.IndexFunc(w.judges, func(j *judge) bool { return prefix(j.name) == given["store-prefix"] })].backups
	if args[0] == "restore-preview" {
		return b.preview(given), true
	}
	whole := *d
	whole.Commit = d.Last() // what is not known to be committed may have been acknowledged
	return b.take(&whole, backup.Full, true).Facts(), true
}

// kept is what was set aside on a volume, and where each of it ends.
func kept(d *members.Disk) (dirs []string, revisions map[string]int64) {
	revisions = map[string]int64{}
	for dir, data := range d.Kept {
		revisions[dir] = data.Revision()
	}
	return slices.Sorted(maps.Keys(d.Kept)), revisions
}

// aside are the directories that may have the only copy of data that is missing.
func aside(d *members.Disk) []string {
	all := slices.Sorted(maps.Keys(d.Kept))
	if d.Made != nil {
		all = append(all, datadir.RebuiltDir("new.etcd", d.Made.Task))
	}
	return all
}

// survey is what the agent says of a volume.
func survey(d *members.Disk) member.Survey {
	if d == nil || d.Cluster == "" || d.Joining {
		s := member.Survey{State: member.SurveyNone, Free: freeBytes}
		if d != nil {
			s.Kept, s.KeptRevisions = kept(d)
			s.SetAside = aside(d)
		}
		return s
	}
	s := member.Survey{
		State: member.SurveyPresent, ClusterID: d.Cluster, MemberID: strconv.FormatUint(d.Member, 16), LastTerm: d.LastTerm(), LastIndex: uint64(d.Last()),
		CommitIndex: uint64(d.Commit), AppliedIndex: uint64(d.Base + len(d.Applied())), Revision: d.Revision(), Bytes: databaseBytes, Free: freeBytes,
		Removed: d.Removed(),
	}
	s.Kept, s.KeptRevisions = kept(d)
	for _, p := range d.Peers() {
		if !p.Learner {
			s.Voters = append(s.Voters, fmt.Sprintf("%x", p.ID))
		}
	}
	if d.Damaged {
		s.State, s.Damage, s.SetAside = member.SurveyDamaged, "a page has a wrong checksum", aside(d)
	}
	return s
}
