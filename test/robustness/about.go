// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/oracle"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/report"
)

// save writes what else is needed to judge the run.
func (r *runner) save(auditFrom int64) error {
	about := report.Run{
		Seed: r.seed, Commit: r.built, Date: r.began.UTC().Format(time.DateOnly), Load: load(), Members: r.members, Length: r.now(), Command: r.replay(),
		Cluster: oracle.Cluster{Namespace: namespace, Name: name, Other: other, Operator: operatorUser, Members: r.members, Began: r.began},
	}
	return errors.Join(
		r.copyAudit(auditFrom),
		report.WriteJSON(filepath.Join(r.dir, report.RunFile), about),
		report.WriteJSON(filepath.Join(r.dir, report.TimelineFile), r.timeline),
	)
}

// replay is the command with which the choices are the same again.
func (o options) replay() string {
	command := fmt.Sprintf("go run ./test/robustness -seed %d -length %s -members %d -most-faults %d", o.seed, o.length, o.members, o.most)
	if o.operations != "" {
		command += fmt.Sprintf(" -operations %q", o.operations)
	}
	if o.faultKinds != "" {
		command += fmt.Sprintf(" -faults %q", o.faultKinds)
	}
	if o.after != 0 {
		command += fmt.Sprintf(" -after %s", o.after)
	}
	if o.always {
		command += " -always"
	}
	if o.longest {
		command += " -longest"
	}
	return command
}

// commit names what is run.
func (r *runner) commit() string {
	info, _ := debug.ReadBuildInfo()
	return r.version(info, func() string {
		out, err := exec.Command("git", "-C", r.root, "describe", "--always", "--dirty", "--exclude=*").Output()
		if err != nil {
			return "unknown"
		}
		return strings.TrimSpace(string(out))
	})
}

// version names the commit that was asked for, or else the one that this program was built from, or else that of the checkout:
// "go run" does not say what it builds.
func (o options) version(info *debug.BuildInfo, checkout func() string) string {
	commit := o.commit
	if commit == "" && info != nil {
		commit = revision(info)
	}
	if commit == "" {
		commit = checkout()
	}
	if o.bug != "" {
		commit += " with the bug: " + o.bug
	}
	return commit
}

// abbreviated is the length of a commit's name.
const abbreviated = 7

// revision returns the commit that a program was built from; empty if that is not known.
func revision(info *debug.BuildInfo) string {
	commit, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(abbreviated, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if commit == "" {
		return ""
	}
	return commit + dirty
}

// load says how much more the machine had to do than it could, on average over the last fifteen minutes.
func load() string {
	content, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(content))
	if err != nil || len(fields) < 3 {
		return ""
	}
	return fmt.Sprintf("%s on %d CPUs", fields[2], runtime.NumCPU())
}

// copyAudit copies the lines of the cluster's namespace since the run began.
func (r *runner) copyAudit(from int64) error {
	log, err := os.Open(r.auditLog())
	if err != nil {
		return fmt.Errorf("reading the audit log: %w", err)
	}
	defer log.Close() //nolint:errcheck // it is only read
	end, err := log.Seek(0, io.SeekEnd)
	if err == nil && end < from {
		err = errors.New("it is shorter than when the run began: the API server has begun another one")
	}
	if err == nil {
		_, err = log.Seek(from, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("reading the audit log: %w", err)
	}
	var kept bytes.Buffer
	for lines := bufio.NewReader(log); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return os.WriteFile(filepath.Join(r.dir, report.AuditFile), kept.Bytes(), 0o644)
		}
		if err != nil {
			return fmt.Errorf("reading the audit log: %w", err)
		}
		if bytes.Contains(line, []byte(`"namespace":"`+namespace+`"`)) {
			kept.Write(line)
		}
	}
}

func size(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, fmt.Errorf("finding the API server's audit log: %w", err)
	}
	return info.Size(), nil
}
