// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	digest = "0123456789abcdef0123456789abcdefffffffffffffffffffffffffffffffff"
	full   = "Full-00000000-00000030-1760000000.gz"
)

// previewed is the verdict on a task whose preview has shown something.
func previewed(c Config, found backup.Preview, outcome tasks.Outcome) tasks.Verdict {
	return previewedWith(c, found, 0, outcome)
}

// previewedWith is previewed with a revision that the snapshot Leases record.
func previewedWith(c Config, found backup.Preview, leased int64, outcome tasks.Outcome) tasks.Verdict {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}}
	etcd.Status.ClusterID = "cafe"
	etcd.Status.Recovery = &v1alpha1.ClusterRecovery{PreviousClusterID: "ace", EarlierClusterIDs: []string{"ace0"}}
	etcd.Spec.StorageCapacity = ptr.To(resource.MustParse("4Gi"))
	c.MaxWritesSince = ptr.To[int64](5)
	v := tasks.Verdict{Outcome: outcome, Message: "the Job", Result: map[string]string{"job": "j"}}
	if outcome == tasks.Fail {
		v.Code = v1alpha1.ErrJobFailed
	}
	return judge(v, found, tasks.Typed[Config]{Task: tasks.Task{Etcd: etcd}, Config: c}, nil, leased, epoch)
}

func TestJudge(t *testing.T) {
	good := backup.Preview{Base: "full", Deltas: 2, Revision: 40, Hash: 4294967295, Keys: 9, Bytes: 1 << 30, Digest: digest, Lost: 60, End: &backup.Point{Revision: 100}, EndBytes: 1 << 30}
	with := func(change func(*backup.Preview)) backup.Preview {
		p := good
		change(&p)
		return p
	}
	refused := with(func(p *backup.Preview) {
		p.Refused = &backup.Refusal{Code: backup.AuthEnabled, Message: "clients had to log in"}
	})
	unfit := func(code backup.RefusalCode, why string) backup.Preview {
		return with(func(p *backup.Preview) { p.Refused = &backup.Refusal{Code: code, Message: why} })
	}
	corrupt := backup.Preview{Refused: &backup.Refusal{Code: backup.SnapshotCorrupt, Message: "full is corrupt", Older: "older"}}
	fits := with(func(p *backup.Preview) { p.EndBytes = 2<<30 - member.LogSize })
	large := with(func(p *backup.Preview) { p.EndBytes = 2<<30 - member.LogSize + 1 })
	to := &Target{Revision: 40}
	confirmed := Config{To: to, Confirm: digest[:32] + "@100"}
	for name, c := range map[string]struct {
		config  Config
		found   backup.Preview
		job     tasks.Outcome
		outcome tasks.Outcome
		code    v1alpha1.ErrorCode
		says    string
	}{
		"a preview":                  {Config{To: to}, good, tasks.Done, tasks.Done, "", "restore main -n ns --to revision=40 --base full --max-writes-since 5 --confirm " + digest[:32] + "@100"},
		"of a time":                  {Config{To: &Target{Time: &metav1.Time{Time: epoch}}}, good, tasks.Done, tasks.Done, "", "--to 2026-01-01T00:00:00Z --base full --max"},
		"of a snapshot from a base":  {Config{To: &Target{Snapshot: "Full-1", Base: "Full-0"}}, good, tasks.Done, tasks.Done, "", "--to snapshot=Full-1 --base full --max"},
		"of the latest state":        {Config{To: &Target{Latest: true}}, good, tasks.Done, tasks.Done, "", "--to revision=40 --base full --max"},
		"of another prefix":          {Config{To: to, From: &v1alpha1.StoreSpec{Prefix: "ns/copy"}}, with(func(p *backup.Preview) { p.FromTaken = epoch }), tasks.Done, tasks.Done, "", "it is in prefix ns/copy, where the newest snapshot is of 2026-01-01T00:00:00Z and nothing protects snapshots from removal until the restore has ended, and all that the cluster has now is lost: compared with the newest state in the backup, 0 keys come back, 0 get an earlier value, and 0 vanish. To go back to it: kubectl etcdtask restore main -n ns --to revision=40 --base full --from ns/copy --max-writes-since 5 --confirm " + digest[:32] + "@100"},
		"of one, by an older agent":  {Config{To: to, From: &v1alpha1.StoreSpec{Prefix: "ns/copy"}}, with(func(p *backup.Preview) {}), tasks.Done, tasks.Done, "", "it is in prefix ns/copy, where nothing protects snapshots from removal until the restore has ended, and all"},
		"of another prefix, lost":    {Config{To: to, From: &v1alpha1.StoreSpec{Prefix: "ns/copy"}}, with(func(p *backup.Preview) { p.End, p.NotCompared = nil, "no backup" }), tasks.Done, tasks.Fail, v1alpha1.ErrRestoreRefused, "how much is lost is not known, since the newest state in the backup of the Etcd cannot be read (no backup): take a full snapshot first (kubectl etcdtask snapshot main -n ns --wait). Nothing was changed"},
		"with what was agreed to":    {Config{To: to, KeepService: true, AcceptAuth: true}, good, tasks.Done, tasks.Done, "", "--to revision=40 --base full --keep-service --accept-auth --max-writes-since 5 --confirm "},
		"that could not be compared": {Config{To: to}, with(func(p *backup.Preview) { p.NotCompared = "no space" }), tasks.Done, tasks.Done, "", "could not be compared"},
		"one that failed":            {Config{To: to}, backup.Preview{}, tasks.Fail, tasks.Fail, v1alpha1.ErrJobFailed, "the Job"},
		"one that is refused":        {Config{To: to}, refused, tasks.Done, tasks.Fail, v1alpha1.ErrRestoreRefused, "clients had to log in. Nothing was changed"},
		"a corrupt snapshot":         {Config{To: to}, corrupt, tasks.Done, tasks.Fail, v1alpha1.ErrRestoreRefused, "preview again with --base older. Nothing was changed"},
		"too large for the volumes":  {Config{To: to}, large, tasks.Done, tasks.Fail, v1alpha1.ErrRestoreRefused, "enlarge the volumes first"},
		"just fits the volumes":      {Config{To: to}, fits, tasks.Done, tasks.Done, "", "60 revisions are lost: compared with the newest state in the backup, 0 keys come back, 0 get an earlier value, and 0 vanish"},
		"confirmed":                  {confirmed, good, tasks.Done, tasks.Continue, "", "what was confirmed"},
		"the store has changed":      {confirmed, with(func(p *backup.Preview) { p.Digest = "f" + digest[1:] }), tasks.Done, tasks.Fail, v1alpha1.ErrNotConfirmed, "--confirm f123"},
		"confirmed and refused":      {confirmed, refused, tasks.Done, tasks.Fail, v1alpha1.ErrRestoreRefused, "log in"},
		"more is known by now":       {confirmed, with(func(p *backup.Preview) { p.End.Revision = 100 }), tasks.Done, tasks.Continue, "", ""},
		"an undo":                    {Config{Undo: "r"}, good, tasks.Done, tasks.Continue, "", "the preview shows what was confirmed; the client Service stops selecting members"},
		"an undo that is refused":    {Config{Undo: "r"}, refused, tasks.Done, tasks.Continue, "", "only the data that was kept can be used (clients had to log in); the client Service stops selecting members"},
		"an undo to a newer etcd":    {Config{Undo: "r"}, unfit(backup.NewerVersion, "the members run 3.5.30"), tasks.Done, tasks.Fail, v1alpha1.ErrRestoreRefused, "the members run 3.5.30. Nothing was changed"},
		"an undo over the quota":     {Config{Undo: "r"}, unfit(backup.OverQuota, "the quota is 5"), tasks.Done, tasks.Fail, v1alpha1.ErrRestoreRefused, "the quota is 5. Nothing was changed"},
		"an undo without a snapshot": {Config{Undo: "r"}, backup.Preview{}, tasks.Fail, tasks.Continue, "", "only the data that was kept can be used (the Job)"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			v := previewed(c.config, c.found, c.job)
			g.Expect(v.Outcome).To(Equal(c.outcome), v.Message)
			g.Expect(v.Code).To(Equal(c.code))
			g.Expect(v.Message).To(ContainSubstring(c.says))
			g.Expect(v.Result).To(HaveKeyWithValue("job", "j"))
			if v.Recovery != nil {
				g.Expect(v.Reason).To(Equal(v1alpha1.ReasonRestoring))
				g.Expect(v.Recovery.Restore.Base == "").To(Equal(strings.Contains(c.says, "only the data")))
			}
			g.Expect(v.Recovery != nil).To(Equal(c.outcome == tasks.Continue), "only then is anything changed")
		})
	}
	g := NewWithT(t)
	r := previewed(confirmed, good, tasks.Done).Recovery
	g.Expect(r.PreviousClusterID).To(Equal("cafe"))
	g.Expect(r.EarlierClusterIDs).To(Equal([]string{"ace0", "ace"}))
	g.Expect(r.Source).To(BeEmpty(), "nothing is chosen yet")
	g.Expect(*r.Restore).To(Equal(v1alpha1.RestoreStatus{
		ClusterRestore: v1alpha1.ClusterRestore{Base: "full", Revision: 40, Hash: 4294967295, Bytes: 1 << 30}, Fenced: true, HighestRevision: 100,
	}))
	confirmed.From = &v1alpha1.StoreSpec{Prefix: "ns/copy"}
	g.Expect(previewed(confirmed, good, tasks.Done).Recovery.Restore.Prefix).To(Equal("ns/copy"))
	confirmed.KeepService, confirmed.From = true, nil
	kept := previewed(confirmed, good, tasks.Done)
	g.Expect(kept.Recovery.Restore.Fenced).To(BeFalse())
	g.Expect(kept.Message).To(ContainSubstring("clients stay connected"))
	g.Expect(previewed(Config{Undo: "r"}, backup.Preview{}, tasks.Fail).Recovery.Restore.Base).To(BeEmpty())
	g.Expect(previewed(Config{To: to}, good, tasks.Done).Result).To(HaveKeyWithValue("confirm", digest[:32]+"@100"))
}

// Where the end of the store is not known, what is written since the preview counts from what the snapshot Leases record, not from the target.
func TestNewestKnownWithoutAnEnd(t *testing.T) {
	found := backup.Preview{Base: "full", Revision: 40, Bytes: 1, Digest: digest, NotCompared: "a delta is lost"}
	for name, c := range map[string]struct {
		leased, want int64
		end          *backup.Point
	}{
		"recorded":           {90, 90, nil},
		"nothing is":         {0, 40, nil},
		"less is":            {7, 40, nil},
		"the store has more": {90, 100, &backup.Point{Revision: 100}},
		"the store has less": {90, 80, &backup.Point{Revision: 80}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			found.End = c.end
			to := &Target{Revision: 40}
			v := previewedWith(Config{To: to}, found, c.leased, tasks.Done)
			g.Expect(v.Result).To(HaveKeyWithValue(keyConfirm, fmt.Sprintf("%s@%d", digest[:32], c.want)))
			g.Expect(v.Message).To(HaveSuffix(fmt.Sprintf("--confirm %s@%d", digest[:32], c.want)))
			if c.end == nil {
				g.Expect(v.Message).To(ContainSubstring("could not be compared with the newest state in the backup: a delta is lost. What is written counts from revision %d", c.want))
			}
			begun := previewedWith(Config{To: to, Confirm: v.Result[keyConfirm]}, found, c.leased, tasks.Done)
			g.Expect(begun.Recovery.Restore.HighestRevision).To(Equal(c.want))
		})
	}
}

func TestConfig(t *testing.T) {
	handler := tasks.For(&Handler{})
	for config, says := range map[string]string{
		`to: {time: "2026-11-24T14:03:00Z"}`:                        "",
		`{to: {revision: 42}, confirm: ` + digest[:32] + `@7}`:      "",
		`{to: {latest: true}, keepService: true, acceptAuth: true}`: "",
		`{to: {snapshot: Full-00000000-00000042-1700000000}}`:       "",
		`{to: {latest: true}, confirm: ` + digest[:32] + `@0}`:      "",
		`{undo: r1, maxWritesSince: 0}`:                             "",
		``:                                                          "either to or undo",
		`{to: {latest: true}, undo: r1}`:                            "either to or undo",
		`{to: {}}`:                                                  "to: a target is",
		`{to: {latest: true, revision: 1}}`:                         "to: a target is",
		`{to: {snapshot: ../etc}}`:                                  "not the name of a snapshot",
		`{to: {revision: -1}}`:                                      "no revision -1",
		`{to: {latest: true}, confirm: yes please}`:                 "what the preview printed",
		`{to: {latest: true}, confirm: ` + digest[:31] + `@7}`:      "what the preview printed",
		`{to: {latest: true}, confirm: ` + digest[:32] + `@-7}`:     "what the preview printed",
		`{undo: r1, confirm: ` + digest[:32] + `@7}`:                "an undo needs none",
		`{to: {latest: true}, maxWritesSince: -1}`:                  "maxWritesSince",
		`{to: {latest: true}, from: {prefix: ns/copy}}`:             "",
		`{to: {latest: true}, from: {prefix: /ns/copy}}`:            "",
		`{to: {latest: true}, from: {provider: S3, container: c, prefix: ns/copy, secretRef: {name: s}}}`: "",
		`{to: {latest: true}, from: {}}`:              "the prefix of from is",
		`{to: {latest: true}, from: {prefix: "a b"}}`: "the prefix of from is",
		`{to: {latest: true}, from: {prefix: ../b}}`:  "the prefix of from is",
		`{undo: r1, from: {prefix: b}}`:               "from belongs to to",
	} {
		_, err := handler.Decode(config)
		if says == "" {
			NewWithT(t).Expect(err).NotTo(HaveOccurred(), config)
		} else {
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(says)), config)
		}
	}
}

// The cluster whose data is kept is one that was before: its member uses none of another. No record has it any more if the only member has
// restored the backup by itself since, and only so many are recorded.
func TestAnUndoLeavesBehindWhatIsKept(t *testing.T) {
	many := make([]string, 16)
	for i := range many {
		many[i] = fmt.Sprintf("a%d", i)
	}
	for name, c := range map[string]struct {
		recorded *v1alpha1.ClusterRecovery
		previous string
		want     []string
	}{
		"nothing is recorded":     {nil, "cafe", []string{"ace", "feed"}},
		"the restore is recorded": {&v1alpha1.ClusterRecovery{TaskUID: "r1-uid", PreviousClusterID: "feed", EarlierClusterIDs: []string{"ace"}}, "cafe", []string{"ace", "feed"}},
		"a wake-up is":            {&v1alpha1.ClusterRecovery{TaskUID: "hibernation", PreviousClusterID: "dead"}, "cafe", []string{"ace", "feed", "dead"}},
		"there were many since":   {&v1alpha1.ClusterRecovery{TaskUID: "r1-uid", PreviousClusterID: "dead", EarlierClusterIDs: many}, "cafe", slices.Concat([]string{"feed"}, many[3:], []string{"dead"})},
		"it is the present one":   {&v1alpha1.ClusterRecovery{TaskUID: "r1-uid", PreviousClusterID: "feed", EarlierClusterIDs: []string{"ace"}}, "feed", []string{"ace"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := newEtcd(func(e *v1alpha1.Etcd) { e.Status.ClusterID, e.Status.Recovery = c.previous, c.recorded })
			undone := earlier(func(t *v1alpha1.EtcdOperatorTask) {
				t.Status.Recovery.PreviousClusterID, t.Status.Recovery.EarlierClusterIDs = "feed", []string{"ace"}
			})
			task := taskOf(etcd, Config{Undo: "r1"}, nil)
			there := apitest.API(etcd, undone, task.Object)
			run(t, there, at(saving).Snapshot, task)
			key := client.ObjectKey{Namespace: "ns", Name: job.Name(task.Object)}
			apitest.Run(t, there, key)
			apitest.Complete(t, there, key, `{"refused":{"code":"NoBackup","message":"there is none"}}`)
			v, err := handlerOf(there, at(saving).Snapshot).Execute(t.Context(), task)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(v.Recovery).NotTo(BeNil(), v.Message)
			g.Expect(v.Recovery.PreviousClusterID).To(Equal(c.previous))
			g.Expect(v.Recovery.EarlierClusterIDs).To(Equal(c.want))
		})
	}
}
