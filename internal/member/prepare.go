// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
)

// Options say where Prepare finds and leaves its files.
type Options struct {
	// Name of the member.
	Name string
	// SharedDir is where the shared ConfigMap is mounted.
	SharedDir string
	// ConfigFile is the file to write.
	ConfigFile string
}

// Prepare decides how a member starts and writes its configuration file. When the member must not start it
// writes nothing and returns an error that says why and what to do.
func Prepare(ctx context.Context, log logr.Logger, o Options) error {
	shared, err := readShared(o.SharedDir)
	if err != nil {
		return err
	}
	id, err := shared.Identify(o.Name)
	if err != nil {
		return err
	}
	facts := Facts{Member: id.Name, PeerURL: id.PeerURL, DataDir: shared.DataDir(), ClusterID: shared.ClusterID}
	if facts.Data, err = InspectData(facts.DataDir); err != nil {
		return fmt.Errorf("inspecting the data directory %s of member %s: %w", facts.DataDir, id.Name, err)
	}
	if facts.Data == DataNone {
		if facts.Others, err = askOthers(ctx, id); err != nil {
			log.Info("The other members did not answer", "reason", err.Error())
		}
	}
	decision := Decide(facts)
	if decision.Action == Refuse {
		return errors.New(decision.Why)
	}
	file, err := shared.Render(id, decision.Action)
	if err != nil {
		return err
	}
	if err := os.WriteFile(o.ConfigFile, file, 0o644); err != nil {
		return fmt.Errorf("writing the configuration of member %s: %w", id.Name, err)
	}
	log.Info("The member may start", "member", id.Name, "action", decision.Action, "why", decision.Why, "clusterID", facts.ClusterID)
	return nil
}

func readShared(dir string) (Shared, error) {
	var values [3]string
	for i, key := range []string{KeyConfig, KeyBootstrap, KeyClusterID} {
		value, err := os.ReadFile(filepath.Join(dir, key))
		if errors.Is(err, fs.ErrNotExist) && key == KeyClusterID {
			continue
		}
		if err != nil {
			return Shared{}, fmt.Errorf("reading the shared configuration: %w", err)
		}
		values[i] = string(value)
	}
	return ParseShared([]byte(values[0]), []byte(values[1]), values[2])
}
