// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir/datadirtest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/job/survey"
	. "github.com/onsi/gomega"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
)

func has(term, index uint64) survey.Volume {
	return survey.Volume{State: survey.Seen, Survey: member.Survey{State: member.SurveyPresent, ClusterID: "cafe", LastTerm: term, LastIndex: index}}
}

func withID(v survey.Volume, id string) survey.Volume {
	v.Survey.MemberID = id
	return v
}

// member1of is the most advanced member, with ID a, and knows who votes.
func member1of(voters ...string) survey.Volume {
	v := withID(has(2, 9), "a")
	v.Survey.Voters = voters
	return v
}

func of(clusterID string) survey.Volume {
	return survey.Volume{State: survey.Seen, Survey: member.Survey{State: member.SurveyPresent, ClusterID: clusterID, LastTerm: 9, LastIndex: 99}}
}

// learner has data of a cluster in which it does not vote.
func learner(clusterID string, index uint64, revision int64) survey.Volume {
	v := of(clusterID)
	v.Survey.MemberID, v.Survey.Voters = "l", []string{"v"}
	v.Survey.LastIndex, v.Survey.AppliedIndex, v.Survey.Revision = index, index, revision
	return v
}

// removed has data of a cluster that has removed it.
func removed(clusterID string) survey.Volume {
	v := learner(clusterID, 9, 60)
	v.Survey.Removed = true
	return v
}

// uncommitted has the data of a voter whose log ends at an index, with other voters than the member knows to be committed.
func uncommitted(index uint64, id, voters, committed string) survey.Volume {
	v := withID(has(2, index), id)
	v.Survey.Voters, v.Survey.Revision = strings.Split(voters, ","), 60
	if v.Survey.AppliedIndex = index; committed != voters {
		v.Survey.CommittedVoters = strings.Split(committed, ",")
	}
	return v
}

// The only member of two that is left has appended the removal of the other, which had yet to acknowledge it. After a restart, raft counts that one
// until the removal is committed, which takes it: started as it is, the member never serves.
func TestARemovalThatIsNotCommittedIsNotCounted(t *testing.T) {
	added, removed := raftpb.ConfChangeAddNode, raftpb.ConfChangeRemoveNode
	changes := []*raftpb.ConfChange{datadirtest.Change(added, 7), datadirtest.Change(added, 8), datadirtest.Change(removed, 8)}
	for commit, source := range map[uint64]v1alpha1.RecoverySource{2: v1alpha1.RecoverFromData, 3: ""} {
		g := NewWithT(t)
		g.Expect(serves(t, commit, datadirtest.Changes(changes...))).To(Equal(source == ""), "raft itself")
		dir := filepath.Join(t.TempDir(), "new.etcd")
		datadirtest.WriteChanges(t, dir, commit, changes...)
		found, err := datadir.Survey(dir)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(found.Voters).To(Equal([]string{"7"}))
		volumes := []survey.Volume{{Member: "m-0", State: survey.Seen, Survey: found}, {Ordinal: 1, Member: "m-1"}}
		c := choose(Evidence{Volumes: volumes, Lineage: []string{"cafe"}, Members: 2})
		g.Expect(c.Source).To(Equal(source), c.Why)
		g.Expect(c.Member != "").To(Equal(source != ""))
	}
}

// serves reports whether member 7, which starts alone with a log, becomes the leader, by raft itself.
func serves(t *testing.T, commit uint64, entries []*raftpb.Entry) bool {
	t.Helper()
	g, storage := NewWithT(t), raft.NewMemoryStorage()
	g.Expect(storage.Append(entries)).To(Succeed())
	g.Expect(storage.SetHardState(&raftpb.HardState{Term: proto.Uint64(2), Commit: &commit})).To(Succeed())
	node, err := raft.NewRawNode(&raft.Config{ID: 7, ElectionTick: 2, HeartbeatTick: 1, Storage: storage, MaxSizePerMsg: 1 << 20, MaxInflightMsgs: 8, PreVote: true, CheckQuorum: true})
	g.Expect(err).NotTo(HaveOccurred())
	for range 10 {
		for node.HasReady() {
			ready := node.Ready()
			g.Expect(storage.Append(ready.Entries)).To(Succeed())
			for _, e := range ready.CommittedEntries {
				change := &raftpb.ConfChange{}
				if e.GetType() == raftpb.EntryConfChange && proto.Unmarshal(e.Data, change) == nil {
					node.ApplyConfChange(change)
				}
			}
			node.Advance(ready)
		}
		node.Tick()
	}
	return node.Status().RaftState == raft.StateLeader
}

func TestChoose(t *testing.T) {
	gone, empty := survey.Volume{}, survey.Volume{State: survey.Seen, Survey: member.Survey{State: member.SurveyNone}}
	damagedOf := func(clusterID string) survey.Volume {
		return survey.Volume{State: survey.Seen, Survey: member.Survey{State: member.SurveyDamaged, Damage: "a page", ClusterID: clusterID, LastTerm: 9, LastIndex: 99}}
	}
	joined := survey.Volume{State: survey.Seen, Survey: member.Survey{State: member.SurveyNone, ClusterID: "new"}}
	aside := survey.Volume{State: survey.Seen, Survey: member.Survey{State: member.SurveyNone, SetAside: []string{"new.etcd.before-x-1"}}}
	removedAside := survey.Volume{State: survey.Seen, Survey: member.Survey{State: member.SurveyNone, SetAside: []string{"new.etcd.removed-1"}}}
	damagedBeside := damagedOf("new")
	damagedBeside.Survey.SetAside = aside.Survey.SetAside
	damaged := damagedOf("cafe")
	old, once, twice := []string{"cafe"}, []string{"cafe", "new"}, []string{"ace", "cafe", "new"}
	backup, behind := Backup{Revision: 70, Says: "revision 70"}, Backup{Revision: 1, Says: "revision 1"}
	voter := func(applied, last uint64, revision int64) survey.Volume {
		v := withID(has(2, last), "v")
		v.Survey.Voters, v.Survey.AppliedIndex, v.Survey.Revision = []string{"v", "w", "x", "y", "z"}, applied, revision
		return v
	}
	const data, restored, none = v1alpha1.RecoverFromData, v1alpha1.RecoverFromBackup, v1alpha1.RecoverySource("")
	for name, c := range map[string]struct {
		volumes []survey.Volume
		lineage []string
		backup  Backup
		source  v1alpha1.RecoverySource
		member  string
		end     string // "failed" or "waits"
		says    string
	}{
		"one of three":                 {[]survey.Volume{gone, has(2, 5), empty}, old, behind, data, "m-1", "", "m-0 has no volume; the volume of m-2 is empty"},
		"two of three are a quorum":    {[]survey.Volume{has(2, 5), has(2, 6), gone}, old, backup, none, "", "", "2 of 3 members have their data"},
		"two of five, the newer term":  {[]survey.Volume{gone, has(3, 4), gone, has(2, 900), gone}, old, Backup{}, data, "m-1", "", "the most advanced of the 2"},
		"two of five, the longer log":  {[]survey.Volume{gone, has(3, 4), gone, has(3, 5), gone}, old, Backup{}, data, "m-3", "", "m-1: its log"},
		"two of five, the same":        {[]survey.Volume{gone, has(3, 5), gone, has(3, 5), gone}, old, Backup{}, data, "m-1", "", ""},
		"damaged data does not count":  {[]survey.Volume{damaged, has(1, 1), gone}, old, behind, data, "m-1", "", "m-0 is damaged (a page)"},
		"nor that of another cluster":  {[]survey.Volume{of("beef"), has(2, 5), has(2, 6)}, old, backup, none, "", "", "another cluster, beef"},
		"a backup":                     {[]survey.Volume{gone, damaged, empty}, old, backup, restored, "m-1", "", "revision 70"},
		"a backup, and no volume":      {[]survey.Volume{gone, gone, gone}, old, backup, restored, "m-0", "", "are lost"},
		"nothing":                      {[]survey.Volume{gone, damaged, empty}, old, Backup{}, none, "", "failed", "no backup is recorded: nothing can be recovered, and nothing was deleted"},
		"two of three, but one learns": {[]survey.Volume{member1of("a", "b"), withID(has(2, 4), "c"), gone}, old, Backup{}, data, "m-0", "", ""},
		"one of one, and a learner":    {[]survey.Volume{member1of("a"), withID(has(2, 4), "c"), gone}, old, Backup{}, none, "", "", "those that vote are a quorum"},
		"a quorum only with a member that would not be started": {[]survey.Volume{withID(has(2, 4), "a"), gone, gone, member1of("a", "b")}, old, Backup{}, data, "m-3", "", ""},

		"an uncommitted removal of a lost voter":         {[]survey.Volume{uncommitted(9, "a", "a", "a,b"), gone, gone}, old, behind, data, "m-0", "", "a change of the voters at the end of its log is not known to be committed, and of the voters before it there is no quorum"},
		"one that is committed":                          {[]survey.Volume{uncommitted(9, "a", "a", "a"), gone, gone}, old, behind, none, "", "", "those that vote are a quorum"},
		"an uncommitted promotion of a lost learner":     {[]survey.Volume{uncommitted(9, "a", "a,b", "a"), gone, gone}, old, behind, data, "m-0", "", "the most advanced of the 1"},
		"one of a member that is there":                  {[]survey.Volume{uncommitted(9, "a", "a,b", "a"), uncommitted(8, "b", "a", "a"), gone}, old, behind, none, "", "", "those that vote are a quorum"},
		"only the member that is being removed is there": {[]survey.Volume{uncommitted(9, "b", "a", "a,b"), gone, gone}, old, behind, data, "m-0", "", "takes its vote, and is not known to be committed"},
		"an uncommitted removal, and a quorum of before": {[]survey.Volume{uncommitted(9, "a", "a,b", "a,b,c"), uncommitted(9, "b", "a,b", "a,b,c"), gone}, old, behind, none, "", "", "those that vote are a quorum"},
		"one that another knows to be committed":         {[]survey.Volume{uncommitted(9, "a", "a,b", "a,c"), uncommitted(9, "b", "a,b", "a,b"), gone}, old, behind, none, "", "", "those that vote are a quorum"},
		"one that a member which is behind knows of":     {[]survey.Volume{uncommitted(9, "a", "a,b", "a,c"), uncommitted(8, "b", "a,b", "a,b"), gone}, old, behind, data, "m-0", "", "of the voters before it there is no quorum"},
		"one that a learner knows to be committed":       {[]survey.Volume{uncommitted(9, "a", "a", "a,b"), uncommitted(9, "l", "a", "a"), gone}, old, behind, data, "m-0", "", ""},
		"a change, and a backup ahead":                   {[]survey.Volume{uncommitted(9, "a", "a", "a,b"), gone, gone}, old, backup, restored, "m-0", "", "the newest backup is ahead"},

		"a backup, and an empty volume beyond": {[]survey.Volume{gone, gone, gone, empty}, old, backup, restored, "m-0", "", ""},
		"a backup, and a member beyond":        {[]survey.Volume{gone, gone, gone, damaged}, old, backup, restored, "m-0", "", ""},

		"unknown data, and a backup":        {[]survey.Volume{of("beef"), gone, damaged}, old, backup, none, "", "waits", "the data of m-0 is of cluster beef, which nothing that is recorded explains: it may have served last, and may have acknowledged writes. If"},
		"unknown data alone":                {[]survey.Volume{of("beef"), of("beef"), of("bead")}, old, backup, none, "", "waits", "\"beef\"}}'; or kubectl patch etcd main -n ns --subresource=status --type=merge -p '{\"status\":{\"clusterID\":\"bead\"}}'), and the cluster starts from it; otherwise delete claim c-0, c-1, c-2"},
		"unknown data, and no backup":       {[]survey.Volume{of("beef"), of("beef"), gone}, old, Backup{}, none, "", "waits", "delete claim c-0, c-1, or mount"},
		"unknown data, and a voter":         {[]survey.Volume{of("beef"), of("beef"), has(2, 5)}, old, backup, none, "", "waits", "and that of m-2 is of cluster cafe. If it has the data of this Etcd, record its ID (kubectl patch etcd main -n ns "},
		"unknown data, and a learner":       {[]survey.Volume{of("beef"), gone, learner("cafe", 9, 69)}, old, backup, none, "", "waits", "and that of m-2 is of cluster cafe"},
		"unknown data that is damaged":      {[]survey.Volume{damagedOf("beef"), gone, has(2, 5)}, old, backup, none, "", "waits", "cluster beef and is damaged (a page), which nothing"},
		"unknown data beyond":               {[]survey.Volume{gone, gone, gone, of("beef")}, old, backup, none, "", "waits", "delete claim c-3"},
		"unfinished, unknown and newer too": {[]survey.Volume{has(8, 8), of("beef"), of("new")}, once, backup, none, "", "waits", "of cluster beef, which nothing"},

		"a learner, and no backup":       {[]survey.Volume{gone, learner("cafe", 9, 60), empty}, old, Backup{}, data, "m-1", "", "it was a learner"},
		"a removed member":               {[]survey.Volume{gone, removed("cafe"), empty}, old, Backup{}, data, "m-1", "", "it was removed from the cluster, and lacks what was written after that"},
		"a removed member, and a backup": {[]survey.Volume{gone, removed("cafe"), empty}, old, backup, restored, "m-1", "", "the newest backup is ahead"},
		"a removed member, and a voter":  {[]survey.Volume{removed("cafe"), withID(has(9, 9), "v"), gone}, old, backup, none, "", "", "those that vote are a quorum"},
		"its data aside, and no other":   {[]survey.Volume{gone, removedAside, gone}, old, backup, none, "", "waits", "new.etcd.removed-1 on claim c-1"},
		"a learner, and a backup behind": {[]survey.Volume{gone, learner("cafe", 9, 70), empty}, old, backup, data, "m-1", "", "it was a learner"},
		"a learner, and a backup ahead":  {[]survey.Volume{gone, learner("cafe", 9, 69), empty}, old, backup, restored, "m-1", "", "the newest backup is ahead"},
		"a learner that may be ahead":    {[]survey.Volume{gone, func() survey.Volume { v := learner("cafe", 9, 60); v.Survey.LastIndex += 10; return v }(), empty}, old, backup, data, "m-1", "", ""},
		"a voter, and a backup ahead":    {[]survey.Volume{gone, voter(9, 9, 69), empty}, old, backup, restored, "m-1", "", "m-1 has data, but it had fallen behind, and the newest backup is ahead of it: that leads to revision 70, and the data to 69 at most"},
		"a voter, and a backup behind":   {[]survey.Volume{gone, voter(9, 9, 70), empty}, old, backup, data, "m-1", "", "the most advanced of the 1"},
		"a voter that may be ahead":      {[]survey.Volume{gone, voter(9, 19, 60), empty}, old, backup, data, "m-1", "", "or all since it fell behind"},
		"voters, and a backup ahead":     {[]survey.Volume{gone, voter(9, 9, 69), gone, voter(8, 8, 60), gone}, old, backup, restored, "m-1", "", "had fallen behind"},

		"a removed member that does not know": {[]survey.Volume{gone, gone, gone, voter(9, 9, 60)}, old, backup, restored, "m-0", "", "m-3 has data, but it is beyond the 3 members that are known: it may have been removed"},
		"the same, and no backup":             {[]survey.Volume{gone, gone, gone, voter(9, 9, 60)}, old, Backup{}, data, "m-3", "", "it is beyond the 3 members that are known"},
		"the same, and a voter":               {[]survey.Volume{gone, voter(10, 10, 71), gone, voter(9, 9, 60)}, old, backup, data, "m-1", "", "the most advanced of the 2"},
		"a learner ahead of the one voter":    {[]survey.Volume{member1of("a", "b", "c"), withID(has(1, 4), "d"), gone}, old, behind, data, "m-0", "", ""},

		"unfinished, and rebuilt":                    {[]survey.Volume{has(8, 8), gone, of("new")}, once, Backup{}, data, "m-2", "", "m-0 has data of another cluster, cafe"},
		"unfinished, and another one has joined":     {[]survey.Volume{has(8, 8), learner("new", 2, 1), gone}, once, Backup{}, data, "m-1", "", ""},
		"a second one, unfinished":                   {[]survey.Volume{of("ace"), has(8, 8), learner("new", 2, 1)}, twice, Backup{}, data, "m-2", "", ""},
		"unfinished, and not rebuilt":                {[]survey.Volume{has(8, 8), gone, has(7, 7)}, once, Backup{}, data, "m-0", "", "a later one, which a recovery made, has left none"},
		"unfinished, and lost since":                 {[]survey.Volume{has(8, 8), gone, gone}, once, Backup{}, data, "m-0", "", "a later one, which a recovery made, has left none"},
		"unfinished, lost, and a backup of it":       {[]survey.Volume{has(8, 8), gone, gone}, once, backup, restored, "m-0", "", "the newest backup is ahead"},
		"unfinished, and older data is damaged":      {[]survey.Volume{has(8, 8), damaged, gone}, once, backup, restored, "m-0", "", "the newest backup is ahead"},
		"unfinished, and an empty volume":            {[]survey.Volume{has(8, 8), empty, gone}, once, Backup{}, data, "m-0", "", "left none; the volume of m-1 is empty"},
		"unfinished, and damaged since":              {[]survey.Volume{has(8, 8), gone, damagedOf("new")}, once, backup, none, "", "waits", "the data of m-2 is of cluster new and is damaged (a page), and that of m-0 is of the earlier cluster cafe"},
		"unfinished, and damaged data of some":       {[]survey.Volume{has(8, 8), gone, damagedOf("")}, once, backup, none, "", "waits", "delete claim c-2 to go on without it"},
		"unfinished, and one that had just joined":   {[]survey.Volume{has(8, 8), joined, gone}, once, backup, none, "", "waits", "had just joined"},
		"unfinished, and data of an unknown cluster": {[]survey.Volume{has(8, 8), of("beef"), gone}, once, backup, none, "", "waits", "the data of m-1 is of cluster beef, which nothing that is recorded explains: it may have served last, and may have acknowledged writes, and that of m-0 is of the earlier cluster cafe. If"},
		"unfinished, and unknown data alone":         {[]survey.Volume{gone, of("beef"), gone}, once, backup, none, "", "waits", "delete claim c-1"},
		"unfinished, damaged, and nothing older":     {[]survey.Volume{damaged, gone, damagedOf("new")}, once, backup, restored, "m-0", "", ""},
		"unfinished, and a quorum of it":             {[]survey.Volume{has(8, 8), of("new"), of("new")}, once, Backup{}, none, "", "", "2 of 3"},
		"unfinished, and set aside":                  {[]survey.Volume{has(8, 8), gone, aside}, once, backup, none, "", "waits", "m-2 has set data aside (new.etcd.before-x-1 on claim c-2), and that of m-0 is of the earlier cluster cafe. Rename it to new.etcd"},
		"unfinished, set aside, and a backup":        {[]survey.Volume{gone, aside, aside}, once, backup, none, "", "waits", "on claim c-1), m-2 has set data aside"},
		"unfinished, set aside, and no backup":       {[]survey.Volume{gone, aside, gone}, once, Backup{}, none, "", "waits", "delete claim c-1 to go on without it"},
		"unfinished, damaged, and set aside":         {[]survey.Volume{gone, damagedBeside, gone}, once, backup, none, "", "waits", "on claim c-1"},
		"unfinished, rebuilt, and set aside":         {[]survey.Volume{aside, of("new"), gone}, once, backup, data, "m-1", "", ""},
		"unfinished, learned, and set aside":         {[]survey.Volume{aside, learner("new", 2, 70), gone}, once, backup, data, "m-1", "", ""},
		"damaged data of a cluster before":           {[]survey.Volume{damaged, gone, of("new")}, once, backup, data, "m-2", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			for i := range c.volumes {
				c.volumes[i].Ordinal, c.volumes[i].Member, c.volumes[i].Claim = int32(i), fmt.Sprintf("m-%d", i), fmt.Sprintf("c-%d", i)
			}
			members := int32(len(c.volumes))
			if members == 4 {
				members = 3
			}
			got := choose(Evidence{Etcd: types.NamespacedName{Namespace: "ns", Name: "main"}, Volumes: c.volumes, Lineage: c.lineage, Members: members, Backup: c.backup})
			g.Expect(got.Source).To(Equal(c.source), got.Why)
			g.Expect(got.Member).To(Equal(c.member), got.Why)
			g.Expect(got.Failed).To(Equal(c.end == "failed"), got.Why)
			g.Expect(got.Waits).To(Equal(c.end == "waits"), got.Why)
			g.Expect(got.Why).To(ContainSubstring(c.says))
			g.Expect(got.ClusterID != "").To(Equal(c.source == data), got.ClusterID)
		})
	}
}

// Members that are configured for another cluster than the one that was recorded since refuse its data. A quorum of it is rebuilt.
func TestQuorumThatMembersRefuseIsRebuilt(t *testing.T) {
	for refused, source := range map[bool]v1alpha1.RecoverySource{false: "", true: v1alpha1.RecoverFromData} {
		g := NewWithT(t)
		e := Evidence{Volumes: []survey.Volume{has(2, 5), has(2, 6), {}}, Lineage: []string{"cafe"}, Members: 3, Refused: refused}
		g.Expect(choose(e).Source).To(Equal(source))
		e.Volumes = e.Volumes[:1]
		g.Expect(choose(e).Why).NotTo(HaveSuffix("; "), "there is no other volume")
		e.Volumes = append(e.Volumes, survey.Volume{Member: "m-9"})
		g.Expect(choose(e).Why).To(HaveSuffix("; m-9 has no volume"))
	}
}

// Without usable data, the reason says what each volume has.
func TestWhatIsNotUsableIsSaid(t *testing.T) {
	lost := survey.Volume{Member: "m-0", State: survey.Seen, Survey: member.Survey{State: member.SurveyDamaged, ClusterID: "cafe", Damage: "a page"}}
	for _, lineage := range [][]string{{"cafe"}, {"cafe", "new"}} {
		c := choose(Evidence{Volumes: []survey.Volume{lost}, Lineage: lineage, Members: 1})
		NewWithT(t).Expect(c.Why).To(HaveSuffix("; the data of m-0 is damaged (a page)"))
	}
}

// A backup that is chosen over data has to be ahead of it in the store, too. What is rebuilt or restored continues above every revision
// that is known, and what no cluster reaches is not believed.
func TestWhatIsKnownOfRevisions(t *testing.T) {
	behind := func(revision int64) survey.Volume {
		v := has(2, 9)
		v.Survey.AppliedIndex, v.Survey.Revision, v.Ordinal, v.Member = 9, revision, 1, "m-1"
		return v
	}
	lost := survey.Volume{Ordinal: 0, Member: "m-0"}
	for name, c := range map[string]struct {
		volumes    []survey.Volume
		backup     Backup
		preferData bool
		source     v1alpha1.RecoverySource
		atLeast    int64
		highest    int64
		hadData    bool
	}{
		"a backup ahead of data":   {[]survey.Volume{lost, behind(60)}, Backup{Revision: 70, Highest: 70}, false, v1alpha1.RecoverFromBackup, 61, 70, true},
		"that a person passes by":  {[]survey.Volume{lost, behind(60)}, Backup{Revision: 70, Highest: 70, Says: "full"}, true, v1alpha1.RecoverFromData, 0, 70, true},
		"one that has as much":     {[]survey.Volume{lost, behind(60)}, Backup{Revision: 60, Highest: 60}, true, v1alpha1.RecoverFromData, 0, 60, true},
		"a backup alone":           {[]survey.Volume{lost}, Backup{Revision: 70, Highest: 75}, false, v1alpha1.RecoverFromBackup, 0, 75, false},
		"data ahead of a backup":   {[]survey.Volume{lost, behind(80)}, Backup{Revision: 70, Highest: 70}, false, v1alpha1.RecoverFromData, 0, 80, true},
		"data behind a record":     {[]survey.Volume{lost, behind(80)}, Backup{Revision: 70, Highest: 95}, false, v1alpha1.RecoverFromData, 0, 95, true},
		"data without a backup":    {[]survey.Volume{lost, behind(80)}, Backup{}, false, v1alpha1.RecoverFromData, 0, 80, true},
		"data that no cluster has": {[]survey.Volume{lost, lost, lost, behind(1 << 62), behind(1<<62 + 1)}, Backup{}, false, v1alpha1.RecoverFromData, 0, 1 << 62, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			in := newInput(in(v1alpha1.RecoverySurveying, ""), hold())
			in.Evidence = Evidence{Volumes: c.volumes, Lineage: []string{"cafe"}, Members: 5, Backup: c.backup, PreferData: c.preferData}
			r := decide(in, epoch).Recovery
			g.Expect(r.Source).To(Equal(c.source))
			g.Expect(r.Revision).To(Equal(c.atLeast))
			g.Expect(r.HighestRevision).To(Equal(c.highest))
			g.Expect(r.HadData).To(Equal(c.hadData))
			in.Began = c.highest + 1
			g.Expect(decide(in, epoch).Recovery.HighestRevision).To(Equal(c.highest+1), "the cluster before, of which nothing is left, went on above that")
			const behind = "the newest backup (full) leads to revision 70, and the data to 60 at most"
			d := decide(in, epoch)
			if !c.preferData || c.backup.Revision == 60 {
				g.Expect(d.Message).NotTo(ContainSubstring("passed over"))
				g.Expect(result(in, d)).NotTo(HaveKey("backup"))
				return
			}
			g.Expect(d.Message).To(ContainSubstring("; " + behind + ": the backup was passed over, since the data was asked for"))
			g.Expect(result(in, d)).To(HaveKeyWithValue("backup", behind), "it is still there when the task has ended")
		})
	}
}

// A backup has only what a quorum had. If a quorum has less, its volumes were set back: that is said, and nothing else is done.
func TestAQuorumThatWasSetBack(t *testing.T) {
	for revision, says := range map[int64]string{60: "", 61: "; but the newest backup (full) leads to revision 61, and the data to 60 at most: the volumes have lost what was acknowledged, as after they were restored from copies. What the backup leads to is listed by kubectl etcdtask restorable main -n ns"} {
		g := NewWithT(t)
		in := newInput(in(v1alpha1.RecoverySurveying, ""), hold())
		in.Evidence = Evidence{Etcd: types.NamespacedName{Namespace: "ns", Name: "main"}, Lineage: []string{"cafe"}, Members: 3, Backup: Backup{Revision: revision, Says: "full"}}
		for i := range int32(3) {
			v := has(2, 9)
			v.Survey.AppliedIndex, v.Survey.Revision, v.Ordinal, v.Member = 9, 60, i, fmt.Sprintf("m-%d", i)
			in.Volumes = append(in.Volumes, v)
		}
		d := decide(in, epoch)
		g.Expect(d.Recovery.Source).To(BeEmpty(), d.Message)
		g.Expect(d.Message).To(ContainSubstring("they are started as they are, and nothing is rebuilt; m-1: its log ends at"))
		g.Expect(d.Message).To(HaveSuffix("and its database is at revision 60" + says))
		if says == "" {
			g.Expect(result(in, d)).NotTo(HaveKey("backup"))
			continue
		}
		g.Expect(result(in, d)).To(HaveKeyWithValue("backup", HavePrefix("the newest backup (full) leads to revision 61")))
		in.PreferData = true
		g.Expect(decide(in, epoch).Message).To(HaveSuffix("its database is at revision 60"), "the backup may be of another cluster")
	}
}
