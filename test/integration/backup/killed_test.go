// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/copier"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/restore"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/snapshotter"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/finalsnapshot"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/crash/killed"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/utils/clock"
)

// A process of the tests carries out an operation of the agent in a folder if it is started with these variables.
const (
	operationVariable = "BACKUP_TEST_OPERATION"
	folderVariable    = "BACKUP_TEST_FOLDER"
	endpointVariable  = "BACKUP_TEST_ENDPOINT"
)

// What is in the folder of an operation.
func dataIn(dir string) string { return filepath.Join(dir, "data.etcd") }

func storeIn(ctx context.Context, dir, name string) (*store.Store, error) {
	return store.Open(ctx, store.Config{Provider: store.Local, Container: filepath.Join(dir, name), Prefix: prefix})
}

// operate carries an operation out as the agent does.
func operate(ctx context.Context, what, dir string) error {
	source, err := storeIn(ctx, dir, "store")
	if err != nil {
		return err
	}
	switch what {
	case "restore":
		_, err = restore.Restore(ctx, restore.Config{
			Store: source, DataDir: filepath.Join(dir, "restored"), Member: memberName, PeerURL: peerURL, InitialCluster: memberName + "=" + peerURL, Token: "token", Log: logr.Discard(),
		})
	case "compaction":
		_, err = restore.Compact(ctx, restore.CompactConfig{Store: source, WorkDir: filepath.Join(dir, "work"), Compression: backup.Gzip, Log: logr.Discard()})
	case "copy":
		var target *store.Store
		if target, err = storeIn(ctx, dir, "target"); err == nil {
			_, err = copier.Copy(ctx, copier.Config{Source: source, Target: target, Now: time.Now(), Log: logr.Discard()})
		}
	case "final snapshot":
		survey, wrong := datadir.Survey(dataIn(dir))
		if wrong != nil {
			return wrong
		}
		_, err = finalsnapshot.Take(ctx, finalsnapshot.Config{
			Store: source, DataDir: dataIn(dir), ClusterID: survey.ClusterID, WorkDir: filepath.Join(dir, "work"), Compression: backup.Gzip, Clock: clock.RealClock{}, Log: logr.Discard(),
		})
	case "keeping":
		err = keep(ctx, source)
	case "snapshots":
		err = takeSnapshots(ctx, source)
	case "rebuild":
		err = rebuild(ctx, dir)
	case "going back":
		err = goBack(ctx, source, dir)
	case "going back to kept data":
		err = rebuildKept(ctx, dir)
	}
	return errors.Join(err, source.Close())
}

// takeSnapshots takes a full and a delta snapshot of a member.
func takeSnapshots(ctx context.Context, to *store.Store) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{os.Getenv(endpointVariable)}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	etcd, err := snapshotter.Member(client)
	if err != nil {
		return err
	}
	s, err := snapshotter.New(snapshotter.Config{Options: options(), Etcd: etcd, Store: to, Clock: clock.RealClock{}, Log: logr.Discard()})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { _ = s.Run(ctx) }()
	for {
		if _, err = s.Full(ctx, false); err == nil {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	if _, err := client.Put(ctx, "delta", time.Now().String()); err != nil {
		return err
	}
	_, err = s.Delta(ctx)
	return err
}

// keep has retention leave what a restore needs: what leads to the last revision, and a snapshot for its undo.
func keep(ctx context.Context, s *store.Store) error {
	list, err := s.List(ctx)
	if err != nil {
		return err
	}
	chain, err := backup.Newest(list)
	if err != nil {
		return err
	}
	_, held := s.Hold(ctx, chain.Full.Name(), chain.LastRevision(), time.Now())
	_, kept := s.Keep(ctx, chain.Full.Name())
	return errors.Join(held, kept)
}

// rebuild makes a new cluster of the data of a member, unless that was done.
func rebuild(ctx context.Context, dir string) error {
	previous, err := os.ReadFile(filepath.Join(dir, "previous"))
	if err != nil {
		return err
	}
	if rebuilt, err := datadir.Rebuilt(dataIn(dir), "task"); err != nil || !rebuilt && isNew(dir) {
		return err
	}
	_, err = datadir.Rebuild(ctx, datadir.RebuildConfig{
		DataDir: dataIn(dir), Task: "task", Member: memberName, PeerURL: peerURL, Token: "new", PreviousClusterID: string(previous), Clock: clock.RealClock{}, Log: logr.Discard(),
	})
	return err
}

// raise is how much is added to the revision of an earlier state.
const raise = 5000

// goBack makes a new cluster of an earlier state, its last one here, unless that was done.
func goBack(ctx context.Context, source *store.Store, dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "point"))
	if err != nil {
		return err
	}
	point := &restore.Point{}
	if err := json.Unmarshal(text, point); err != nil {
		return err
	}
	made, err := datadir.Rebuilt(dataIn(dir), "task")
	if err != nil || !made && isNew(dir) {
		return err
	}
	if !made {
		if _, err := restore.Restore(ctx, restore.Config{
			Store: source, DataDir: datadir.RebuiltDir(dataIn(dir), "task"), WorkDir: datadir.RestoringDir(dataIn(dir)), Member: memberName, PeerURL: peerURL,
			InitialCluster: memberName + "=" + peerURL, Token: "new", Point: point, Bump: raise, Log: logr.Discard(),
		}); err != nil {
			return err
		}
	}
	return datadir.Swap(dataIn(dir), "task", clock.RealClock{})
}

// rebuildKept makes a new cluster of data that was set aside, unless that was done.
func rebuildKept(ctx context.Context, dir string) error {
	previous, err := os.ReadFile(filepath.Join(dir, "previous"))
	if err != nil {
		return err
	}
	made, err := datadir.Rebuilt(dataIn(dir), "task")
	if err != nil || !made && isNew(dir) {
		return err
	}
	_, err = datadir.Rebuild(ctx, datadir.RebuildConfig{
		DataDir: dataIn(dir), From: filepath.Join(dir, "kept"), Known: raise,
		Task: "task", Member: memberName, PeerURL: peerURL, Token: "new", PreviousClusterID: string(previous), Clock: clock.RealClock{}, Log: logr.Discard(),
	})
	return err
}

// isNew reports whether there is the data of another cluster than the previous one.
func isNew(dir string) bool {
	previous, err := os.ReadFile(filepath.Join(dir, "previous"))
	if err != nil {
		return false
	}
	survey, err := datadir.Survey(dataIn(dir))
	return err == nil && survey.State == member.SurveyPresent && survey.ClusterID != string(previous)
}

// backedUp returns a folder with the data of a member that is killed, and its backup: two full snapshots and two deltas, which reach a revision.
func backedUp(t *testing.T) (dir string, revision int64) {
	t.Helper()
	g := NewWithT(t)
	dir = t.TempDir()
	g.Expect(os.Mkdir(filepath.Join(dir, "store"), 0o700)).To(Succeed())
	g.Expect(os.Mkdir(filepath.Join(dir, "target"), 0o700)).To(Succeed())
	e := startEtcd(t, dataIn(dir))
	s, err := storeIn(t.Context(), dir, "store")
	g.Expect(err).NotTo(HaveOccurred())
	taker := run(t, e, s, options())
	taker.begin(g)
	for i := range 4 {
		for k := range 50 {
			put, err := e.Put(t.Context(), strconv.Itoa(k), fmt.Sprintf("%d %0200d", i, k))
			g.Expect(err).NotTo(HaveOccurred())
			revision = put.Header.Revision
		}
		if i == 1 {
			_, err = taker.Full(t.Context(), false)
		} else {
			_, err = taker.Delta(t.Context())
		}
		g.Expect(err).NotTo(HaveOccurred())
	}
	taker.stop()
	e.stop()
	survey, err := datadir.Survey(dataIn(dir))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(dir, "previous"), []byte(survey.ClusterID), 0o600)).To(Succeed())
	point, err := json.Marshal(pointOf(previewed(t, s, backup.Target{Revision: revision - 10})))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(dir, "point"), point, 0o600)).To(Succeed())
	g.Expect(os.CopyFS(filepath.Join(dir, "kept"), os.DirFS(dataIn(dir)))).To(Succeed())
	return dir, revision
}

// An operation that is killed at any of its writes leaves nothing that is taken for what it is not, and the next one does what it would have done.
func TestKilledAtEachWrite(t *testing.T) {
	for _, what := range []string{"restore", "compaction", "copy", "final snapshot", "keeping", "rebuild", "going back", "going back to kept data"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			original, revision := backedUp(t)
			dir := filepath.Join(t.TempDir(), "folder")
			reset := func() {
				g.Expect(os.RemoveAll(dir)).To(Succeed())
				g.Expect(os.CopyFS(dir, os.DirFS(original))).To(Succeed())
			}
			reset()
			every := killed.Some()
			if what == "keeping" {
				every.Call = 1 // it has few
			}
			kills := killed.AtEachWrite(t, every, func() *exec.Cmd { return process(what, dir) }, func(call string) {
				t.Log(call)
				leftSomethingUsable(t, dir, revision)
				g.Expect(operate(t.Context(), what, dir)).To(Succeed(), "again, after it was killed before %s", call)
				cameToItsEnd(t, what, dir, original, revision)
				reset()
			})
			t.Logf("%d kills", kills)
			g.Expect(kills).To(BeNumerically(">", 1))
		})
	}
}

// The same for snapshots of a member that serves.
func TestSnapshotsKilledAtEachWrite(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(os.Mkdir(filepath.Join(dir, "store"), 0o700)).To(Succeed())
	e := startEtcd(t, filepath.Join(t.TempDir(), "m"))
	_, err := e.Put(t.Context(), "a", "b")
	g.Expect(err).NotTo(HaveOccurred())
	t.Setenv(endpointVariable, e.Endpoints()[0])
	kills := killed.AtEachWrite(t, killed.Some(), func() *exec.Cmd { return process("snapshots", dir) }, func(call string) {
		t.Log(call)
		s, err := storeIn(t.Context(), dir, "store")
		g.Expect(err).NotTo(HaveOccurred())
		list, err := s.List(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		for _, snapshot := range list {
			g.Expect(s.Verify(t.Context(), snapshot)).To(Succeed(), "%s, killed before %s", snapshot.Name(), call)
		}
		g.Expect(operate(t.Context(), "snapshots", dir)).To(Succeed())
		now, err := e.Get(t.Context(), "delta")
		g.Expect(err).NotTo(HaveOccurred())
		expectRestore(t, dir, now.Kvs[0].ModRevision)
	})
	t.Logf("%d kills", kills)
}

func process(what, dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), operationVariable+"="+what, folderVariable+"="+dir), os.Stderr
	return cmd
}

// leftSomethingUsable expects that a restore from the store is possible, and that what has the name of data is whole.
func leftSomethingUsable(t *testing.T, dir string, revision int64) {
	t.Helper()
	g := NewWithT(t)
	expectRestore(t, dir, revision)
	if _, err := os.Stat(filepath.Join(dir, "restored")); err == nil {
		survey, err := datadir.Survey(filepath.Join(dir, "restored"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(survey).To(And(HaveField("State", member.SurveyPresent), HaveField("Revision", revision)))
		g.Expect(os.RemoveAll(filepath.Join(dir, "restored"))).To(Succeed(), "the agent does not restore what it has")
	}
}

// expectRestore expects that a restore reaches a revision.
func expectRestore(t *testing.T, dir string, revision int64) {
	t.Helper()
	g := NewWithT(t)
	s, err := storeIn(t.Context(), dir, "store")
	g.Expect(err).NotTo(HaveOccurred())
	result, err := restoreTo(t, s, filepath.Join(t.TempDir(), "check"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.Revision).To(Equal(revision))
	g.Expect(s.Close()).To(Succeed())
}

// cameToItsEnd expects what an operation leaves that was not killed.
func cameToItsEnd(t *testing.T, what, dir, original string, revision int64) {
	t.Helper()
	g := NewWithT(t)
	expectRestore(t, dir, revision)
	name := map[string]string{"copy": "target"}[what]
	if name == "" {
		name = "store"
	}
	s, err := storeIn(t.Context(), dir, name)
	g.Expect(err).NotTo(HaveOccurred())
	list, err := s.List(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	for _, snapshot := range list {
		g.Expect(s.Verify(t.Context(), snapshot)).To(Succeed(), snapshot.Name())
	}
	chain, err := backup.Newest(list)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(chain.LastRevision()).To(Equal(revision))
	switch what {
	case "restore":
		survey, err := datadir.Survey(filepath.Join(dir, "restored"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(survey).To(And(HaveField("State", member.SurveyPresent), HaveField("Revision", revision)))
		g.Expect(filepath.Glob(filepath.Join(dir, "restored*"))).To(HaveLen(1), "nothing else is left")
	case "compaction":
		g.Expect(chain.Deltas).To(BeEmpty())
	case "copy":
		from, err := storeIn(t.Context(), original, "store")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(from.List(t.Context())).To(HaveLen(len(list)))
	case "keeping":
		for _, snapshot := range append(chain.Deltas, *chain.Full) {
			g.Expect(snapshot.Kept).To(BeTrue(), snapshot.Name())
		}
	case "final snapshot":
		g.Expect(chain.Full.Final).To(BeTrue())
		g.Expect(exec.Command("diff", "-r", dataIn(original), dataIn(dir)).CombinedOutput()).To(BeEmpty(), "the data was only read")
	case "rebuild", "going back", "going back to kept data":
		want := map[string]int64{"rebuild": revision, "going back": revision - 10 + raise, "going back to kept data": max(revision, raise) + datadir.Margin}[what]
		survey, err := datadir.Survey(dataIn(dir))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(survey).To(And(HaveField("State", member.SurveyPresent), HaveField("Revision", want)))
		kept, err := filepath.Glob(dataIn(dir) + ".*")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(kept).To(HaveLen(1))
		g.Expect(exec.Command("diff", "-r", dataIn(original), kept[0]).CombinedOutput()).To(BeEmpty(), "what the member had is kept")
	}
	g.Expect(s.Close()).To(Succeed())
}
