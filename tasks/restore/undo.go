// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// replacement is a task that has replaced the data of a cluster.
type replacement struct {
	name string
	uid  types.UID
	// member that the new cluster began on, and from what.
	member string
	source v1alpha1.RecoverySource
	from   v1alpha1.ClusterRestore
	// before is the ID of the replaced cluster, and final the name of the snapshot that has its data.
	before, final string
	// gone: the task was deleted, so it cannot be undone any more.
	gone bool
}

// history are the tasks that have replaced the data of an Etcd, as far as they exist.
type history struct {
	etcd *v1alpha1.Etcd
	all  []replacement
}

// hasReplaced reports whether a task may have had members start from other data. That it has chosen it is not enough: if it ends before the status of
// the Etcd records that, they start as they were. It compares with the present cluster only: once a later task has replaced that, a task that had
// replaced nothing counts as well.
func hasReplaced(t *v1alpha1.EtcdOperatorTask, etcd *v1alpha1.Etcd) bool {
	recorded := etcd.Status.Recovery
	return t.SetsAside() && (t.Status.Recovery.PreviousClusterID != etcd.Status.ClusterID || recorded != nil && recorded.TaskUID == t.UID)
}

// replacedSince returns why a Restore cannot be undone now; empty if it can: nothing has replaced the cluster since, or that was undone.
func (h *Handler) replacedSince(ctx context.Context, etcd *v1alpha1.Etcd, restore *v1alpha1.EtcdOperatorTask) (why string, err error) {
	if last := etcd.Status.Recovery; last != nil && last.TaskUID == restore.UID {
		return "", nil
	}
	all, err := etcdtasks.List(ctx, h.Live, etcd)
	if err != nil {
		return "", coded.Error(v1alpha1.ErrObserve, err)
	}
	other := func(t v1alpha1.EtcdOperatorTask) int {
		if t.UID == restore.UID {
			return 0
		}
		return 1 // of two of one second, it counts as the newer
	}
	slices.SortFunc(all, func(a, b v1alpha1.EtcdOperatorTask) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(other(a), other(b)))
	})
	past := history{etcd: etcd}
	for _, t := range all {
		if r := t.Status.Recovery; hasReplaced(&t, etcd) {
			of := ptr.Deref(r.Restore, v1alpha1.RestoreStatus{})
			past.all = append(past.all, replacement{name: t.Name, uid: t.UID, member: r.Member, source: r.Source, from: of.ClusterRestore, before: r.PreviousClusterID, final: of.FinalSnapshot})
		}
	}
	return past.undo(restore), nil
}

// last returns the newest replacement, by the status of the Etcd. It names none if the cluster has hibernated without volumes since, or if its only
// member has restored the backup by itself: then it is the newest task that exists.
func (h history) last() *replacement {
	r := h.etcd.Status.Recovery
	if r == nil || r.Task == "" {
		if len(h.all) == 0 {
			return nil
		}
		return &h.all[len(h.all)-1]
	}
	if t := h.find(func(t replacement) bool { return t.uid == r.TaskUID }); t != nil {
		return t
	}
	return &replacement{name: r.Task, uid: r.TaskUID, member: r.Member, source: r.Source, from: ptr.Deref(r.Restore, v1alpha1.ClusterRestore{}), before: r.PreviousClusterID, gone: true}
}

// undo returns why a Restore cannot be undone now; empty if it can. It follows the history back from the newest task: an undo leads to what had
// been there before the undone task, and any other task to what it has replaced, once it is undone. It is pure.
func (h history) undo(restore *v1alpha1.EtcdOperatorTask) string {
	last, first := h.last(), ""
	t := last
	for range len(h.all) + 1 { // a status that was forged may lead in a circle
		if t == nil {
			break
		}
		undone := h.undoneBy(t)
		switch {
		case t.uid == restore.UID && first == "":
			return ""
		case t.uid == restore.UID:
			return fmt.Sprintf("task %s has replaced the cluster since task %s: undo that one first", first, restore.Name)
		case undone != nil && undone.uid == restore.UID:
			return t.hasUndone(restore.Name)
		case t.source == v1alpha1.RecoverFromData || t.source == v1alpha1.RecoverFromBackup:
			return fmt.Sprintf("task %s has recovered the cluster from quorum loss since task %s, and a recovery cannot be undone. %s", t.name, restore.Name, h.instead(restore))
		case undone != nil:
			t = h.makerOf(undone.before)
		case t.gone:
			t = nil
		default:
			first, t = cmp.Or(first, t.name), h.makerOf(t.before)
		}
	}
	if last == nil {
		return ""
	}
	return fmt.Sprintf("the tasks that exist do not lead from task %s back to task %s. %s", last.name, restore.Name, h.instead(restore))
}

// undoneBy returns the task whose kept data, or final snapshot, another one has started from; nil if there is none.
func (h history) undoneBy(t *replacement) *replacement {
	return h.find(func(of replacement) bool {
		return strings.Contains(t.from.KeptData, member.BeforeSuffix+string(of.uid)+"-") || of.final != "" && t.from.Base == of.final
	})
}

// makerOf returns the task that has made a cluster, by whose ID its members derive that; nil if there is none.
func (h history) makerOf(clusterID string) *replacement {
	shared := component.Lineage(h.etcd)
	return h.find(func(t replacement) bool {
		shared.Recovery = &member.Recovery{Task: string(t.uid), Member: t.member}
		return slices.Contains(shared.RecoveredIDs(), clusterID)
	})
}

func (h history) find(is func(replacement) bool) *replacement {
	if at := slices.IndexFunc(h.all, is); at >= 0 {
		return &h.all[at]
	}
	return nil
}

func (t replacement) hasUndone(restore string) string {
	says := fmt.Sprintf("task %s has undone task %s", t.name, restore)
	if t.gone {
		return says + ", and was deleted: there is nothing left to undo"
	}
	return fmt.Sprintf("%s: there is nothing left to undo. To go back to what task %s had restored, undo task %s", says, restore, t.name)
}

// instead says how to go back to what was there before a Restore that cannot be undone.
func (h history) instead(restore *v1alpha1.EtcdOperatorTask) string {
	return fmt.Sprintf("Preview the final snapshot of task %s to go back to what was there before it (kubectl etcdtask restore %s -n %s --to snapshot=%s)",
		restore.Name, h.etcd.Name, h.etcd.Namespace, restore.Status.Recovery.Restore.FinalSnapshot)
}
