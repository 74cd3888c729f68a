// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	. "github.com/onsi/gomega"
)

// members of versions such as "3.5.26", "3.6.16/3.5.0" (with its storage version), "3.6.16/3.6.0>3.5.0" (with a downgrade that is
// enabled) and "3.5.26?" (by its image).
func memberVersions(texts ...string) []MemberVersion {
	var all []MemberVersion
	for i, text := range texts {
		m := MemberVersion{Name: fmt.Sprintf("m-%d", i)}
		text, m.Versions.DowngradeTo, _ = strings.Cut(text, ">")
		text, m.Versions.Storage, _ = strings.Cut(text, "/")
		m.Versions.Etcd, m.Answers = strings.TrimSuffix(text, "?"), !strings.HasSuffix(text, "?")
		all = append(all, m)
	}
	return all
}

func TestRefusedVersion(t *testing.T) {
	for name, c := range map[string]struct {
		members []MemberVersion
		target  string
		member  string
		says    string // empty if it is not refused
	}{
		"a patch release":                          {memberVersions("3.6.8/3.6.0", "3.6.8/3.6.0"), "3.6.16", "", ""},
		"an earlier patch release":                 {memberVersions("3.6.16/3.6.0"), "3.6.8", "", ""},
		"the next minor":                           {memberVersions("3.5.26", "3.5.33"), "3.6.16", "", ""},
		"the next minor, of a tag with a suffix":   {memberVersions("3.5.26"), "3.6.16-0", "", ""},
		"the next minor, of a tag without a patch": {memberVersions("3.5.26"), "3.6", "", ""},
		"a vendor's version with a suffix":         {memberVersions("3.5.26-vendor.1"), "3.6.16", "", ""},
		"half-way through the next minor":          {memberVersions("3.6.16/3.5.0", "3.5.26"), "3.6.16", "", ""},
		"and back":                                 {memberVersions("3.6.16/3.5.0", "3.5.26"), "3.5.26", "", ""},
		"the next minor from 3.6":                  {memberVersions("3.6.11/3.6.0"), "3.7.3", "", ""},
		"the next minor from 3.7":                  {memberVersions("3.7.0/3.7.0"), "3.8.0", "", ""},
		"the last downgraded member":               {memberVersions("3.5.26", "3.6.16/3.5.0>3.5.0"), "3.5.26", "", ""},
		"a downgrade that etcd is ready for":       {memberVersions("3.6.16/3.5.0>3.5.0", "3.6.16/3.5.0>3.5.0"), "3.5.26", "", ""},
		"no member answers":                        {memberVersions("", ""), "3.7.3", "", ""},
		"a member whose version is no version":     {memberVersions("abc/3.6.0"), "3.6.16", "", ""},
		"a target that is not known":               {memberVersions("3.5.1"), "", "", ""},
		"a target that is no version":              {memberVersions("3.5.1"), "latest", "", ""},
		"a tag of an older version, half-way back": {memberVersions("3.6.16?", "3.5.26"), "3.5.26", "", ""},

		"a minor is skipped":                          {memberVersions("3.5.26", "3.5.26"), "3.7.3", "m-0", "one minor version at a time. Set an image of 3.6 first"},
		"a minor is skipped half-way":                 {memberVersions("3.6.16/3.5.0", "3.5.26"), "3.7.3", "m-0", "the cluster is at 3.5"},
		"a minor is skipped, by an image":             {memberVersions("", "3.5.26?"), "3.7.3", "m-1", "(m-1 runs 3.5.26)"},
		"before the cluster version has risen":        {memberVersions("3.6.16/3.5.0"), "3.7.3", "m-0", "the cluster is at 3.5 (m-0 runs 3.6.16)"},
		"to 3.6 from before 3.5.26":                   {memberVersions("3.5.26", "3.5.25"), "3.6.16", "m-1", "m-1 runs 3.5.25: etcd 3.6 takes at least 3.5.26 before it. Set an image of 3.5.26 or a later 3.5 first"},
		"to 3.6 from before 3.5.26, frozen":           {memberVersions("3.5.26", "3.5.25?"), "3.6.16", "m-1", "m-1 runs 3.5.25"},
		"to 3.7 from before 3.6.11":                   {memberVersions("3.6.10/3.6.0"), "3.7.0", "m-0", "etcd 3.7 takes at least 3.6.11 before it"},
		"back without a downgrade":                    {memberVersions("3.6.16/3.6.0", "3.6.16/3.6.0"), "3.5.26", "m-0", `Run "etcdctl downgrade enable 3.5" first, or set an image of 3.6`},
		"back, of a member without a storage version": {memberVersions("3.6.16"), "3.5.26", "m-0", "etcdctl downgrade enable 3.5"},
		"back before etcd is ready":                   {memberVersions("3.6.16/3.6.0>3.5.0"), "3.5.26", "m-0", "the downgrade to 3.5 is enabled, and m-0 has not lowered its storage version 3.6.0 yet"},
		"back with another downgrade enabled":         {memberVersions("3.7.0/3.7.0>3.5.0"), "3.6.16", "m-0", "etcdctl downgrade enable 3.6"},
		"back by two":                                 {memberVersions("3.7.0/3.7.0>3.6.0"), "3.5.26", "m-0", "etcd downgrades one minor version at a time. Set an image of 3.6 first"},
		"a storage version above its own":             {memberVersions("3.5.26/3.6.0"), "3.5.33", "m-0", "etcdctl downgrade enable 3.5"},
		"another major":                               {memberVersions("3.9.0/3.9.0"), "4.0.0", "m-0", "from one major version to another"},
	} {
		member, why := RefusedVersion(c.members, c.target)
		if member != c.member || !strings.Contains(why, c.says) || (why == "") != (c.says == "") {
			t.Errorf("%s: %s %q, want %s %q", name, member, why, c.member, c.says)
		}
	}
}

// Foreign voters are members too. Those of the StatefulSet are there once.
func TestVersionsOf(t *testing.T) {
	s := &cluster.Snapshot{
		Ordinals: []cluster.Ordinal{
			{Name: "m-0", Answers: true, Class: v1alpha1.ClassParticipating, Versions: cluster.Versions{Etcd: "3.6.1"}, Pod: &cluster.Pod{EtcdVersion: "3.6.2"}},
			{Name: "m-1", Class: v1alpha1.ClassUnready, Pod: &cluster.Pod{EtcdVersion: "3.6.2"}},
			{Name: "m-2", Class: v1alpha1.ClassDead, Pod: &cluster.Pod{EtcdVersion: "3.6.2"}},
		},
		Cluster: cluster.Cluster{Voters: []cluster.Voter{{Name: "m-0"}, {Name: "m-1", Ordinal: 1}, {Name: "foreign", Ordinal: -1, Versions: cluster.Versions{Etcd: "3.5.1"}}}},
	}
	want := []MemberVersion{{"m-0", cluster.Versions{Etcd: "3.6.1"}, true}, {"m-1", cluster.Versions{Etcd: "3.6.2"}, false}, {"m-2", cluster.Versions{}, false}, {"foreign", cluster.Versions{Etcd: "3.5.1"}, true}}
	if got := VersionsOf(s); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestChangesMinor(t *testing.T) {
	for name, c := range map[string]struct {
		members []MemberVersion
		target  string
		want    bool
	}{
		"a patch release":       {memberVersions("3.6.8/3.6.0"), "3.6.16", false},
		"the next minor":        {memberVersions("3.6.8/3.6.0", "3.5.26"), "3.6.16", true},
		"back":                  {memberVersions("3.6.8/3.5.0"), "3.5.26", true},
		"not known":             {memberVersions("3.6.8"), "", true},
		"members of no version": {memberVersions(""), "3.6.16", false},
	} {
		if got := changesMinor(c.members, c.target); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestTargetVersion(t *testing.T) {
	// An ordinal is written as the version that its member reports; "?" does not answer.
	for name, c := range map[string]struct {
		ordinals string
		updated  int // so many of the last ordinals
		tag      string
		version  string
		canary   string
	}{
		"the tag":                             {"3.5.26 3.5.26", 0, "3.6.16", "3.6.16", ""},
		"an updated member, not the tag":      {"3.5.26 3.6.16", 1, "3.6.0", "3.6.16", ""},
		"the tag, before an updated one says": {"3.5.26 ?", 1, "3.6.16", "3.6.16", ""},
		"an updated one has to answer":        {"3.5.26 ?", 1, "latest", "", "m-1"},
		"one of two has answered":             {"3.5.26 ? 3.6.16", 2, "latest", "3.6.16", ""},
		"nothing is known, and none updated":  {"3.5.26 ?", 0, "", "", ""},
		"an updated pod is terminating":       {"3.5.26 terminating", 1, "", "", ""},
		"an updated pod does not exist":       {"3.5.26 missing", 1, "", "", ""},
	} {
		s := &cluster.Snapshot{StatefulSet: cluster.StatefulSet{EtcdVersion: c.tag}}
		texts := strings.Fields(c.ordinals)
		for i, text := range texts {
			o := cluster.Ordinal{Name: fmt.Sprintf("m-%d", i), Class: v1alpha1.ClassUnready, Pod: &cluster.Pod{}}
			switch text {
			case "?":
			case "terminating":
				o.Class = v1alpha1.ClassTerminating
			case "missing":
				o.Class, o.Pod = v1alpha1.ClassMissing, nil
			default:
				o.Answers, o.Versions.Etcd = true, text
			}
			s.Ordinals = append(s.Ordinals, o)
		}
		version, canary := targetVersion(s, func(ordinal int) bool { return ordinal < len(texts)-c.updated })
		if version != c.version || canary != c.canary {
			t.Errorf("%s: %q %q, want %q %q", name, version, canary, c.version, c.canary)
		}
	}
}

func TestKnownVersions(t *testing.T) {
	for text, want := range map[string]bool{"3.6.16": true, "3.6": true, "3.6.16-0": true, "": false, "latest": false, "3": false, "stable-3.6": false} {
		if IsKnownVersion(text) != want {
			t.Errorf("%q", text)
		}
	}
}

// upgraded returns the input of a world whose members answer with one version, and those that are updated with another. The tag
// is that of the new image.
func upgraded(w *world, from, to cluster.Versions, tag string, changes ...change) Input {
	in := w.input(noon, DefaultConfig())
	in.Snapshot.StatefulSet.EtcdVersion = tag
	for i := range in.Snapshot.Ordinals {
		if o := &in.Snapshot.Ordinals[i]; o.Answers {
			o.Versions = from
			if w.members[i].updated() {
				o.Versions = to
			}
		} else if o.Pod != nil {
			o.Pod.EtcdVersion = from.Etcd
		}
	}
	for _, c := range changes {
		c(&in)
	}
	return in
}

func TestVersionsGate(t *testing.T) {
	v35, v36, v36of35 := cluster.Versions{Etcd: "3.5.33"}, cluster.Versions{Etcd: "3.6.16", Storage: "3.6.0"}, cluster.Versions{Etcd: "3.6.16", Storage: "3.5.0"}
	early := cluster.Versions{Etcd: "3.5.25"}
	override := override(v1alpha1.GuardVersionsCompatible)
	for name, c := range map[string]struct {
		in   Input
		want string
	}{
		"the next minor":     {upgraded(of(0, readyOld, readyOld, readyOld), v35, v36, "3.6.16"), "DeletePod m-2"},
		"half-way":           {upgraded(of(0, readyOld, readyOld, readyNew), v35, v36of35, "3.6.16"), "DeletePod m-1"},
		"a minor is skipped": {upgraded(of(0, readyOld, readyOld, readyOld), v35, v36, "3.7.3"), "hold VersionsCompatible m-0"},
		"a minor is skipped, and it is overridden": {upgraded(of(0, readyOld, readyOld, readyOld), v35, v36, "3.7.3", override), "DeletePod m-2"},
		"a dead member is not replaced either":     {upgraded(of(0, readyOld, readyOld, deadOld), v35, v36, "3.7.3"), "hold VersionsCompatible m-0"},
		"nor does leadership move":                 {upgraded(of(0, readyOld, readyNew, readyNew), v36, cluster.Versions{Etcd: "3.7.3", Storage: "3.6.0"}, "3.7.3", func(in *Input) { in.Snapshot.Ordinals[0].Versions.Etcd = "3.6.10" }), "hold VersionsCompatible m-0"},
		"from before 3.5.26":                       {upgraded(of(0, readyOld, readyOld, readyOld), early, v36, "3.6.16"), "hold VersionsCompatible m-0"},
		"a frozen member from before 3.5.26":       {upgraded(of(0, readyOld, frozenOld, readyOld), early, v36, "3.6.16", func(in *Input) { in.Snapshot.Ordinals[0].Versions, in.Snapshot.Ordinals[2].Versions = v35, v35 }), "hold VersionsCompatible m-1"},
		"back half-way":                            {upgraded(of(0, readyOld, readyOld, readyNew), v36of35, v35, "3.5.33"), "DeletePod m-1"},
		"back without a downgrade":                 {upgraded(of(0, readyOld, readyOld, readyOld), v36, v35, "3.5.33"), "hold VersionsCompatible m-0"},
		"a foreign voter that is too old":          {upgraded(foreignVoter(of(0, readyOld, readyOld, readyOld)), v35, v36, "3.6.16", func(in *Input) { in.Snapshot.Cluster.Voters[3].Versions = early }), "hold VersionsCompatible foreign"},
		"a version that is not known: the canary":  {upgraded(of(0, readyOld, readyOld, readyOld), v35, v36of35, ""), "DeletePod m-2"},
		"the others wait for its answer":           {upgraded(of(0, readyOld, deadOld, startingNew), v35, v36of35, ""), "hold VersionsCompatible m-2"},
		"a pod that serves is said to wait for it": {upgraded(of(0, readyOld, readyOld, deadNew), v35, v36of35, ""), "hold OthersParticipating m-2"},
		"it answers": {upgraded(of(0, readyOld, deadOld, readyNew), v35, v36of35, ""), "DeletePod m-1"},
		"it answers with a version that is refused": {upgraded(of(0, readyOld, deadOld, readyNew), v35, cluster.Versions{Etcd: "3.7.3"}, ""), "hold VersionsCompatible m-0"},
		"it belies its tag":                         {upgraded(of(0, readyOld, deadOld, readyNew), v35, cluster.Versions{Etcd: "3.7.3"}, "3.6.16"), "hold VersionsCompatible m-0"},
		"while the operator is cut off it cannot":   {upgraded(unreachable(of(0, readyOld, readyOld, readyNew)), v35, v36of35, "", anyTag("")), "DeletePod m-1"},
		"by the tags, while it is cut off":          {upgraded(unreachable(of(0, readyOld, readyOld, readyNew)), v35, v36of35, "3.7.3", anyTag("3.5.33")), "hold VersionsCompatible m-0"},
		"without a quorum it cannot answer":         {upgraded(of(-1, deadOld, deadOld, startingNew), v35, v36of35, ""), "DeletePod m-1"},
	} {
		if got := short(Decide(c.in, noon), c.in.Snapshot); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// unreachable is a world whose members the operator has not reached for long, although their probes pass.
func unreachable(w *world) *world { w.cutOff, w.lasted = true, true; return w }

// anyTag gives the images of all pods a tag; that of the probe's release if there is none.
func anyTag(tag string) change {
	return func(in *Input) {
		for i := range in.Snapshot.Ordinals {
			o := &in.Snapshot.Ordinals[i]
			if o.Pod.EtcdVersion = tag; tag == "" {
				o.Pod.EtcdVersion = cluster.FirstNonLearnerProbe
			}
			o.LeaseRole = v1alpha1.RoleFollower
		}
	}
}

func foreignVoter(w *world) *world { w.foreignUp = 1; return w }

func TestSnapshotBefore(t *testing.T) {
	v35, v36 := cluster.Versions{Etcd: "3.5.33"}, cluster.Versions{Etcd: "3.6.16", Storage: "3.6.0"}
	stored := func(in *Input) { in.Backup.Configured = true }
	with := func(b Backup) change {
		return func(in *Input) { b.Configured = true; in.Backup = b }
	}
	mode := func(m SnapshotBefore) change { return config(func(c *Config) { c.SnapshotBefore = m }) }
	healthy := func() *world { return of(0, readyOld, readyOld, readyOld) }
	for name, c := range map[string]struct {
		in   Input
		want string
	}{
		"the minor version changes":            {upgraded(healthy(), v35, v36, "3.6.16", stored), "TakeSnapshot m-2"},
		"a patch release":                      {upgraded(healthy(), v36, v36, "3.6.17", stored), "DeletePod m-2"},
		"while the operator is cut off":        {upgraded(unreachable(healthy()), v35, v36, "3.6.16", stored, anyTag("3.5.33")), "TakeSnapshot m-2"},
		"cut off, and nothing is known":        {upgraded(unreachable(healthy()), v35, v36, "", stored, anyTag("3.5.33")), "DeletePod m-2"},
		"a patch release, always":              {upgraded(healthy(), v36, v36, "3.6.17", stored, mode(SnapshotAlways)), "TakeSnapshot m-2"},
		"a version that is not known":          {upgraded(healthy(), v36, v36, "", stored), "TakeSnapshot m-2"},
		"never":                                {upgraded(healthy(), v35, v36, "3.6.16", stored, mode(SnapshotNever)), "DeletePod m-2"},
		"without a store":                      {upgraded(healthy(), v35, v36, "3.6.16"), "DeletePod m-2"},
		"overridden":                           {upgraded(healthy(), v35, v36, "3.6.16", stored, override(v1alpha1.GuardSnapshotTaken)), "DeletePod m-2"},
		"before a dead member is replaced":     {upgraded(of(0, readyOld, readyOld, deadOld), v35, v36, "3.6.16", stored), "TakeSnapshot m-2"},
		"before leadership moves":              {upgraded(of(0, readyOld, readyNew, readyNew), v35, v36, "3.6.16", stored), "TakeSnapshot m-0"},
		"without a quorum":                     {upgraded(of(-1, deadOld, deadOld, runningOld), v35, v36, "3.6.16", stored), "DeletePod m-1"},
		"not for a version that is refused":    {upgraded(healthy(), v35, v36, "3.7.3", stored), "hold VersionsCompatible m-0"},
		"it is being taken":                    {upgraded(healthy(), v35, v36, "3.6.16", with(Backup{Running: true})), "hold SnapshotTaken "},
		"it failed":                            {upgraded(healthy(), v35, v36, "3.6.16", with(Backup{Failed: "no space", FailedAt: noon})), "hold SnapshotTaken "},
		"it failed a while ago":                {upgraded(healthy(), v35, v36, "3.6.16", with(Backup{Failed: "no space", FailedAt: noon.Add(-time.Minute)})), "TakeSnapshot m-2"},
		"it failed by a clock that has jumped": {upgraded(healthy(), v35, v36, "3.6.16", with(Backup{Failed: "no space", FailedAt: noon.Add(time.Hour)})), "TakeSnapshot m-2"},
		"it was taken":                         {upgraded(healthy(), v35, v36, "3.6.16", with(Backup{Taken: "Full-1"})), "DeletePod m-2"},
		"it was taken, as another operator wrote": {upgraded(healthy(), v35, v36, "3.6.16", stored, func(in *Input) {
			in.Recorded.Snapshot = &v1alpha1.RolloutSnapshot{State: v1alpha1.OperationStateCompleted}
		}), "DeletePod m-2"},
		"it was asked for by another operator": {upgraded(healthy(), v35, v36, "3.6.16", stored, func(in *Input) {
			in.Recorded.Snapshot = &v1alpha1.RolloutSnapshot{State: v1alpha1.OperationStateInProgress}
		}), "TakeSnapshot m-2"},
		"nothing is outdated": {upgraded(of(0, readyNew, readyNew, readyNew), v35, v36, "3.6.16", stored), "Finished"},
	} {
		if got := short(Decide(c.in, noon), c.in.Snapshot); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// The reason of a snapshot says which rule asks for it. It is no removal, whatever the state of the pod that goes next.
func TestReasonsOfTheSnapshot(t *testing.T) {
	v36 := cluster.Versions{Etcd: "3.6.16", Storage: "3.6.0"}
	for tag, c := range map[string]struct {
		mode SnapshotBefore
		want string
	}{
		"3.6.17": {SnapshotAlways, "a full snapshot is taken first (snapshotBefore: Always)"},
		"3.7.3":  {SnapshotForMinorVersion, "a full snapshot is taken first: the minor version of etcd changes to that of 3.7.3"},
		"":       {SnapshotForMinorVersion, "a full snapshot is taken first: the image of the template has no tag with a version of etcd"},
	} {
		in := upgraded(of(0, readyOld, readyOld, deadOld), v36, v36, tag, func(in *Input) { in.Backup.Configured = true })
		in.Config.SnapshotBefore = c.mode
		d := Decide(in, noon)
		if short(d, in.Snapshot) != "TakeSnapshot m-2" || d.Step.Reason != c.want || d.Step.Grace != nil {
			t.Errorf("%s: %+v", tag, d.Step)
		}
	}
}

// The status says when the snapshot was first asked for, and its name, before the first pod is removed.
func TestRecordOfTheSnapshot(t *testing.T) {
	g := NewWithT(t)
	in := upgraded(of(0, readyOld, readyOld, readyOld), cluster.Versions{Etcd: "3.5.33"}, cluster.Versions{}, "3.6.16", func(in *Input) { in.Backup.Configured = true })
	d := Decide(in, noon)
	g.Expect(d.Step.Reason).To(Equal("a full snapshot is taken first: the minor version of etcd changes to that of 3.6.16"))
	in.Recorded = Record(in, d, noon)
	g.Expect(in.Recorded.Snapshot.State).To(Equal(v1alpha1.OperationStateInProgress))

	later := noon.Add(time.Minute)
	in.Snapshot.At, in.Backup.Failed, in.Backup.FailedAt = later, "the store does not answer", later
	d = Decide(in, later)
	g.Expect(d.Hold().Message).To(ContainSubstring("the store does not answer. It is retried every 30s; to do without it, add SnapshotTaken to spec.overrideGuards"))
	in.Recorded = Record(in, d, later)
	g.Expect(in.Recorded.Snapshot.RequestedAt.Time).To(Equal(noon))

	in.Backup = Backup{Configured: true, Taken: "Full-00000000-00000042-1"}
	d = Decide(in, later)
	g.Expect(short(d, in.Snapshot)).To(Equal("DeletePod m-2"))
	r := Record(in, d, later)
	g.Expect(*r.Snapshot).To(Equal(v1alpha1.RolloutSnapshot{State: v1alpha1.OperationStateCompleted, RequestedAt: in.Recorded.Snapshot.RequestedAt, Name: "Full-00000000-00000042-1"}))
	g.Expect(r.Pods).To(HaveLen(1), "both are written at once")
}

// A plan takes the snapshot and lets the canary answer; a rollout that etcd would refuse has no plan.
func TestPlanOfAnUpgrade(t *testing.T) {
	g := NewWithT(t)
	v35 := cluster.Versions{Etcd: "3.5.33"}
	steps := func(tag string) (all []string, end Conclusion) {
		in := upgraded(of(0, readyOld, readyOld, readyOld), v35, cluster.Versions{}, tag, func(in *Input) { in.Backup.Configured = true })
		plan := Foresee(in, noon)
		for _, e := range plan.Entries {
			all = append(all, short(e.Decision, e.Before))
		}
		return all, plan.End
	}
	known, end := steps("3.6.16")
	g.Expect(end).To(Equal(Finished))
	g.Expect(known).To(Equal([]string{"TakeSnapshot m-2", "DeletePod m-2", "DeletePod m-1", "MoveLeader m-0 to m-1", "DeletePod m-0"}))
	unknown, end := steps("")
	g.Expect(end).To(Equal(Finished))
	g.Expect(unknown).To(Equal(known))
	refused, end := steps("3.7.3")
	g.Expect(end).To(Equal(Wait))
	g.Expect(refused).To(Equal([]string{"hold VersionsCompatible m-0"}))

	canary := Foresee(upgraded(of(0, readyOld, deadOld, startingNew), v35, cluster.Versions{}, ""), noon)
	g.Expect(oneLine(canary)).To(Equal("hold VersionsCompatible m-2, DeletePod m-1, MoveLeader m-0 to m-1, DeletePod m-0, Finished"))
	// Its answer is assumed to be that of the others, so there is no upgrade that would take a snapshot.
	stored := Foresee(upgraded(of(0, readyOld, deadOld, startingNew), v35, cluster.Versions{}, "", func(in *Input) { in.Backup.Configured = true }), noon)
	g.Expect(oneLine(stored)).To(Equal(oneLine(canary)))
	foreign := upgraded(foreignVoter(of(0, readyOld, readyOld, readyOld)), cluster.Versions{Etcd: "3.5.33"}, v35, "3.6.16", func(in *Input) { in.Snapshot.Cluster.Voters[3].Versions.Etcd = "3.5.1" })
	g.Expect(oneLine(Foresee(foreign, noon))).To(Equal("hold VersionsCompatible foreign, Wait"))
	taking := upgraded(of(0, readyOld, readyNew, readyNew), v35, cluster.Versions{Etcd: "3.6.16", Storage: "3.5.0"}, "3.6.16", func(in *Input) { in.Backup = Backup{Configured: true, Running: true} })
	g.Expect(oneLine(Foresee(taking, noon))).To(Equal("hold SnapshotTaken , MoveLeader m-0 to m-1, DeletePod m-0, Finished"))
}
