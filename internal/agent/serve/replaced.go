// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/go-logr/logr"
)

// RemoveReplaced removes data that was set aside: what a learner has replaced, because a quorum has all of it, and the data of removed
// members and from before a recovery, once no recovery or undo can need it. Call it when the member votes, until it reports that it is done.
func RemoveReplaced(log logr.Logger, shared SharedFrom) (done bool) {
	removed, done, err := removeReplaced(shared)
	if err != nil {
		log.Error(err, "Removing data that was set aside failed")
	}
	for _, dir := range removed {
		log.Info("Removed data that was set aside: the member votes", "directory", dir)
	}
	return done
}

func removeReplaced(shared SharedFrom) (removed []string, done bool, err error) {
	config, err := shared()
	if err != nil {
		return nil, false, err
	}
	dataDir := config.DataDir()
	patterns := []string{dataDir + member.ReplacedSuffix + "*"}
	// Without an ID, the operator has yet to say how the cluster stands: its ConfigMap may have been deleted.
	over := config.ClusterID != "" && config.Recovery == nil && !config.Kept
	if over {
		patterns = append(patterns, dataDir+member.BeforeSuffix+"*", dataDir+member.RemovedSuffix+"*")
		patterns = append(patterns, datadir.Leftovers(dataDir)...)
	}
	for _, pattern := range patterns {
		aside, err := filepath.Glob(pattern)
		if err != nil {
			return removed, false, fmt.Errorf("looking for data that was set aside: %w", err)
		}
		for _, dir := range aside {
			if err := os.RemoveAll(dir); err != nil {
				return removed, false, fmt.Errorf("removing data that was set aside: %w", err)
			}
			removed = append(removed, dir)
		}
	}
	return removed, over, nil
}
