// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package version describes the build of a program, and what it supports.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// The versions that this release supports.
const (
	// supportedEtcd are the versions whose unmodified images serve members; older ones have no /readyz.
	supportedEtcd = "3.5.11 or a newer 3.5, 3.6.0 or newer"
	// supportedKubernetes are the releases, from the oldest to the newest, that the controllers are tested with.
	supportedKubernetes = "1.33 to 1.37"
)

// release is the version of a release, which the linker sets.
var release string

// Info describes a build.
type Info struct {
	// Version is that of the release, or of the module.
	Version string
	// Commit is the commit that was built, with "-dirty" if files had been changed; "unknown" outside of a repository.
	Commit string
	// Go is the version of Go that built it.
	Go string
}

// Get returns the description of this program.
func Get() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{}
	}
	return describe(release, build)
}

func describe(release string, build *debug.BuildInfo) Info {
	settings := map[string]string{}
	for _, s := range build.Settings {
		settings[s.Key] = s.Value
	}
	commit := cmp.Or(settings["vcs.revision"], "unknown")
	if settings["vcs.modified"] == "true" {
		commit += "-dirty"
	}
	return Info{
		Version: cmp.Or(release, build.Main.Version, "(devel)"),
		Commit:  commit,
		Go:      cmp.Or(build.GoVersion, runtime.Version()),
	}
}

// Text is what "--version" prints for a program.
func (i Info) Text(program string) string {
	return fmt.Sprintf("%s %s\ncommit:     %s\ngo:         %s\netcd:       %s\nKubernetes: %s\n", program, i.Version, i.Commit, i.Go, supportedEtcd, supportedKubernetes)
}

// KeysAndValues are for the log.
func (i Info) KeysAndValues() []any {
	return []any{"version", i.Version, "commit", i.Commit, "go", i.Go, "etcd", supportedEtcd, "kubernetes", supportedKubernetes}
}

// Labels are for a metric.
func (i Info) Labels() map[string]string {
	return map[string]string{"version": i.Version, "commit": i.Commit, "go_version": i.Go, "etcd": supportedEtcd, "kubernetes": supportedKubernetes}
}
