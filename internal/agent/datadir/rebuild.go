// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/crashsafe"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/go-logr/logr"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"k8s.io/utils/clock"
)

// RebuildConfig of a rebuild.
type RebuildConfig struct {
	// DataDir is etcd's data directory. Its content is set aside unchanged.
	DataDir string
	// Task is the UID of the task that recovers the cluster.
	Task string
	// Member, its peer URL, and the token of the new cluster.
	Member, PeerURL, Token string
	// PreviousClusterID is the ID, in hex, of the cluster that the data must belong to.
	PreviousClusterID string
	// From is a directory with data that was set aside. A copy of it is used instead of the content of DataDir; empty for none.
	From string
	// Known is the highest known revision of the previous cluster: the new one continues by Margin above that, and above its own data. If it
	// is 0, the revision is not raised: the data has everything that clients have seen.
	Known int64
	// Begins records at which revision the new cluster begins, if that is raised.
	Begins Recorder

	Clock clock.PassiveClock
	Log   logr.Logger
}

// RebuildResult is the result of a rebuild. It is empty if only the last renames were left to do.
type RebuildResult struct {
	// Revision of the data, before it is raised.
	Revision int64
	// Replayed is the number of log entries that the database lacked, and Uncommitted that of those among them after the
	// known commit index. Any of them may have been acknowledged.
	Replayed, Uncommitted uint64
}

// Suffixes of an unfinished rebuild, of one that is only to be renamed, and of the ID of that.
const (
	rebuildingSuffix = ".rebuilding"
	rebuiltSuffix    = ".rebuilt-"
	copySuffix       = ".copy-"
)

// RestoringDir returns the folder, beside a data directory, in which a restore from snapshots works.
func RestoringDir(dataDir string) string { return dataDir + ".restoring" }

// Leftovers returns patterns of what an abandoned rebuild or restore may leave beside a data directory.
func Leftovers(dataDir string) []string {
	return []string{dataDir + rebuildingSuffix, dataDir + rebuiltSuffix + "*", dataDir + copySuffix + "*", RestoringDir(dataDir)}
}

// RebuiltDir returns the name of a complete data directory until Swap gives it its final name.
func RebuiltDir(dataDir, task string) string { return dataDir + rebuiltSuffix + task }

// Rebuilt reports whether a rebuild for a task was interrupted before its last renames. There may be no data directory then.
func Rebuilt(dataDir, task string) (bool, error) {
	_, err := os.Stat(RebuiltDir(dataDir, task))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for an interrupted rebuild: %w", err)
	}
	return true, nil
}

// CopyID returns an ID of what was made for a task on this volume, RebuiltDir. What is made for it on another volume has another one.
func CopyID(dataDir, task string) (string, error) {
	file := dataDir + copySuffix + task
	id, err := os.ReadFile(file)
	if !errors.Is(err, os.ErrNotExist) {
		return string(id), err
	}
	id = []byte(rand.Text())
	if err = crashsafe.WriteFile(file+".new", id); err == nil {
		err = crashsafe.Rename(file+".new", file)
	}
	return string(id), err
}

// KeptAside reports whether data was set aside for a task.
func KeptAside(dataDir, task string) (bool, error) {
	found, err := named(dataDir, member.BeforeSuffix+task+"-")
	return len(found) > 0, err
}

// Rebuild makes a new cluster of one member from the data of a member of a cluster that has lost quorum. All entries of its
// log count: any of them may have been acknowledged by a leader that failed before announcing the commit. "etcd
// --force-new-cluster" drops those.
//
// The data itself is only read, and finally renamed. Rebuild may be called again after an interruption.
func Rebuild(ctx context.Context, config RebuildConfig) (RebuildResult, error) {
	rebuilt, err := Rebuilt(config.DataDir, config.Task)
	var result RebuildResult
	if err == nil && !rebuilt {
		result, err = config.rebuild(ctx)
	}
	// Not in rebuild, which would not run again if it was killed just before this.
	if err = errors.Join(err, os.RemoveAll(config.DataDir+rebuildingSuffix)); err != nil {
		return RebuildResult{}, err
	}
	return result, Swap(config.DataDir, config.Task, config.Clock)
}

// Swap sets the data directory aside, and gives its name to RebuiltDir, which was made for a task. Between the two renames there is no data
// directory, and Rebuilt reports true.
func Swap(dataDir, task string, clock clock.PassiveClock) error {
	if err := os.RemoveAll(RestoringDir(dataDir)); err != nil {
		return fmt.Errorf("removing leftovers of the restore: %w", err)
	}
	before := fmt.Sprintf("%s%s%s-%d", dataDir, member.BeforeSuffix, task, clock.Now().Unix())
	if err := crashsafe.Rename(dataDir, before); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("setting the previous data aside: %w", err)
	}
	if err := crashsafe.Rename(RebuiltDir(dataDir, task), dataDir); err != nil {
		return fmt.Errorf("giving the rebuilt data its name: %w", err)
	}
	return nil
}

func (c RebuildConfig) rebuild(ctx context.Context) (RebuildResult, error) {
	work := c.DataDir + rebuildingSuffix
	if c.Known > 0 {
		if err := c.Begins.Check(ctx); err != nil {
			return RebuildResult{}, err
		}
	}
	if err := os.RemoveAll(work); err != nil {
		return RebuildResult{}, fmt.Errorf("removing leftovers of an interrupted rebuild: %w", err)
	}
	from := cmp.Or(c.From, c.DataDir)
	source, err := open(from)
	if err != nil {
		return RebuildResult{}, err
	}
	if id := strconv.FormatUint(source.log.clusterID, 16); id != c.PreviousClusterID {
		return RebuildResult{}, fmt.Errorf("%s holds data of cluster %s, but cluster %s is to be recovered", from, id, c.PreviousClusterID)
	}
	if err := checkSpace(filepath.Dir(c.DataDir), source.needs()); err != nil {
		return RebuildResult{}, fmt.Errorf("checking for free space: %w: grow the volume", err)
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return RebuildResult{}, fmt.Errorf("making a folder for the rebuild: %w", err)
	}
	return c.build(ctx, source, work)
}

// build makes the new data directory, and gives it the name that Rebuilt checks.
func (c RebuildConfig) build(ctx context.Context, source stopped, work string) (result RebuildResult, err error) {
	defer recovered(&err)
	from, data := source.database.path, filepath.Join(work, "data")
	if from == "" {
		from = filepath.Join(work, "empty.db")
		if err := makeDatabase(from); err != nil {
			return RebuildResult{}, err
		}
	}
	db := filepath.Join(data, "member", "snap", "db")
	c.Log.Info("Copying the database", "from", from, "bytes", source.database.bytes)
	stop := tell(c.Log, "Copying the database", func() []any { return []any{"bytes", size(db), "of", source.database.bytes} })
	err = snapshot.NewV3(quiet).Restore(snapshot.RestoreConfig{
		SnapshotPath: from, SkipHashCheck: true, OutputDataDir: data, // there is no hash to check in what etcd works on
		Name: c.Member, PeerURLs: []string{c.PeerURL}, InitialCluster: c.Member + "=" + c.PeerURL, InitialClusterToken: c.Token,
	})
	stop()
	if err != nil {
		return RebuildResult{}, fmt.Errorf("making a data directory from %s: %w", from, err)
	}
	result, err = replay(ctx, c.Log, source, db)
	if err != nil {
		return RebuildResult{}, err
	}
	if c.Known > 0 {
		bump := max(c.Known-result.Revision, 0) + Margin
		if _, err := (Start{Token: c.Token, Begins: c.Begins, Log: c.Log}).Begin(ctx, db, result.Revision, bump); err != nil {
			return RebuildResult{}, err
		}
	}
	if err := crashsafe.Publish(data, RebuiltDir(c.DataDir, c.Task)); err != nil {
		return RebuildResult{}, fmt.Errorf("giving the rebuilt data a name: %w", err)
	}
	return result, nil
}

// needs returns the maximum space of a rebuild, in bytes.
func (s stopped) needs() int64 { return member.NeedsOfRebuild(s.database.bytes, s.log.bytes) }
