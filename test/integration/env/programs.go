// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/test/machine"
)

// Module is the module of this project.
const Module = "github.com/etcd-foreman/etcd-foreman"

// Programs are those that were built for the tests of this process, by package.
type Programs struct {
	mu    sync.Mutex
	dir   string
	built map[string]string
}

// Build builds a program of this project, once for all tests, and returns its path.
func (e *Env) Build(t testing.TB, name string) string {
	t.Helper()
	p := e.programs
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.built == nil {
		dir, err := os.MkdirTemp("", "programs-")
		if err != nil {
			t.Fatal(err)
		}
		p.dir, p.built = dir, map[string]string{}
	}
	if p.built[name] == "" {
		binary := filepath.Join(p.dir, filepath.Base(name))
		if out, err := exec.Command("go", "build", "-o", binary, Module+"/"+name).CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v\n%s", name, err, out)
		}
		p.built[name] = binary
	}
	return p.built[name]
}

// Remove removes them.
func (p *Programs) Remove() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dir == "" {
		return nil
	}
	return os.RemoveAll(p.dir)
}

// Operator returns the operator as a program, with a configuration, to which the kind is added, and the rights of its ServiceAccount.
func (e *Env) Operator(t testing.TB, configuration string) *exec.Cmd {
	t.Helper()
	kubeconfig, err := e.OperatorKubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	configuration = "apiVersion: operator.config.druid.gardener.cloud/v1alpha1\nkind: OperatorConfiguration\nimages: {etcdAgent: localhost/etcd-agent:v1}\n" + configuration
	cmd := exec.Command(e.Build(t, "cmd/etcd-foreman"), "--config="+machine.WriteFile(t, "config.yaml", []byte(configuration)))
	cmd.Env = append(os.Environ(), "KUBECONFIG="+machine.WriteFile(t, "kubeconfig", kubeconfig))
	return cmd
}

// StartOperator starts the operator as a program. It runs until stop is called or the test ends, and its log is shown if the test fails.
func (e *Env) StartOperator(t testing.TB, configuration string) (stop func()) {
	t.Helper()
	cmd, log := e.Operator(t, configuration), &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting the operator: %v", err)
	}
	stop = sync.OnceFunc(func() {
		if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil || t.Failed() {
			t.Errorf("the operator ended: %v\n%s", err, log)
		}
	})
	t.Cleanup(stop)
	return stop
}
