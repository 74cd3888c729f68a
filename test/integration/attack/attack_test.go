// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package attack runs those attacks of test/attack that need no running members against the operator's program, with its own
// rights, and against an API server with the admission policies.
package attack

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
)

var testEnv *env.Env

func TestMain(m *testing.M) {
	// Without OwnerReferencesPermissionEnforcement, which hides some takeovers.
	os.Exit(env.Main(m, &testEnv, env.WithRoles(), env.WithControllerManager()))
}

const configuration = `apiVersion: operator.config.druid.gardener.cloud/v1alpha1
kind: OperatorConfiguration
images: {etcdAgent: localhost/etcd-agent:v1}
featureGates: {QuorumAwareUpdatesWithOnDelete: true}
leaderElection: {namespace: etcd-foreman-system}
server: {metricsBindAddress: "0", healthBindAddress: "0"}
backup: {localClaims: ["*"]}
`

func TestAttacks(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	operatorKubeconfig, err := testEnv.OperatorKubeconfig()
	g.Expect(err).NotTo(HaveOccurred())
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		g.Expect(os.WriteFile(path, data, 0o600)).To(Succeed())
		return path
	}
	program := func(name string) string {
		path := filepath.Join(dir, filepath.Base(name))
		out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "github.com/etcd-foreman/etcd-foreman/"+name).CombinedOutput()
		g.Expect(err).NotTo(HaveOccurred(), "building %s: %s", name, out)
		return path
	}

	log := &bytes.Buffer{}
	operator := exec.Command(program("cmd/etcd-foreman"), "--config="+file("config.yaml", []byte(configuration)))
	operator.Env = append(os.Environ(), "KUBECONFIG="+file("operator.kubeconfig", operatorKubeconfig))
	operator.Stdout, operator.Stderr = log, log
	g.Expect(operator.Start()).To(Succeed())
	t.Cleanup(func() {
		g.Expect(operator.Process.Signal(syscall.SIGTERM)).To(Succeed())
		if err := operator.Wait(); err != nil || t.Failed() {
			t.Errorf("the operator ended: %v\n%s", err, log)
		}
	})

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	attack := exec.CommandContext(ctx, program("test/attack"), "-kubeconfig="+file("kubeconfig", testEnv.AdminKubeconfig()), "-roles=../../../config/admission/task/task_roles.yaml",
		"-only=rights,tasks,crowd,owners,claims,texts", "-watch=5s", "-out="+filepath.Join(dir, "attack.md"))
	out, err := attack.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), "%s", out)
}
