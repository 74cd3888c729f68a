// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package prepare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir/datadirtest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/go-logr/logr/testr"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"
)

// pod is the pod of the member m-0 before it starts, with a volume and the mounted configuration of its Etcd.
type pod struct {
	*machine.WithT
	t       *testing.T
	options Options
	data    string
	clock   *clocktesting.FakeClock
}

const (
	alone  = "initial-cluster: m-0=http://m-0:2380\ninitial-cluster-token: uid\n"
	inOne  = "initial-cluster: m-0=http://m-0:2380,m-1=http://m-1:2380\ninitial-cluster-token: uid\n"
	begins = "etcd: uid\n"
)

func newPod(t *testing.T) *pod {
	p := &pod{WithT: machine.Gomega(t), t: t, data: filepath.Join(t.TempDir(), "data"), clock: clocktesting.NewFakeClock(time.Unix(1, 0))}
	p.options = Options{Name: "m-0", SharedDir: t.TempDir(), ConfigFile: filepath.Join(t.TempDir(), "etcd.yaml"), Clock: p.clock}
	p.share(member.KeyConfig, "listen-client-urls: http://0.0.0.0:2379\ndata-dir: "+p.data+"\n")
	p.share(member.KeyBootstrap, alone)
	return p
}

func (p *pod) share(key, value string) {
	p.Expect(os.WriteFile(filepath.Join(p.options.SharedDir, key), []byte(value), 0o600)).To(Succeed())
}

// holds puts data of cluster cafe on the volume.
func (p *pod) holds(requests ...[]byte) { datadirtest.Write(p.t, p.data, 3, requests...) }

// leftovers puts a database without a log there.
func (p *pod) leftovers() {
	p.Expect(os.MkdirAll(filepath.Join(p.data, "member", "snap"), 0o700)).To(Succeed())
}

// starts is the configuration that etcd starts with; nil if there is none.
func (p *pod) starts() (config map[string]string) {
	text, err := os.ReadFile(p.options.ConfigFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	p.Expect(err).NotTo(HaveOccurred())
	var all map[string]any
	p.Expect(yaml.Unmarshal(text, &all)).To(Succeed())
	config = map[string]string{}
	for _, key := range []string{"initial-cluster-state", "initial-cluster"} {
		config[key] = fmt.Sprint(all[key])
	}
	return config
}

func (p *pod) note() string {
	text, err := os.ReadFile(p.data + ".restored")
	if !errors.Is(err, os.ErrNotExist) {
		p.Expect(err).NotTo(HaveOccurred())
	}
	return string(text)
}

// stored are backups.
type stored struct {
	exist   bool
	exists  error
	restore func() error
	// marked has the markers of clusters that have begun; nil for a store that takes them and has none.
	marked *StoredBackups
}

func (s stored) Exist(context.Context) (bool, error) { return s.exist, s.exists }

func (s stored) Begun(ctx context.Context, token, copyID string) (bool, error) {
	if s.marked == nil {
		return false, nil
	}
	return s.marked.Begun(ctx, token, copyID)
}

func (s stored) Begin(ctx context.Context, token, copyID string) error {
	if s.marked == nil {
		return nil
	}
	return s.marked.Begin(ctx, token, copyID)
}

func (s stored) Restore(context.Context, member.Shared, member.Identity) error { return s.restore() }

// unasked is a store that is not to be asked.
type unasked struct{ t *testing.T }

func (s unasked) Exist(context.Context) (bool, error) {
	s.t.Error("the store is asked")
	return false, nil
}

func (s unasked) Begun(ctx context.Context, _, _ string) (bool, error) { return s.Exist(ctx) }

func (s unasked) Begin(ctx context.Context, _, _ string) error {
	_, err := s.Exist(ctx)
	return err
}

func (s unasked) Restore(context.Context, member.Shared, member.Identity) error { return nil }

// recorder returns a logger and what it was given.
func recorder(t *testing.T) (log logr.Logger, lines *[]string) {
	lines = &[]string{}
	return funcr.New(func(_, args string) { t.Log(args); *lines = append(*lines, args) }, funcr.Options{}), lines
}

// blocks has the name be taken to which the data directory would be renamed.
func (p *pod) blocks(suffix string) {
	p.Expect(os.MkdirAll(filepath.Join(p.data+suffix+"1", "member"), 0o700)).To(Succeed())
}

// blocksProbe has the name of the probe be taken in a folder.
func (p *pod) blocksProbe(dir string) {
	p.Expect(os.MkdirAll(filepath.Join(dir, probeFile, "x"), 0o700)).To(Succeed())
}

func recoverFrom(t *testing.T, source member.RecoverySource, previous string) string {
	recovery, err := member.Recovery{Task: "task", TaskName: "name", Member: "m-0", Source: source, PreviousClusterID: previous}.Encode()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return recovery
}

// attempt is one run of a member, and what comes of it.
type attempt struct {
	given func(p *pod)
	// state is initial-cluster-state of the configuration; empty if the member does not start.
	state, reason, says string
	volume              cluster.Volume
	// aside is the suffix of what was set aside, and note that of a restore, as it begins.
	aside, note string
	// logs is what it logs.
	logs []string
}

func (c attempt) run(t *testing.T) {
	p := newPod(t)
	c.given(p)
	log, logged := recorder(t)
	err := Run(t.Context(), log, p.options)
	for _, says := range c.logs {
		p.Expect(*logged).To(ContainElement(ContainSubstring(says)))
	}
	if c.says == "" {
		p.Expect(err).NotTo(HaveOccurred())
	} else {
		p.Expect(err).To(MatchError(ContainSubstring(c.says)))
	}
	if c.reason != "" {
		var refusal *cluster.Refusal
		p.Expect(errors.As(err, &refusal)).To(BeTrue())
		p.Expect(refusal.Reason).To(Equal(c.reason))
		p.Expect(refusal.Volume).To(Equal(c.volume))
	}
	if c.state == "" {
		p.Expect(p.starts()).To(BeNil())
	} else {
		p.Expect(p.starts()).To(HaveKeyWithValue("initial-cluster-state", c.state))
	}
	p.Expect(p.note()).To(HavePrefix(c.note))
	p.Expect(p.note() == "").To(Equal(c.note == ""))
	aside, err := filepath.Glob(p.data + ".[ab]*")
	p.Expect(err).NotTo(HaveOccurred())
	if c.aside == "" {
		p.Expect(aside).To(BeEmpty())
	} else {
		p.Expect(aside).To(Equal([]string{p.data + c.aside}))
	}
}

// A member that is alone starts with what it has, or says why it does not. Nothing that was there is lost.
func TestRun(t *testing.T) {
	recovery, fromBackup := recoverFrom(t, member.RecoverFromData, "cafe"), recoverFrom(t, member.RecoverFromBackup, "cafe")
	for name, c := range map[string]attempt{
		"it begins its cluster":    {given: func(p *pod) { p.share(member.KeyFirstStart, begins) }, state: "new", logs: []string{"The member may start"}},
		"there was something else": {given: func(p *pod) { p.share(member.KeyFirstStart, begins); p.leftovers() }, state: "new", aside: ".aside-1", logs: []string{"Set the data directory aside"}},
		"its folder is empty":      {given: func(p *pod) { p.share(member.KeyFirstStart, begins); p.Expect(os.Mkdir(p.data, 0o700)).To(Succeed()) }, state: "new"},
		"it may not begin":         {given: (*pod).leftovers, reason: v1alpha1.ReasonFirstStartBlocked, says: "m-0 has no data"},
		"it has data":              {given: func(p *pod) { p.share(member.KeyClusterID, "cafe"); p.holds(); p.options.Backups = unasked{p.t} }, state: "existing"},
		"it has data, of a recovery that is over": {
			given: func(p *pod) { p.recovers(recoverFrom(t, member.RecoverFromData, "beef")); p.holds() }, state: "existing",
		},
		"it has data, of another member": {given: func(p *pod) { p.options.Name = "m-9" }, says: "looking up member m-9"},
		"it has data of another cluster": {
			given:  func(p *pod) { p.share(member.KeyClusterID, "beef"); p.holds() },
			reason: v1alpha1.ReasonDataOfAnotherCluster, says: "holds data of cluster cafe", volume: cluster.Volume{Store: cluster.StoreOther, ClusterID: "cafe"},
		},
		"what is there cannot be set aside": {
			given:  func(p *pod) { p.share(member.KeyFirstStart, begins); p.leftovers(); p.blocks(member.AsideSuffix) },
			reason: v1alpha1.ReasonVolumeUnusable, says: "member m-0 cannot use its volume: setting the data directory aside", aside: ".aside-1",
		},
		"etcd could not write beside its data": {
			given: func(p *pod) {
				p.share(member.KeyClusterID, "cafe")
				p.holds()
				p.Expect(os.Mkdir(filepath.Join(p.data, "member", "wal", ".touch"), 0o700)).To(Succeed())
			},
			reason: v1alpha1.ReasonVolumeUnusable, says: "member m-0 cannot use its volume: writing to the data directory: open ",
		},
		"etcd could not begin on its volume": {
			given:  func(p *pod) { p.share(member.KeyFirstStart, begins); p.blocksProbe(filepath.Dir(p.data)) },
			reason: v1alpha1.ReasonVolumeUnusable, says: "member m-0 cannot use its volume: writing to the volume: open ",
		},
		"it cannot write beside its empty folder": {
			given: func(p *pod) {
				p.share(member.KeyFirstStart, begins)
				p.Expect(os.Mkdir(p.data, 0o700)).To(Succeed())
				p.blocksProbe(filepath.Dir(p.data))
			},
			state: "new",
		},
		"what was killed has left something in its empty folder": {
			given: func(p *pod) {
				p.share(member.KeyFirstStart, begins)
				p.Expect(os.Mkdir(p.data, 0o700)).To(Succeed())
				p.Expect(os.WriteFile(filepath.Join(p.data, probeFile), nil, 0o600)).To(Succeed())
				p.blocksProbe(filepath.Dir(p.data))
			},
			state: "new",
		},
		"etcd could not begin in its empty folder": {
			given:  func(p *pod) { p.share(member.KeyFirstStart, begins); p.blocksProbe(p.data) },
			reason: v1alpha1.ReasonVolumeUnusable, says: "member m-0 cannot use its volume: writing to the volume: open ",
		},
		"it cannot write beside its folder, which it has to set aside": {
			given: func(p *pod) {
				p.share(member.KeyFirstStart, begins)
				p.leftovers()
				p.blocksProbe(filepath.Dir(p.data))
			},
			reason: v1alpha1.ReasonVolumeUnusable, says: "member m-0 cannot use its volume: writing to the volume: open ",
		},
		"it cannot write beside its empty folder, and is restored": {
			given: func(p *pod) {
				p.share(member.KeyFirstStart, begins)
				p.Expect(os.Mkdir(p.data, 0o700)).To(Succeed())
				p.blocksProbe(filepath.Dir(p.data))
				p.options.Backups = stored{exist: true, restore: func() error { p.t.Error("restored"); return nil }}
			},
			reason: v1alpha1.ReasonVolumeUnusable, says: "member m-0 cannot use its volume: writing to the volume: open ",
		},
		"what is there cannot be set aside before a restore": {
			given: func(p *pod) {
				p.share(member.KeyFirstStart, begins)
				p.leftovers()
				p.blocks(member.AsideSuffix)
				p.options.Backups = stored{exist: true, restore: func() error { p.t.Error("restored"); return nil }}
			},
			says: "setting the data directory aside", aside: ".aside-1",
		},
		"its data cannot be read": {
			given:  func(p *pod) { p.Expect(os.WriteFile(p.data, nil, 0o600)).To(Succeed()) },
			reason: v1alpha1.ReasonVolumeUnusable, says: "member m-0 cannot use its volume: inspecting the data directory ",
		},
		"it is restored": {
			given: func(p *pod) {
				p.share(member.KeyFirstStart, begins)
				p.leftovers()
				p.options.Backups = stored{exist: true, restore: func() error {
					p.Expect(p.data).NotTo(BeAnExistingFile())
					p.holds()
					return nil
				}}
			},
			state: "existing", aside: ".aside-1", note: "restored", logs: []string{"Restoring the member from the newest backup"},
		},
		"it is not restored": {
			given: func(p *pod) {
				p.share(member.KeyFirstStart, begins)
				p.options.Backups = stored{exist: true, restore: func() error { return errors.New("no space") }}
			},
			reason: v1alpha1.ReasonRestoreFailed, says: "restoring the backup of member m-0 failed: no space", note: "restored", logs: []string{"Restoring the backup failed"},
		},
		"there is no backup": {
			given: func(p *pod) { p.share(member.KeyFirstStart, begins); p.options.Backups = stored{} },
			state: "new",
		},
		"its store does not answer": {
			given: func(p *pod) {
				p.share(member.KeyFirstStart, begins)
				p.options.Backups = stored{exists: errors.New("no answer")}
			},
			reason: v1alpha1.ReasonBackupUnreachable, says: "does not answer", logs: []string{"Looking for a backup failed"},
		},
		"it is rebuilt": {
			given: func(p *pod) {
				p.recovers(recovery)
				p.holds(datadirtest.Put("a", "1", 0))
				p.options.Backups = unasked{p.t}
			},
			state: "existing", aside: ".before-task-1", note: "recovered ",
			logs: []string{"Rebuilding the cluster from the data of the member", "Made a cluster of one member from all data of the member"},
		},
		"its rebuild was interrupted": {
			given: func(p *pod) {
				p.recovers(recovery)
				p.holds()
				p.Expect(os.Rename(p.data, p.data+".before-task-1")).To(Succeed())
				p.Expect(os.CopyFS(p.data+".rebuilt-task", os.DirFS(rebuilt(p.t, recovery)))).To(Succeed())
			},
			state: "existing", aside: ".before-task-1", note: "recovered ",
		},
		"it cannot be rebuilt": {
			given:  func(p *pod) { p.recovers(recovery); p.holds([]byte("no request")) },
			reason: v1alpha1.ReasonRebuildFailed, says: "rebuilding the cluster from the data of member m-0 failed: ", logs: []string{"Rebuilding the cluster failed"},
		},
		"its recovery restores a backup": {
			given: func(p *pod) {
				p.recovers(fromBackup)
				p.holds()
				p.options.Backups = stored{exist: true, restore: func() error { return os.CopyFS(datadir.RebuiltDir(p.data, "task"), os.DirFS(rebuilt(p.t, recovery))) }}
			},
			state: "existing", aside: ".before-task-1", note: "restored ",
		},
		"its recovery has restored a backup": {
			given: func(p *pod) {
				p.recovers(fromBackup)
				p.Expect(os.CopyFS(p.data, os.DirFS(rebuilt(p.t, recovery)))).To(Succeed())
				p.options.Backups = unasked{p.t}
			},
			state: "existing", note: "recovered ",
		},
		"it cannot be known what a recovery has done": {
			given: func(p *pod) {
				p.recovers(strings.Replace(recovery, "task: task", "task: "+strings.Repeat("t", 300), 1))
				p.holds()
			},
			reason: v1alpha1.ReasonVolumeUnusable, says: "looking for an interrupted rebuild",
		},
		"its recovery is of another member": {
			given: func(p *pod) { p.recovers("task: task\nmember: m-9\nsource: Data\npreviousClusterID: cafe\n") },
			says:  "looking for the member that the cluster is recovered from",
		},
		"its configuration is illegible": {given: func(p *pod) { p.share(member.KeyBootstrap, "[") }, says: "reading " + member.KeyBootstrap},
		"its configuration asks for TLS": {given: func(p *pod) {
			p.share(member.KeyConfig, "listen-client-urls: https://0.0.0.0:2379\n")
			p.share(member.KeyBootstrap, inOne)
		}, says: "reading the client certificate"},
		"its configuration cannot be written": {
			given: func(p *pod) { p.share(member.KeyFirstStart, begins); p.options.ConfigFile = filepath.Join(p.data, "x") },
			says:  "writing the configuration of member m-0",
		},
	} {
		t.Run(name, c.run)
	}
}

// rebuilt is what a recovery makes of the data of cluster cafe.
func rebuilt(t *testing.T, recovery string) string {
	p := newPod(t)
	p.recovers(recovery)
	p.holds()
	p.Expect(Run(t.Context(), testr.New(t), p.options)).To(Succeed())
	return p.data
}

// recovers tells the member of a recovery.
func (p *pod) recovers(recovery string) {
	p.share(member.KeyClusterID, "cafe")
	p.share(member.KeyRecovery, recovery)
}

// A member that waits follows what changes, as long as its patience lasts, and says why it waits when it ends.
func TestRunWaits(t *testing.T) {
	const patience = 3 * retry
	for name, c := range map[string]struct {
		// begins after so many seconds, or is stopped.
		begins, stopped int
		says            []string
	}{
		"until it may begin":           {begins: 2},
		"until its patience has ended": {says: []string{v1alpha1.ReasonFirstStartBlocked}},
		"until it is stopped":          {stopped: 2, says: []string{v1alpha1.ReasonFirstStartBlocked, context.Canceled.Error()}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t)
			p.options.Patience = patience
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			log, logged := recorder(t)
			go func() { ended <- Run(ctx, log, p.options) }()
			looks := 1
			for ; p.waits(ended); looks++ {
				switch looks {
				case c.begins:
					p.share(member.KeyFirstStart, begins)
				case c.stopped:
					cancel()
					p.Eventually(ended).Should(HaveLen(1))
					continue
				}
				p.clock.Step(retry)
			}
			err := <-ended
			p.Expect(strings.Count(strings.Join(*logged, ""), "The member waits")).To(Equal(1), "it is said once")
			for _, says := range c.says {
				p.Expect(err).To(MatchError(ContainSubstring(says)))
			}
			if c.begins > 0 {
				p.Expect(err).NotTo(HaveOccurred())
				p.Expect(p.starts()).NotTo(BeNil())
				return
			}
			p.Expect(p.starts()).To(BeNil())
			if c.stopped == 0 {
				p.Expect(looks).To(Equal(1+int(patience/retry)), "it ends once its patience has passed, and no sooner")
			}
		})
	}
}

// waits reports whether a run waits; false once it has ended.
func (p *pod) waits(ended chan error) bool {
	p.Eventually(func() bool { return p.clock.HasWaiters() || len(ended) > 0 }).Should(BeTrue())
	return len(ended) == 0
}

// asked is a member that others list.
func asked(t *testing.T, l memberList) (p *pod, prepares *preparation) {
	p = newPod(t)
	p.share(member.KeyBootstrap, inOne)
	prepares = &preparation{Options: p.options, log: testr.New(t)}
	p.Expect(prepares.read()).To(Succeed())
	prepares.others.close()
	if l.id == 0 {
		l.id = 0xcafe
	}
	if l.seen == nil {
		l.seen = func(change string) { t.Error(change) }
	}
	prepares.others = &others{etcd: &clientv3.Client{Cluster: l}}
	return p, prepares
}

// What the others know is asked of a quorum.
func TestAsk(t *testing.T) {
	const url = "http://m-0:2380"
	for name, c := range map[string]struct {
		list memberList
		want knowledge
		says string
	}{
		"not listed":    {list: memberList{listed: []*etcdserverpb.Member{{ID: 1, Name: "m-1"}}}, want: knowledge{answer: member.AnswerNotListed}},
		"never started": {list: memberList{listed: []*etcdserverpb.Member{{ID: 2, PeerURLs: []string{url}}}}, want: knowledge{answer: member.AnswerNeverStarted, memberID: 2}},
		"started":       {list: memberList{listed: []*etcdserverpb.Member{{ID: 2, PeerURLs: []string{url}, ClientURLs: []string{"http://m-0:2379"}}}}, want: knowledge{answer: member.AnswerStarted, memberID: 2}},
		"no answer":     {list: memberList{silent: errors.New("timeout")}, says: "asking [http://m-1:2379] for the member list: timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			p, prepares := asked(t, c.list)
			got, err := prepares.others.ask(t.Context(), prepares.id)
			if c.says != "" {
				p.Expect(err).To(MatchError(c.says))
				p.Expect(got).To(Equal(knowledge{}))
				return
			}
			p.Expect(err).NotTo(HaveOccurred())
			c.want.clusterID, c.want.members = "cafe", c.list.listed
			p.Expect(got).To(Equal(c.want))
		})
	}
	none, err := (*others)(nil).ask(t.Context(), member.Identity{})
	NewWithT(t).Expect([]any{none, err}).To(Equal([]any{knowledge{}, nil}))
}

// A member that the others list and have never seen joins them, under all its URLs.
func TestAMemberJoins(t *testing.T) {
	p, prepares := asked(t, memberList{listed: []*etcdserverpb.Member{
		{ID: 1, Name: "m-1", PeerURLs: []string{"http://m-1:2380"}, ClientURLs: []string{"http://m-1:2379"}}, {ID: 2, PeerURLs: []string{"http://m-0:2380"}, IsLearner: true},
	}})
	p.leftovers()
	waits, err := prepares.once(t.Context())
	p.Expect(err).NotTo(HaveOccurred())
	p.Expect(waits).To(BeNil())
	p.Expect(p.starts()).To(Equal(map[string]string{"initial-cluster-state": "existing", "initial-cluster": "m-1=http://m-1:2380,m-0=http://m-0:2380"}))
	p.Expect(p.data + ".aside-1").To(BeADirectory())
}

// The data of a member that the operator has removed is set aside once the others serve without it. Then the member waits until it is added.
func TestTheDataOfARemovedMemberIsSetAside(t *testing.T) {
	p, prepares := asked(t, memberList{listed: []*etcdserverpb.Member{{ID: 1, Name: "m-1"}}})
	p.holds()
	prepares.shared.ClusterID, prepares.shared.Members = "cafe", &member.Members{Leaving: []string{"m-0"}}
	waits, err := prepares.once(t.Context())
	p.Expect(err).NotTo(HaveOccurred())
	p.Expect(waits.Reason).To(Equal(v1alpha1.ReasonNotListed))
	p.Expect(waits.Volume).To(Equal(cluster.Volume{Store: cluster.StoreFree}))
	p.Expect(p.data + member.RemovedSuffix + "1").To(BeADirectory())
	p.Expect(p.data).NotTo(BeADirectory())
	p.Expect(p.starts()).To(BeNil())
}

// Data that cannot be set aside stays where it is, and nothing is changed after that.
func TestDataThatCannotBeSetAsideStays(t *testing.T) {
	p, prepares := asked(t, memberList{listed: []*etcdserverpb.Member{{ID: 1, Name: "m-1"}}})
	p.holds()
	p.blocks(member.RemovedSuffix)
	p.blocks(member.ReplacedSuffix)
	prepares.shared.ClusterID, prepares.shared.Members = "cafe", &member.Members{Leaving: []string{"m-0"}}
	const says = "setting the data directory aside"
	_, err := prepares.once(t.Context())
	p.Expect(err).To(MatchError(ContainSubstring(says)))
	_, err = prepares.replace(t.Context(), member.Input{DataDir: p.data}, knowledge{answer: member.AnswerNotListed})
	p.Expect(err).To(MatchError(ContainSubstring(says)))
	p.Expect(p.data).To(BeADirectory())
	p.Expect(prepares.clear(member.Input{DataDir: p.options.ConfigFile + "/x"}, "")).To(Succeed())
	p.Expect(os.WriteFile(p.options.ConfigFile, nil, 0o600)).To(Succeed())
	p.Expect(prepares.clear(member.Input{DataDir: p.options.ConfigFile}, "")).To(MatchError(ContainSubstring("reading the data directory to set aside")))
}

// Data that was put back while the member waits is found.
func TestDataIsPutBack(t *testing.T) {
	p, prepares := asked(t, memberList{silent: errors.New("no answer")})
	prepares.shared.ClusterID = "cafe"
	waits, err := prepares.once(t.Context())
	p.Expect(err).NotTo(HaveOccurred())
	p.Expect(waits.Reason).To(Equal(v1alpha1.ReasonDataLost))
	p.holds()
	waits, err = prepares.once(t.Context())
	p.Expect(err).NotTo(HaveOccurred())
	p.Expect(waits).To(BeNil())
}

// Once the operator says how the members of a recovered cluster change, an empty member no longer joins by itself.
func TestAMemberIsNotAddedBesideAPlan(t *testing.T) {
	p, prepares := asked(t, memberList{})
	prepares.shared.Recovery = &member.Recovery{Task: "task", Member: "m-1", Source: member.RecoverFromData, PreviousClusterID: "cafe"}
	prepares.shared.ClusterID, prepares.shared.Members = prepares.shared.RecoveredIDs()[1], &member.Members{}
	id, err := strconv.ParseUint(prepares.shared.ClusterID, 16, 64)
	p.Expect(err).NotTo(HaveOccurred())
	prepares.others.etcd.Cluster = memberList{id: id, seen: func(change string) { t.Error(change) }}
	waits, err := prepares.once(t.Context())
	p.Expect(err).NotTo(HaveOccurred())
	p.Expect(waits.Reason).To(Equal(v1alpha1.ReasonNotListed))
}

// A member with data starts while the others list it, by its ID, and says which ID they list if its data is gone.
func TestTheOthersListTheMember(t *testing.T) {
	listed := memberList{listed: []*etcdserverpb.Member{{ID: 1, Name: "m-1"}, {ID: 7, Name: "m-0", ClientURLs: []string{"http://m-0:2379"}}}}
	p, prepares := asked(t, listed)
	p.holds()
	prepares.shared.ClusterID = "cafe"
	waits, err := prepares.once(t.Context())
	p.Expect(err).NotTo(HaveOccurred())
	p.Expect(waits).To(BeNil())
	p.Expect(p.starts()).To(HaveKeyWithValue("initial-cluster-state", "existing"))

	p, prepares = asked(t, listed)
	prepares.shared.ClusterID = "cafe"
	waits, err = prepares.once(t.Context())
	p.Expect(err).NotTo(HaveOccurred())
	p.Expect(waits.Reason).To(Equal(v1alpha1.ReasonDataLost))
	p.Expect(waits.Volume).To(Equal(cluster.Volume{Store: cluster.StoreFree, Lost: "7"}))
}

// While its cluster is recovered, a member with data from before replaces itself with a learner. Its data is kept until the recovery is over.
func TestAMemberJoinsARecoveredCluster(t *testing.T) {
	for name, refuses := range map[string]error{"it is added": nil, "it is not added yet": errors.New("unhealthy cluster")} {
		t.Run(name, func(t *testing.T) {
			var changes []string
			list := memberList{refuses: refuses, seen: func(change string) { changes = append(changes, change) }}
			list.added = []*etcdserverpb.Member{{ID: 1, Name: "m-1", PeerURLs: []string{"http://m-1:2380"}}, {ID: 9, PeerURLs: []string{"http://m-0:2380"}, IsLearner: true}}
			p, prepares := asked(t, list)
			p.holds()
			prepares.shared.ClusterID = "cafe"
			prepares.shared.Recovery = &member.Recovery{Task: "task", Member: "m-1", Source: member.RecoverFromData, PreviousClusterID: "cafe"}
			waits, err := prepares.once(t.Context())
			p.Expect(err).NotTo(HaveOccurred())
			p.Expect(waits.Reason).To(Equal(v1alpha1.ReasonRecovering), "the cluster from before answers")
			p.Expect(changes).To(BeEmpty())

			list.id, err = strconv.ParseUint(prepares.shared.RecoveredIDs()[1], 16, 64)
			p.Expect(err).NotTo(HaveOccurred())
			prepares.others.etcd.Cluster = list
			waits, err = prepares.once(t.Context())
			p.Expect(err).NotTo(HaveOccurred())
			p.Expect(changes).To(Equal([]string{"add http://m-0:2380"}))
			p.Expect(p.data + member.BeforeSuffix + "task-1").To(BeADirectory())
			if refuses != nil {
				p.Expect(waits.Reason).To(Equal(v1alpha1.ReasonNotReplaced))
				p.Expect(waits.Message).To(ContainSubstring("unhealthy cluster"))
				p.Expect(p.starts()).To(BeNil())
				return
			}
			p.Expect(waits).To(BeNil())
			p.Expect(p.starts()).To(Equal(map[string]string{"initial-cluster-state": "existing", "initial-cluster": "m-1=http://m-1:2380,m-0=http://m-0:2380"}))
			p.Expect(p.note()).To(Equal("recovered " + prepares.shared.RecoveredIDs()[1]))
		})
	}
}

// A pod whose template was changed, and that is not replaced yet, keeps the connections for which it has certificates; all else is as it is
// configured now.
func TestAPodKeepsItsConnections(t *testing.T) {
	p := newPod(t)
	p.holds()
	rendered := func() map[string]any {
		p.t.Helper()
		p.Expect(Run(t.Context(), logr.Discard(), p.options)).To(Succeed())
		text, err := os.ReadFile(p.options.ConfigFile)
		p.Expect(err).NotTo(HaveOccurred())
		var all map[string]any
		p.Expect(yaml.Unmarshal(text, &all)).To(Succeed())
		return all
	}
	rendered()
	p.share(member.KeyConfig, "listen-client-urls: https://0.0.0.0:2379\nlisten-peer-urls: https://0.0.0.0:2380\nlisten-metrics-urls: http://0.0.0.0:9\nquota-backend-bytes: 7\nclient-transport-security: {trusted-ca-file: /missing}\npeer-transport-security: {trusted-ca-file: /missing}\ndata-dir: "+p.data+"\n")
	again := rendered()
	p.Expect(again).To(HaveKeyWithValue("listen-client-urls", "http://0.0.0.0:2379"))
	p.Expect(again).To(HaveKeyWithValue("quota-backend-bytes", BeEquivalentTo(7)))
	for _, key := range []string{"listen-peer-urls", "listen-metrics-urls", "client-transport-security", "peer-transport-security"} {
		p.Expect(again).NotTo(HaveKey(key))
	}
	p.Expect(again).To(HaveKeyWithValue("advertise-client-urls", HavePrefix("http://")))

	for _, damaged := range []string{":", "", "\x00\x00"} {
		p.Expect(os.WriteFile(p.options.ConfigFile, []byte(damaged), 0o600)).To(Succeed(), "a node that lost power has not written it")
		p.Expect(rendered()).To(HaveKeyWithValue("listen-client-urls", "https://0.0.0.0:2379"))
	}
}

// A member whose volume cannot be written is neither said to be free to join, nor replaced by one that could not start.
func TestNoMemberJoinsWithoutAVolume(t *testing.T) {
	for name, listed := range map[string][]*etcdserverpb.Member{
		"it would be added":    {{ID: 1, Name: "m-1", PeerURLs: []string{"http://m-1:2380"}}},
		"it would be replaced": {{ID: 1, Name: "m-1", PeerURLs: []string{"http://m-1:2380"}}, {ID: 2, Name: "m-0", PeerURLs: []string{"http://m-0:2380"}}},
	} {
		t.Run(name, func(t *testing.T) {
			p, prepares := asked(t, memberList{listed: listed}) // a change of the list fails the test
			prepares.shared.ClusterID = "cafe"
			p.blocksProbe(filepath.Dir(p.data))
			_, err := prepares.once(t.Context())
			refusal, is := errors.AsType[*cluster.Refusal](err)
			p.Expect(is).To(BeTrue())
			p.Expect(refusal.Reason).To(Equal(v1alpha1.ReasonVolumeUnusable))
			p.Expect(refusal.Volume).To(BeZero())
		})
	}
}
