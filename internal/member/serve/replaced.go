// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/etcd-foreman/etcd-foreman/internal/member"
	"github.com/go-logr/logr"
)

// RemoveReplaced removes the data that was put aside when the member was replaced by a learner, which took a
// quorum that has all that there ever was. It is for when the learner votes.
func RemoveReplaced(log logr.Logger, shared SharedFrom) {
	removed, err := removeReplaced(shared)
	if err != nil {
		log.Error(err, "Removing data that was put aside failed")
	}
	for _, dir := range removed {
		log.Info("Removed data that was put aside, now that the member votes", "directory", dir)
	}
}

func removeReplaced(shared SharedFrom) (removed []string, err error) {
	config, err := shared()
	if err != nil {
		return nil, err
	}
	aside, err := filepath.Glob(config.DataDir() + member.ReplacedSuffix + "*")
	if err != nil {
		return nil, fmt.Errorf("looking for data that was put aside: %w", err)
	}
	for _, dir := range aside {
		if err := os.RemoveAll(dir); err != nil {
			return removed, fmt.Errorf("removing data that was put aside: %w", err)
		}
		removed = append(removed, dir)
	}
	return removed, nil
}
