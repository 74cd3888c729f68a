// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
	"k8s.io/apimachinery/pkg/types"
)

// lineage is a cluster as it has begun once: with a copy of data that was made for a task. Founders have neither, and an only member that restores the
// backup by itself has no task.
type lineage struct {
	id, name string
	task     types.UID
	// owed are the writes that it was to have, and has begun with, and at is when.
	owed []int
	at   time.Duration
}

// promise is what a user has asked a Restore for: exactly these writes, or all that there was before another one, which it undoes.
type promise struct {
	goal   []int
	undoes types.UID
}

func (j *judge) newest() lineage { return j.past[len(j.past)-1] }

// ended returns what a cluster had to have when it ended: what it owed from the beginning, and what it has acknowledged since.
func (j *judge) ended(i int) []int {
	return slices.Concat(j.past[i].owed, j.world.Etcd.Acknowledged[j.past[i].name])
}

// cluster judges the leader of a cluster: what it has begun with, and that revisions never go back.
func (j *judge) cluster(leader *members.Member) {
	d := leader.Disk
	if len(j.past) == 0 || j.newest().name != d.Lineage() {
		next := lineage{id: d.Cluster, name: d.Lineage(), task: types.UID(d.Task), at: j.world.Now()}
		if e := j.etcd(); e != nil && e.UID != j.uid {
			j.uid, j.highest = e.UID, 0 // a new Etcd goes on from its backup
		}
		if len(j.past) > 0 {
			next.owed = j.inherits(d)
		}
		j.past = append(j.past, next)
	}
	if leader.Settled() && d.Revision() < j.highest {
		j.world.broke("cluster %s is at revision %d, although members have had revision %d", d.Cluster, d.Revision(), j.highest)
	}
	j.highest = max(j.highest, d.Revision())
}

// inherits judges what a cluster begins with: what its user was promised, or else all that the one before it had, as far as a volume or a backup has
// that. It returns what it has of that: a loss is told of once, and excuses nothing later.
func (j *judge) inherits(d *members.Disk) []int {
	last, task := j.newest(), types.UID(d.Task)
	want, of, least := j.ended(len(j.past)-1), last, 0
	goesBack := members.Missing(d, want) > 0
	p, promised := j.promises[task]
	promised = promised && last.task != task // once
	undone := slices.IndexFunc(j.past, func(l lineage) bool { return l.task == p.undoes })
	switch {
	case promised && p.undoes == "":
		if want, least = slices.Clone(p.goal), len(p.goal); !slices.Equal(d.Writes, want) {
			j.world.broke("cluster %s goes back to %v, and %v was previewed", d.Cluster, d.Writes, want)
		}
	case promised && undone > 0:
		want, of = j.ended(undone-1), j.past[undone-1]
		least = j.keptFor(p.undoes, of, want)
	default:
		least = j.least(d, want)
	}
	if lost := members.Missing(d, want); lost > least {
		j.world.broke("cluster %s lacks %d writes that cluster %s had, and a volume or a backup lacks only %d", d.Cluster, lost, of.id, least)
	}
	if (goesBack || promised) && d.Revision() <= j.highest {
		j.world.broke("cluster %s goes back to revision %d, although members have had revision %d", d.Cluster, d.Revision(), j.highest)
	}
	has := d.All()
	return slices.DeleteFunc(want, func(w int) bool { return !slices.Contains(has, w) })
}

// least returns how many of some writes are missing in what has most of them: a volume, or, for a cluster that was restored, the backup.
func (j *judge) least(d *members.Disk, writes []int) int {
	least := len(writes)
	if d.Restored {
		least = j.backups.lacks(writes)
	}
	for _, v := range j.world.disks {
		if d.Restored && !lists(j.settled, v.Member) {
			continue // the only member restores the backup by itself, without those that have left
		}
		for _, v := range slices.Concat([]*members.Disk{v}, slices.Collect(maps.Values(v.Kept))) {
			if v.Cluster != "" && !v.Damaged {
				least = min(least, members.Missing(v, writes))
			}
		}
	}
	return least
}

// keptFor returns how many of some writes are missing in what was kept of a cluster for the Restore that has replaced it: the best of what was set aside,
// or else the final snapshot.
func (j *judge) keptFor(restore types.UID, of lineage, writes []int) int {
	least := -1
	note := func(lacks int) {
		if least < 0 || lacks < least {
			least = lacks
		}
	}
	for _, v := range j.world.disks {
		for dir, kept := range v.Kept {
			if strings.Contains(dir, member.BeforeSuffix+string(restore)+"-") && !kept.Damaged {
				note(members.Missing(kept, writes))
			}
		}
	}
	if least >= 0 || j.backups == nil {
		return max(least, 0)
	}
	for _, s := range slices.Backward(j.backups.list) {
		if s.Final && s.lineage == of.name {
			return members.Missing(&members.Disk{Writes: s.writes}, writes)
		}
	}
	return len(writes)
}
