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
	// latestStart is how much later than it should a defragmentation may begin, because no operator was there, or a
	// member was away. A time of the night was not chosen for the morning.
	latestStart = 30 * time.Minute
	// maxSpread is within how long after a time of the schedule the Etcds begin that have the same one.
	maxSpread = 10 * time.Minute
	// leastKept and mostKept bound how long a task stays after its end; otherwise it is until the next. The least is
	// more than latestStart: as long as a time counts, its task is there.
	leastKept, mostKept = time.Hour, 24 * time.Hour
)

// turn is a time of a schedule.
type turn struct {
	// at is what the schedule says, begin when it is this Etcd's turn, and next the following time of the schedule,
	// which is zero when there is none.
	at, begin, next time.Time
}

// turns are the last turn of an Etcd that has begun, unless that is so long ago that it does not count any more, and the
// next one. Each may be zero. It is pure.
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

// gap is the time between a turn and the next.
func (t turn) gap() time.Duration {
	if t.next.IsZero() {
		return mostKept
	}
	return t.next.Sub(t.at)
}

// offset is how long after a time of the schedule an Etcd begins: always the same, and another than most of those that
// have the same schedule, so that they do not all defragment at once. It is less than the time until the next.
func offset(etcd *v1alpha1.Etcd, gap time.Duration) time.Duration {
	hash := fnv.New32a()
	// Writing to a hash never fails.
	_, _ = hash.Write([]byte(etcd.Namespace + "/" + etcd.Name))
	return time.Duration(hash.Sum32()%uint32(min(gap, maxSpread)/time.Second)) * time.Second
}

// defragmentationDue is the task for the last turn of an Etcd, when it is to be made now. made is the time of the last
// one that this operator knows to have been made. A turn lapses while a member is away: the task would have to wait for
// it, and all others behind it. It is pure.
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
