// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// Module is the module of this project.
const Module = "github.com/etcd-foreman/etcd-foreman"

// programs are those that were built for the tests of this process, by package. They are removed when the Env stops.
type programs struct {
	mu    sync.Mutex
	dir   string
	built map[string]string
}

// Build builds a program of this project, once for all tests, and returns its path.
func (e *Env) Build(t testing.TB, name string) string {
	t.Helper()
	p := &e.programs
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

func (p *programs) remove() error {
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
	cmd := exec.Command(e.Build(t, "cmd/etcd-foreman"), "--config="+WriteFile(t, "config.yaml", []byte(configuration)))
	cmd.Env = append(os.Environ(), "KUBECONFIG="+WriteFile(t, "kubeconfig", kubeconfig))
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

// WriteFile writes a file in a folder of the test, and returns its path.
func WriteFile(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Run starts a command, which is killed when the test ends; what it says is shown if the test has failed.
func Run(t testing.TB, cmd *exec.Cmd) *os.Process {
	t.Helper()
	log := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", cmd.Path, err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(cmd.Path), log)
		}
	})
	return cmd.Process
}

// Program returns the path of a program that "make test" builds.
func Program(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(os.Getenv(assetsVariable), name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run the tests with \"make test\", or build it with \"go run ./test/local build %s\"", err, name)
	}
	return path
}

// addresses counts those handed out.
var addresses atomic.Uint32

// FreeAddress returns a free address of this machine. Each has its own IP address, so that nothing else takes its port.
func FreeAddress(t testing.TB) string {
	t.Helper()
	n := addresses.Add(1)
	return free(t, fmt.Sprintf("127.77.%d.%d", os.Getpid()%250, n%250+1)).String()
}

// FreePort returns a port that is free on 127.0.0.1; nothing else listens on 127.0.0.2 and the following.
func FreePort(t testing.TB) int {
	t.Helper()
	return free(t, "127.0.0.1").Port
}

func free(t testing.TB, ip string) *net.TCPAddr {
	t.Helper()
	l, err := net.Listen("tcp", ip+":0")
	if err != nil {
		t.Fatalf("finding a free port: %v", err)
	}
	defer func() { _ = l.Close() }()
	address, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("%s is not an address of TCP", l.Addr())
	}
	return address
}
