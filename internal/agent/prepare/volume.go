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
	// probeFile is written beside the data directory to see whether that is possible.
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
	file := filepath.Join(filepath.Dir(dataDir), probeFile)
	if err := errors.Join(crashsafe.WriteFile(file, make([]byte, probeSize)), os.Remove(file)); err != nil {
		return fmt.Errorf("writing to the volume: %w", err)
	}
	p.probed = true
	return nil
}
