// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package smoke checks the local Kubernetes itself: that it works as any cluster, and that nothing is left on the machine
// after it ends, in whatever way.
//
// It takes a running local Kubernetes down, and needs root and some minutes. So it runs only on request:
//
//	LOCAL_SMOKE=1 go test ./test/local/smoke -v -count=1 -timeout=20m
package smoke

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/poll"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/process"
	"github.com/etcd-foreman/etcd-foreman/test/local/node"
)

// root is the checkout, as seen from this package.
const root = "../../.."

// start takes down what runs and returns the machine without it.
func start(t *testing.T) machine {
	t.Helper()
	if os.Getenv("LOCAL_SMOKE") == "" {
		t.Skip("this takes the local Kubernetes down: set LOCAL_SMOKE=1 to run it")
	}
	local(t, "down")
	return inspect(t)
}

// local runs a verb of test/local.
func local(t *testing.T, verb ...string) {
	t.Helper()
	start := time.Now()
	cmd := exec.Command("go", append([]string{"run", "./test/local"}, verb...)...)
	cmd.Dir = root
	// The user's kubeconfig must not matter.
	cmd.Env = append(os.Environ(), "KUBECONFIG=/dev/full")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", verb, err, out)
	}
	t.Logf("%v took %s", verb, time.Since(start).Round(100*time.Millisecond))
}

// kubectl runs the cluster's kubectl in the namespace of the test.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	flags := []string{"--kubeconfig=" + root + "/.local/kubeconfig", "--namespace=smoke"}
	out, err := exec.Command(root+"/.local/bin/kubectl", append(flags, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// eventually fails the test unless the condition becomes true in time.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := poll.Until(ctx, func() (bool, error) { return condition(), nil }); err != nil {
		t.Fatalf("not within a minute: %s", what)
	}
}

// killAll kills every process of the cluster, but not those in its containers.
func killAll(t *testing.T) {
	t.Helper()
	processes, err := process.Marked()
	if err != nil {
		t.Fatal(err)
	}
	if len(processes) == 0 {
		t.Fatal("no process to kill")
	}
	for _, p := range processes {
		if err := p.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
}

func TestClusterWorksAndLeavesNothing(t *testing.T) {
	before := start(t)
	for range 2 {
		local(t, "up", "--bare")
		checkCluster(t)
		local(t, "up", "--bare")
		local(t, "down")
		compare(t, before)
		local(t, "down")
	}
}

func TestNothingIsLeftOfWhatWasKilled(t *testing.T) {
	before := start(t)
	local(t, "up", "--bare")
	kubectl(t, "apply", "--filename=testdata/etcd.yaml")
	kubectl(t, "rollout", "status", "statefulset/etcd", "--timeout=90s")
	killAll(t)
	local(t, "down")
	compare(t, before)
}

func TestBootAfterAllWasKilled(t *testing.T) {
	before := start(t)
	local(t, "up", "--bare")
	killAll(t)
	local(t, "up", "--bare")
	kubectl(t, "get", "node", "local")
	local(t, "down")
	compare(t, before)
}

func TestNothingIsLeftOfHalfABoot(t *testing.T) {
	before := start(t)
	for _, after := range []time.Duration{300 * time.Millisecond, time.Second, 4 * time.Second} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		cmd := exec.CommandContext(ctx, "go", "run", "./test/local", "up", "--bare")
		cmd.Dir = root
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		if err := cmd.Run(); err == nil {
			t.Fatalf("booted within %s, nothing to interrupt", after)
		}
		cancel()
		local(t, "down")
		compare(t, before)
	}
}

// find returns the etcd process of a pod.
func find(ctx context.Context, t *testing.T, pod string) node.Process {
	t.Helper()
	uid := kubectl(t, "get", "pod", pod, "--output=jsonpath={.metadata.uid}")
	p, err := node.Find(ctx, uid, node.Etcd)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
