// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
)

// table reads the members that are shown beside a task. It reads the API server only: the operator asks the members, and writes
// their roles to the status of the Etcd.
type table struct {
	cluster  *kube.Cluster
	observer *observe.Observer
}

func newTable(k *kube.Kube, cluster *kube.Cluster) *table {
	return &table{cluster, observe.New(noDialer{}, k.Clock, observe.FromAfar(), observe.WithRule(cluster.Rule))}
}

// noDialer reaches no member.
type noDialer struct{}

func (noDialer) Dial(string, *tls.Config) (etcdclient.Client, error) {
	return nil, errors.New("members are not asked")
}

// read returns a task with its members, or with the reason that they cannot be read.
func (t *table) read(ctx context.Context, task *v1alpha1.EtcdOperatorTask) view {
	v := view{task: task}
	etcd, err := t.cluster.Etcd(ctx, task.Spec.OwnerEtcdReference.Name)
	if err == nil {
		v.etcd = etcd
		v.snapshot, err = t.observer.Observe(ctx, t.cluster, etcd)
	}
	if err != nil {
		v.trouble = kube.Sentence(err)
	} else {
		v.snapshot = v.snapshot.ByReadiness()
	}
	return v
}

// view is a task with its members. It is a value.
type view struct {
	task     *v1alpha1.EtcdOperatorTask
	etcd     *v1alpha1.Etcd
	snapshot *cluster.Snapshot
	// trouble is why the members could not be read.
	trouble string
}

// page implements Page.
func (v view) page(now time.Time, width int) []string {
	t := v.task
	lines := []string{
		text.Clip(fmt.Sprintf("%s of Etcd %s/%s: %s, %s", t.Spec.Type, t.Namespace, t.Spec.OwnerEtcdReference.Name, text.State(t), took(t, now)), width),
		"Task " + t.Name,
	}
	if v.snapshot != nil {
		lines = append(lines, "The newest revision is "+short(v.snapshot.StatefulSet.UpdateRevision), "")
		lines = append(lines, v.members(now).Lines(width)...)
	} else {
		lines = append(lines, "")
		lines = append(lines, text.Wrap("The members could not be read: "+v.trouble, 0, width)...)
	}
	return append(append(lines, ""), text.Wrap(v.doing(now), 0, width)...)
}

// doing returns what the task does, or what blocks it and for how long.
func (v view) doing(now time.Time) string {
	if held := text.BlockedBy(v.task, now); held != "" {
		say := "Blocked by " + held
		if v.task.Status.Progressing().Reason == v1alpha1.ReasonStalled {
			say = "Stalled. " + say
		}
		return say
	}
	if v.task.Status.State.IsFinal() {
		return ""
	}
	return text.Doing(v.task)
}

func (v view) members(now time.Time) *text.Table {
	t := &text.Table{Columns: []text.Column{
		{Name: "POD"}, {Name: "CLASS"}, {Name: "ROLE"}, {Name: "REVISION", Rank: 1}, {Name: "LAST OPERATION"}, {Name: "SINCE"},
	}}
	for _, o := range v.snapshot.Ordinals {
		revision := "-"
		if o.Pod != nil {
			revision = short(o.Pod.Revision)
		}
		operation, since := v.lastOperation(o.Name, now)
		t.Add(o.Name, string(o.Class), v.role(o), revision, operation, since)
	}
	return t
}

// role returns the role of a member from its lease, or else from the status of the Etcd. A member that does not
// participate has none.
func (v view) role(o cluster.Ordinal) string {
	if o.Class != v1alpha1.ClassParticipating {
		return "-"
	}
	if o.Role != v1alpha1.RoleUnknown && o.Role != "" {
		return string(o.Role)
	}
	for _, m := range v.etcd.Status.Members {
		if m.Name == v.etcd.MemberName(o.Name) && m.Role != "" {
			if m.Role == v1alpha1.MemberRoleMember {
				return string(v1alpha1.RoleFollower)
			}
			return string(m.Role)
		}
	}
	return "-"
}

// lastOperation returns the newest operation on a pod, and how long it has had its state.
func (v view) lastOperation(pod string, now time.Time) (operation, since string) {
	r := v.task.Status.Rollout
	if r == nil {
		return "-", "-"
	}
	for _, p := range slices.Backward(r.Pods) {
		if p.Name == pod {
			return fmt.Sprintf("%s %s", p.LastOperation.Name, p.LastOperation.State), text.Since(p.LastOperation.LastTransitionTime.Time, now)
		}
	}
	if h := r.LeaderHandover; h != nil && h.From == pod {
		return "MoveLeader", text.Since(h.LastAttemptTime.Time, now)
	}
	return "-", "-"
}

// short returns the hash of a revision, without the name of the StatefulSet.
func short(revision string) string { return revision[strings.LastIndex(revision, "-")+1:] }
