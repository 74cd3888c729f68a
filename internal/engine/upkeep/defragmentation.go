// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package upkeep

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/robfig/cron/v3"
)

const (
	// latestStart is how late a defragmentation may begin because no operator was running or a member was away. A schedule for the night is
	// not meant for the morning.
	latestStart = 30 * time.Minute
	// maxSpread is the period after a scheduled time in which the Etcds with that schedule begin.
	maxSpread = 10 * time.Minute
	// leastKept and mostKept bound how long a task is kept after its end, which is otherwise until the next turn. leastKept exceeds
	// latestStart, so that a task exists for as long as its turn counts.
	leastKept, mostKept = time.Hour, 24 * time.Hour
)

// turn is one occurrence of a schedule.
type turn struct {
	// at is the scheduled time, begin when this Etcd begins, and next the following scheduled time; zero if there is none.
	at, begin, next time.Time
}

// turns returns the last turn of an Etcd that has begun, unless it began too long ago to count, and the next one. Each may be zero. It is
// pure.
func turns(schedule cron.Schedule, etcd *v1alpha1.Etcd, now time.Time) (last, next turn) {
	for at := schedule.Next(now.UTC().Add(-latestStart - maxSpread)); !at.IsZero(); {
		t := turn{at: at, next: schedule.Next(at)}
		t.begin = at.Add(offset(etcd, t.gap()))
		if t.begin.After(now) {
			return last, t
		}
		last, at = t, t.next
	}
	return last, turn{}
}

// gap is the time between a turn and the next one.
func (t turn) gap() time.Duration {
	if t.next.IsZero() {
		return mostKept
	}
	return t.next.Sub(t.at)
}

// offset is how long after a scheduled time an Etcd begins. It is always the same for an Etcd, and differs between Etcds with the same
// schedule, so that they do not all defragment at once. It is less than the time until the next turn.
func offset(etcd *v1alpha1.Etcd, gap time.Duration) time.Duration {
	hash := fnv.New32a()
	// Writing to a hash never fails.
	_, _ = hash.Write([]byte(etcd.Namespace + "/" + etcd.Name))
	return time.Duration(hash.Sum32()%uint32(min(gap, maxSpread)/time.Second)) * time.Second
}

// defragmentationDue returns the task for the last turn of an Etcd if it is to be created now. made is the last turn for which this
// operator knows that a task was created. A turn lapses while a member is away, since the task, and all tasks behind it, would wait for the
// member. It is pure.
func defragmentationDue(etcd *v1alpha1.Etcd, last turn, made time.Time, tasks []v1alpha1.EtcdOperatorTask, now time.Time) *due {
	if etcd.Spec.Replicas == 0 || etcd.SpecSuspended() || !etcd.Status.Conditions.IsTrue(v1alpha1.ConditionAllMembersReady) {
		return nil
	}
	if !last.at.After(made) || last.at.Before(etcd.CreationTimestamp.Time) || now.Sub(last.begin) > latestStart {
		return nil
	}
	found := due{
		taskType: v1alpha1.OnDemandMaintenance, name: fmt.Sprintf("%s-defragmentation-%s", etcd.Name, last.at.UTC().Format("200601021504")),
		config: "etcdDefragmentation: true\n", kept: max(leastKept, min(last.gap(), mostKept)),
		reason: v1alpha1.ReasonDefragmenting, message: fmt.Sprintf("defragmentationSchedule has a time at %s", last.at.UTC().Format(time.RFC3339)),
	}
	for i := range tasks {
		t := &tasks[i]
		if found.is(t) || t.Spec.Type == v1alpha1.OnDemandMaintenance && !t.Status.State.IsFinal() {
			return nil
		}
	}
	return &found
}
