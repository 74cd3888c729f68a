// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package prepare

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/crashsafe"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// unusable makes a refusal of an error of the volume: the operator reports it, and a plain error would only be in a log. It returns nil for nil.
func (p *preparation) unusable(err error) error {
	if err == nil {
		return nil
	}
	return &cluster.Refusal{Reason: v1alpha1.ReasonVolumeUnusable, Message: fmt.Sprintf("member %s cannot use its volume: %v", p.id.Name, err)}
}

const (
	// probeFile is written to the volume to see whether that is possible.
	probeFile = ".etcd-agent-probe"
	// probeSize is far less than etcd needs for a log, which it makes at once.
	probeSize = 64 << 10
)

// probe returns an error if etcd could not write to the volume, before a member joins or is replaced by one. Before a member starts with its data, it
// tries what etcd tries when it starts, which takes no space: on a full volume, etcd may start nevertheless. Anything else takes space.
func (p *preparation) probe(d member.Decision) error {
	dataDir := p.shared.DataDir()
	switch {
	case d.Action == member.Start:
		for _, sub := range []string{"", "member", "member/wal", "member/snap"} {
			if err := fileutil.IsDirWriteable(filepath.Join(dataDir, sub)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("writing to the data directory: %w", err)
			}
		}
		return nil
	case d.Action == member.Refuse, d.Action == member.Wait && d.Volume.Store != cluster.StoreFree, p.probed:
		return nil
	}
	file := filepath.Join(p.writesTo(d), probeFile)
	if err := errors.Join(crashsafe.WriteFile(file, make([]byte, probeSize)), os.Remove(file)); err != nil {
		return fmt.Errorf("writing to the volume: %w", err)
	}
	p.probed = true
	return nil
}

// writesTo returns the folder in which a member that has no data writes first: its data directory if that is there and empty, since its parent may
// belong to another user; otherwise the parent, in which the directory is made or set aside, and where restores and recoveries write.
func (p *preparation) writesTo(d member.Decision) string {
	dataDir := p.shared.DataDir()
	entries, err := os.ReadDir(dataDir)
	// A run that was killed may have left its probe.
	others := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() != probeFile })
	if err != nil || others || d.Action == member.Restore || p.shared.Recovery != nil {
		return filepath.Dir(dataDir)
	}
	return dataDir
}
