// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"fmt"
	"slices"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/job/survey"
	"github.com/etcd-foreman/etcd-foreman/tasks"
)

// world is what a recovery finds on the volumes of three members, and who is asked what then becomes of it: the members' own decision.
type world struct {
	Evidence
	// unfinished is the member of the recovery that made the newest cluster of the lineage; nil if there was none.
	unfinished *member.Recovery
}

// everyVolume iterates over what the volume of a member may have, given the clusters of the Etcd.
func everyVolume(ordinal int, lineage []string) (volumes []survey.Volume) {
	name := fmt.Sprintf("m-%d", ordinal)
	add := func(state survey.State, s member.Survey) {
		volumes = append(volumes, survey.Volume{Ordinal: int32(ordinal), Member: name, Claim: "c-" + name, State: state, Survey: s})
	}
	add(survey.Gone, member.Survey{})
	add(survey.Seen, member.Survey{State: member.SurveyNone})
	add(survey.Seen, member.Survey{State: member.SurveyDamaged, Damage: "no log"})
	for place, id := range append(slices.Clone(lineage), "foreign") {
		// A newer cluster has the shorter log.
		good := member.Survey{State: member.SurveyPresent, ClusterID: id, MemberID: name, LastTerm: uint64(9 - place), LastIndex: uint64(10 + ordinal), AppliedIndex: uint64(10 + ordinal), Revision: int64(50 + ordinal)}
		good.Voters = []string{"m-0", "m-1", "m-2"}
		add(survey.Seen, good)
		good.Voters = []string{"elsewhere"}
		add(survey.Seen, good)
		add(survey.Seen, member.Survey{State: member.SurveyDamaged, Damage: "torn", ClusterID: id, LastTerm: 99, LastIndex: 99})
		add(survey.Seen, member.Survey{State: member.SurveyNone, ClusterID: id})
	}
	return volumes
}

// everyWorld iterates over all of them.
func everyWorld(yield func(world) bool) {
	for _, lineage := range [][]string{{"first"}, {"first", "second"}, {"first", "second", "third"}} {
		for _, backup := range []Backup{{}, {Revision: 40, Highest: 40, Says: "behind"}, {Revision: 51, Highest: 60, Says: "between"}, {Revision: 90, Highest: 90, Says: "ahead"}} {
			for _, a := range everyVolume(0, lineage) {
				for _, b := range everyVolume(1, lineage) {
					for _, c := range everyVolume(2, lineage) {
						w := world{Evidence: Evidence{Volumes: []survey.Volume{a, b, c}, Lineage: lineage, Members: 3, Backup: backup}}
						if n := len(lineage); n > 1 {
							w.unfinished = &member.Recovery{Task: "before", Member: "m-1", Source: member.RecoverFromData, PreviousClusterID: lineage[n-2], EarlierClusterIDs: lineage[:n-2]}
						}
						if !yield(w) {
							return
						}
					}
				}
			}
		}
	}
}

// starts returns how a member starts by what it decides itself, with a recovery that makes a cluster, and no other member that answers.
func (w world) starts(v survey.Volume, r *member.Recovery, made string) member.Decision {
	f := member.Input{Member: v.Member, DataDir: "/data", ClusterID: w.Lineage[0], Recovery: r, NewClusterID: made}
	f.Data = member.Data{ClusterID: v.Survey.ClusterID}
	switch {
	case v.Survey.State == member.SurveyDamaged:
		f.Data.State = member.DataDamaged
	case v.Survey.ClusterID != "":
		f.Data.State = member.DataPresent
	}
	if w.Backup != (Backup{}) {
		f.Backup = member.BackupHolds
	}
	return member.Decide(f)
}

// place of the cluster of a volume with good data; -1 for none.
func (w world) place(v survey.Volume) int {
	if v.Survey.State != member.SurveyPresent {
		return -1
	}
	return slices.Index(w.Lineage, v.Survey.ClusterID)
}

// newest is the place of the newest cluster that has left good data, and whether any of its members votes, as the most advanced, the last
// of them, knows it.
func (w world) newest() (place int, votes bool) {
	place = -1
	for _, v := range w.Volumes {
		if is := w.place(v); is >= 0 && is >= place {
			place, votes = is, v.Survey.Voters[0] != "elsewhere"
		}
	}
	return place, votes
}

// These promises hold in all worlds.
func TestPromises(t *testing.T) {
	count := 0
	for w := range everyWorld {
		count++
		in := newInput(in(v1alpha1.RecoverySurveying, ""), hold())
		in.Evidence, in.Recorded.PreviousClusterID = w.Evidence, w.Lineage[0]
		d := decide(in, epoch)
		for promise, broken := range w.brokenBy(d) {
			if broken {
				t.Fatalf("%s: %+v decides %s: %+v", promise, w, d.Message, d.Recovery)
			}
		}
	}
	t.Logf("%d worlds", count)
}

// brokenBy are the promises that a decision breaks.
func (w world) brokenBy(d Decision) map[string]bool {
	r := d.Recovery
	newest, votes := w.newest()
	starts := r.Phase == v1alpha1.RecoveryStarting
	broken := map[string]bool{
		"a recovery fails only if there is neither data nor a backup":            d.Outcome == tasks.Fail && (newest >= 0 || w.unknown() || w.Backup != Backup{}),
		"with a voter's data of the newest cluster there is nothing to wait for": !starts && votes && newest == len(w.Lineage)-1 && !w.unknown(),
		"with a quorum of it there is nothing to wait for at all":                !starts && w.quorum(),
		"a single cluster asks no person":                                        !starts && d.Outcome != tasks.Fail && len(w.Lineage) == 1 && !w.unknown(),
		"nothing is rebuilt beside data that nothing explains":                   starts && r.Source != "" && w.unknown(),
	}
	if !starts {
		return broken
	}
	if r.Source == "" {
		for _, v := range w.Volumes {
			if w.place(v) == len(w.Lineage)-1 {
				made := w.Lineage[len(w.Lineage)-1]
				broken["members that are started as they are start"] = broken["members that are started as they are start"] || w.starts(v, w.unfinished, made).Action != member.Start
			}
		}
		broken["older data is not started as it is"] = newest != len(w.Lineage)-1
		return broken
	}
	recovery := &member.Recovery{Task: "now", Member: r.Member, Source: member.RecoverySource(r.Source), PreviousClusterID: r.PreviousClusterID, EarlierClusterIDs: r.EarlierClusterIDs}
	for _, v := range w.Volumes {
		starts := w.starts(v, recovery, "made now")
		if v.Member != r.Member {
			broken["the others wait"] = broken["the others wait"] || starts.Action != member.Wait
			continue
		}
		want := map[v1alpha1.RecoverySource]member.Action{v1alpha1.RecoverFromData: member.Rebuild, v1alpha1.RecoverFromBackup: member.Restore}[r.Source]
		broken["the chosen member does what was chosen"] = starts.Action != want
		broken["no older data than has survived is chosen"] = r.Source == v1alpha1.RecoverFromData && w.place(v) != newest
	}
	broken["no data is rebuilt that the backup is certainly ahead of"] = r.Source == v1alpha1.RecoverFromData && w.backupIsAhead(newest)
	broken["what is restored is ahead of what was found"] = r.Source == v1alpha1.RecoverFromBackup && newest >= 0 && r.Revision <= w.reached(newest)
	broken["revisions continue above all that are known"] = r.HighestRevision < max(w.reached(newest), w.Backup.Highest)
	broken["a backup that may be behind comes after data"] = r.Source == v1alpha1.RecoverFromBackup && newest >= 0 && !w.backupIsAhead(newest)
	broken["older data is not chosen beside what is left of a newer cluster"] = newest >= 0 && newest < len(w.Lineage)-1 && w.leftAfter(newest)
	return broken
}

// unknown reports whether a volume bears the name of a cluster that is not of the lineage.
func (w world) unknown() bool {
	return slices.ContainsFunc(w.Volumes, func(v survey.Volume) bool { return v.Survey.ClusterID == "foreign" })
}

// quorum reports whether most voters have their data of the newest cluster, as the most advanced, the last of them, knows them.
func (w world) quorum() bool {
	n := 0
	for _, v := range w.Volumes {
		if w.place(v) == len(w.Lineage)-1 {
			n++
		}
	}
	newest, votes := w.newest()
	return newest == len(w.Lineage)-1 && votes && n > 1
}

func (w world) backupIsAhead(place int) bool { return w.Backup.Revision > w.reached(place) }

// reached is the highest revision of good data of a cluster, by its place.
func (w world) reached(place int) (revision int64) {
	for _, v := range w.Volumes {
		if place >= 0 && w.place(v) == place {
			revision = max(revision, v.Survey.Revision)
		}
	}
	return revision
}

// leftAfter reports whether a volume bears, or may bear, the name of a newer cluster.
func (w world) leftAfter(place int) bool {
	return slices.ContainsFunc(w.Volumes, func(v survey.Volume) bool {
		return slices.Index(w.Lineage, v.Survey.ClusterID) > place || v.Survey.Damage != "" && v.Survey.ClusterID == ""
	})
}
