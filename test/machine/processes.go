// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// AssetsVariable names the environment variable with the folder of the programs that "make test" builds.
const AssetsVariable = "KUBEBUILDER_ASSETS"

// WriteFile writes a file in a folder of the test, and returns its path.
func WriteFile(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// shownLines is how many lines of a process are shown if a test has failed, and shownWidth how much of each: several processes must not hide why.
const shownLines, shownWidth = 10, 300

// Run starts a command, which is killed when the test ends. If the test has failed, the end of what it says is shown; "go test -artifacts" keeps all.
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
			name := filepath.Base(cmd.Path)
			_ = os.WriteFile(filepath.Join(t.ArtifactDir(), fmt.Sprintf("%s-%d.log", name, cmd.Process.Pid)), log.Bytes(), 0o600)
			t.Logf("the end of what %s said:\n%s", name, end(log.String()))
		}
	})
	return cmd.Process
}

// end returns the last lines of a text, or those of a panic, each of them shortened.
func end(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	first := max(len(lines)-shownLines, 0)
	if i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "panic: ") }); i >= 0 {
		first = i // stack frames follow
	}
	lines = lines[first:min(first+shownLines, len(lines))]
	for i, line := range lines {
		lines[i] = line[:min(len(line), shownWidth)]
	}
	return strings.Join(lines, "\n")
}

// Program returns the path of a program that "make test" builds.
func Program(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(os.Getenv(AssetsVariable), name)
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
	return free(t, fmt.Sprintf("127.77.%d.%d", os.Getpid()%250, n%250+1), rand.Int).String()
}

// ports counts those handed out for 127.0.0.1.
var ports atomic.Uint32

// FreePort returns a port that is free on 127.0.0.1; nothing else listens on 127.0.0.2 and the following. The tests of one process get ports one
// after another, and other processes begin elsewhere, so that two rarely get the same before its server listens.
func FreePort(t testing.TB) int {
	t.Helper()
	return free(t, "127.0.0.1", func() int { return os.Getpid()*997 + int(ports.Add(1)) }).Port
}

// Ports that are free for a server: the kernel gives none of them to a connection, in the moment until the server listens.
const firstPort, lastPort = 10_000, 29_999

// free returns an address whose port is free: one of 100 that next chooses, by its number modulo that of all ports.
func free(t testing.TB, ip string, next func() int) *net.TCPAddr {
	t.Helper()
	for range 100 {
		address := &net.TCPAddr{IP: net.ParseIP(ip), Port: firstPort + next()%(lastPort-firstPort+1)}
		if l, err := net.ListenTCP("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatalf("finding a free port of %s: 100 are in use", ip)
	return nil
}
