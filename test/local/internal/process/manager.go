// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/atomic"
	"golang.org/x/mod/sumdb/dirhash"
)

// Spec describes how to run a program.
type Spec struct {
	Name string
	Args []string // the first is the path of the program
	// Inputs are files, such as configuration and certificates, whose change requires a restart. So does a change of the
	// program itself.
	Inputs []string
}

// Process is a program that runs in the background.
type Process struct {
	Name        string   `json:"name"`
	Identity    Identity `json:"identity"`
	Fingerprint string   `json:"fingerprint"` // of the Spec it was started with
	Log         string   `json:"log"`
}

// Manager keeps a record on disk of each process that it started.
type Manager struct {
	Records string // folder of the records
	Logs    string // folder of the logs
}

// Ensure starts the program unless it is running; one that runs with other arguments or inputs is stopped first. It
// reports whether it started the program.
func (m Manager) Ensure(ctx context.Context, spec Spec) (Process, bool, error) {
	fingerprint, err := spec.fingerprint()
	if err != nil {
		return Process{}, false, fmt.Errorf("comparing %s: %w", spec.Name, err)
	}
	running, found, err := m.load(spec.Name)
	if err != nil {
		return Process{}, false, err
	}
	if found && running.Identity.Alive() {
		if running.Fingerprint == fingerprint {
			return running, false, nil
		}
		if err := stop(ctx, running.Identity); err != nil {
			return Process{}, false, fmt.Errorf("stopping the outdated %s: %w", spec.Name, err)
		}
	}
	started, err := m.start(spec, fingerprint)
	if err != nil {
		return Process{}, false, fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	return started, true, nil
}

// Running returns the recorded processes that are alive.
func (m Manager) Running() ([]Process, error) {
	entries, err := os.ReadDir(m.Records)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var running []Process
	for _, entry := range entries {
		name, isRecord := strings.CutSuffix(entry.Name(), ".json")
		if !isRecord {
			continue
		}
		p, found, err := m.load(name)
		if err != nil {
			return nil, err
		}
		if found && p.Identity.Alive() {
			running = append(running, p)
		}
	}
	return running, nil
}

func (m Manager) recordPath(name string) string { return filepath.Join(m.Records, name+".json") }

func (m Manager) load(name string) (Process, bool, error) {
	content, err := os.ReadFile(m.recordPath(name))
	if errors.Is(err, os.ErrNotExist) {
		return Process{}, false, nil
	}
	if err != nil {
		return Process{}, false, fmt.Errorf("reading the record of %s: %w", name, err)
	}
	var p Process
	if err := json.Unmarshal(content, &p); err != nil {
		return Process{}, false, fmt.Errorf("reading the record %s: %w", m.recordPath(name), err)
	}
	return p, true, nil
}

func (m Manager) start(spec Spec, fingerprint string) (Process, error) {
	for _, dir := range []string{m.Records, m.Logs} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return Process{}, err
		}
	}
	logPath := filepath.Join(m.Logs, spec.Name+".log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return Process{}, fmt.Errorf("opening its log: %w", err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(spec.Args[0], spec.Args[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	// Nothing of the caller's environment, so that the cluster is the same for every user, without their KUBECONFIG or
	// proxy.
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", Marker}
	// A session of its own, so that Ctrl-C at the terminal does not reach it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return Process{}, err
	}
	go func() { _ = cmd.Wait() }() // reaps it, should it die while this program runs
	identity, err := Identify(cmd.Process.Pid)
	if err != nil {
		return Process{}, fmt.Errorf("it ended at once: %w%s", err, Tail(logPath))
	}
	p := Process{Name: spec.Name, Identity: identity, Fingerprint: fingerprint, Log: logPath}
	return p, m.record(p)
}

func (m Manager) record(p Process) error {
	content, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("recording process %d: %w", p.Identity.PID, err)
	}
	if err := atomic.WriteFile(m.recordPath(p.Name), content, 0o644); err != nil {
		return fmt.Errorf("recording process %d: %w", p.Identity.PID, err)
	}
	return nil
}

// fingerprint returns the arguments, and a digest of the program and the inputs.
func (s Spec) fingerprint() (string, error) {
	digest, err := dirhash.Hash1(append([]string{s.Args[0]}, s.Inputs...), func(name string) (io.ReadCloser, error) { return os.Open(name) })
	return fmt.Sprintf("%q %s", s.Args, digest), err
}

// stop ends a process: by SIGTERM, and by SIGKILL if it takes too long.
func stop(ctx context.Context, identity Identity) error {
	const patience = 10 * time.Second
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := identity.Signal(signal); err != nil {
			return err
		}
		waiting, cancel := context.WithTimeout(ctx, patience)
		err := WaitGone(waiting, identity)
		cancel()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("process %d is alive after SIGKILL", identity.PID)
}
