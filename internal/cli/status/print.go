// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/diagnose"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	judge "github.com/etcd-foreman/etcd-foreman/internal/diagnose"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// lines implements watch.Page.
func (v view) lines(now time.Time, width int) []string {
	var lines []string
	for _, s := range v.summary(now) {
		lines = append(lines, text.Wrap(s, 2, width)...)
	}
	lines = append(lines, "", "MEMBERS")
	switch {
	case v.snapshot != nil:
		lines = append(lines, v.members().Lines(width)...)
	case len(v.etcd.Status.Members) > 0:
		lines = append(lines, v.recorded(now).Lines(width)...)
	}
	for _, s := range v.belowMembers() {
		lines = append(lines, text.Wrap(s, 2, width)...)
	}
	lines = append(lines, "", "TASKS")
	if len(v.queue) == 0 {
		lines = append(lines, "None is running or waiting.")
	}
	for _, t := range v.queue {
		say := fmt.Sprintf("%s (%s): %s", t.Name, t.Spec.Type, text.State(t))
		if t.Spec.Suspend {
			say += ", suspended"
		}
		if doing := cmp.Or(text.BlockedBy(t, now), text.Doing(t)); doing != "" {
			say += ", " + doing
		}
		lines = append(lines, text.Wrap(say, 2, width)...)
	}
	return lines
}

// summary returns what is wrong, the worst first, and the age of the backup.
func (v view) summary(now time.Time) []string {
	e := v.etcd
	say := []string{fmt.Sprintf("Etcd %s/%s: %d replicas, age %s", e.Namespace, e.Name, e.Spec.Replicas, text.Since(e.CreationTimestamp.Time, now))}
	if e.DeletionTimestamp != nil {
		say = append(say, fmt.Sprintf("It is being deleted for %s.", text.Since(e.DeletionTimestamp.Time, now)))
	}
	if e.Status.ObservedGeneration < e.Generation {
		say = append(say, "The newest spec is not applied yet.")
	}
	if c := e.Status.Conditions.Find(v1alpha1.ConditionReady); c != nil && c.Reason == v1alpha1.ReasonHibernated {
		say = append(say, "It is hibernated.")
	}
	known := len(say)
	if v.snapshot != nil && v.unreachable == "" && !v.snapshot.HasQuorum() {
		say = append(say, "There is no quorum.")
	}
	for _, a := range v.alarms {
		say = append(say, fmt.Sprintf("Alarm %s of %s: %s.", a.Kind, v.memberOf(a), alarmMeaning(a.Kind)))
	}
	if finding := v.finding(); finding != "" {
		say = append(say, "Diagnosis: "+finding+" \"kubectl etcdtask diagnose "+e.Name+" -n "+e.Namespace+"\" says more.")
	}
	for _, c := range trouble(e) {
		if c.Type == v1alpha1.ConditionAlarmRaised && len(v.alarms) > 0 {
			// The members have said so themselves.
			continue
		}
		say = append(say, fmt.Sprintf("%s is %s (%s) for %s: %s", c.Type, c.Status, c.Reason, text.Since(c.LastTransitionTime.Time, now), c.Message))
	}
	if len(say) == known {
		say = append(say, "No condition reports trouble.")
	}
	return append(say, "Backup: "+v.backup(now))
}

// finding returns what explains most of what was read anyway; empty if nothing is wrong with the members.
func (v view) finding() string {
	if v.snapshot == nil || v.unreachable != "" {
		return ""
	}
	verdict := judge.Judge(diagnose.Known(v.snapshot, v.alarms, v.databases))
	if len(verdict.Findings) == 0 {
		return ""
	}
	return diagnose.Title(verdict.Findings[0])
}

// memberOf returns the pod of the member that has raised an alarm.
func (v view) memberOf(a etcdclient.Alarm) string {
	for _, o := range v.snapshot.Ordinals {
		if o.MemberID == a.MemberID {
			return o.Name
		}
	}
	return fmt.Sprintf("member %x", a.MemberID)
}

func alarmMeaning(kind etcdclient.AlarmKind) string {
	switch kind {
	case etcdclient.AlarmNoSpace:
		return "a database has reached its quota, and the cluster accepts no writes. Free space with \"kubectl etcdtask defrag ETCD --compaction\", or raise spec.etcd.quota"
	case etcdclient.AlarmCorrupt:
		return "its data differs from that of the others. Fix that before anything else: see docs/maintenance.md"
	}
	return "see etcd's documentation"
}

// backup returns the age of the newest snapshots.
func (v view) backup(now time.Time) string {
	if !v.etcd.HasBackupStore() {
		return "no store is configured."
	}
	if full := snapshotIn("full snapshot", v.leases.Full, now); full != "" {
		return "newest " + strings.TrimSuffix(full+", "+snapshotIn("delta", v.leases.Delta, now), ", ") + "." + v.restorable(now)
	}
	// The message of the condition names the newest snapshot, or says why there is none.
	if c := v.etcd.Status.Conditions.Find(v1alpha1.ConditionBackupReady); c != nil && c.Message != "" && (c.Status == metav1.ConditionTrue || v.noLeases != "") {
		return c.Message
	}
	if v.noLeases != "" {
		return "unknown, because the leases that record snapshots cannot be read: " + v.noLeases
	}
	return "no snapshot is known."
}

// restorable returns what can be restored, as a sentence after another; empty if that is not known.
func (v view) restorable(now time.Time) string {
	all := backup.ReadIntervals(v.leases.Full.Annotations[v1alpha1.AnnotationRestorable])
	if len(all) == 0 || v.etcd.ForPeopleOnly() {
		return ""
	}
	last := all[0]
	say := fmt.Sprintf(" The state of %s ago can be restored", text.Since(last.From.Time, now))
	if last.Fine {
		say = fmt.Sprintf(" Any second from %s ago until %s ago can be restored", text.Since(last.From.Time, now), text.Since(last.To.Time, now))
	}
	if n := len(all) - 1; n > 0 {
		say += fmt.Sprintf(", and %d before it, back to %s", n, all[n].From.Time.UTC().Format(time.RFC3339))
	}
	return say + fmt.Sprintf(" (\"kubectl etcdtask restorable %s\").", v.etcd.Name)
}

// snapshotIn returns the age and revision of the newest snapshot of a kind, from its lease; empty if there is none.
func snapshotIn(kind string, lease *coordinationv1.Lease, now time.Time) string {
	if lease == nil || lease.Spec.RenewTime == nil {
		return ""
	}
	return fmt.Sprintf("%s %s ago (revision %s)", kind, text.Since(lease.Spec.RenewTime.Time, now), ptr.Deref(lease.Spec.HolderIdentity, "unknown"))
}

func (v view) members() *text.Table {
	t := &text.Table{Columns: []text.Column{
		{Name: "POD"}, {Name: "CLASS"}, {Name: "ROLE"}, {Name: "VERSION", Rank: 1}, {Name: "DB SIZE"}, {Name: "IN USE", Rank: 2}, {Name: "QUOTA", Rank: 3},
		{Name: "UPDATED"}, {Name: "NODE", Rank: 4},
	}}
	for _, o := range v.snapshot.Ordinals {
		version, updated, node := "", "", ""
		if o.Pod != nil {
			version, node = o.Pod.EtcdVersion, o.Pod.Node.Name
			updated = map[bool]string{true: "yes", false: "no"}[o.Pod.At(v.snapshot.StatefulSet.UpdateRevision)]
			if o.Pod.Node.Trouble != "" {
				node += " (" + strings.TrimSpace(o.Pod.Node.Trouble) + ")"
			}
		}
		size, inUse, quota := v.sizes(o.Name)
		t.Add(o.Name, string(o.Class), text.OrDash(v.role(o)), text.OrDash(cmp.Or(o.Versions.Etcd, version)), size, inUse, quota, text.OrDash(updated), text.OrDash(node))
	}
	return t
}

// recorded returns the members in the status of the Etcd, for users who may not read the pods.
func (v view) recorded(now time.Time) *text.Table {
	t := &text.Table{Columns: []text.Column{{Name: "MEMBER"}, {Name: "STATUS"}, {Name: "ROLE"}, {Name: "REASON", Rank: 1}, {Name: "SINCE", Rank: 2}}}
	for _, m := range v.etcd.Status.Members {
		t.Add(m.Name, string(m.Status), text.OrDash(string(m.Role)), text.OrDash(m.Reason), text.Since(m.LastTransitionTime.Time, now))
	}
	return t
}

// sizes returns the size of a member's database, how much of it is in use, and the quota.
func (v view) sizes(pod string) (size, inUse, quota string) {
	d, ok := v.databases[pod]
	if !ok {
		return "-", "-", "-"
	}
	if q := v.etcd.Spec.Etcd.Quota; d.Quota == 0 && q != nil {
		// etcd 3.5 does not report its quota.
		d.Quota = q.Value()
	}
	if quota = "-"; d.Quota > 0 {
		quota = text.Size(d.Quota)
	}
	return text.Size(d.Size), text.Size(d.InUse), quota
}

// role returns the role of a member: as it reports it, or else from its lease or the status of the Etcd.
func (v view) role(o cluster.Ordinal) string {
	if o.Role != v1alpha1.RoleUnknown && o.Role != "" {
		return string(o.Role)
	}
	for _, m := range v.etcd.Status.Members {
		if v.unreachable != "" && m.Name == v.etcd.MemberName(o.Name) {
			return string(m.Role)
		}
	}
	return ""
}

// belowMembers returns quorum and alarms, or why they are not known.
func (v view) belowMembers() []string {
	switch {
	case v.snapshot == nil && len(v.etcd.Status.Members) > 0:
		return []string{"This is what the operator has recorded in the Etcd, since members and pods could not be read: " + v.trouble}
	case v.snapshot == nil:
		return []string{"They could not be read: " + v.trouble}
	case v.unreachable != "":
		return []string{"No member was asked, so sizes and alarms are not known, and roles come from leases: " + v.unreachable}
	}
	s := v.snapshot
	say := fmt.Sprintf("%d of %d voters serve; quorum is %d.", s.ServingVoters(), len(s.Cluster.Voters), s.Quorum())
	switch {
	case v.noAlarms != "":
		return []string{say, "Alarms could not be read: " + v.noAlarms}
	case len(v.alarms) == 0:
		say += " No alarm is raised."
	}
	return []string{say}
}
