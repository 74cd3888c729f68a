// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package attack runs those attacks of test/attack that need no running members against the operator's program, with its own
// rights, and against an API server with the admission policies.
package attack

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
)

var testEnv *env.Env

func TestMain(m *testing.M) {
	// Without OwnerReferencesPermissionEnforcement, which hides some takeovers.
	os.Exit(env.Main(m, &testEnv, env.WithRoles(), env.WithControllerManager()))
}

func TestAttacks(t *testing.T) {
	g := NewWithT(t)
	testEnv.StartOperator(t, `featureGates: {QuorumAwareUpdatesWithOnDelete: true}
leaderElection: {namespace: etcd-foreman-system}
server: {metricsBindAddress: "0", healthBindAddress: "0"}
backup: {localClaims: ["*"]}
`)
	ctx, cancel := context.WithTimeout(t.Context(), machine.Scaled(5*time.Minute))
	defer cancel()
	attack := exec.CommandContext(ctx, testEnv.Build(t, "test/attack"), "-kubeconfig="+machine.WriteFile(t, "kubeconfig", testEnv.Kubeconfig()), "-roles=../../../config/admission/task/task_roles.yaml",
		"-only=rights,tasks,crowd,owners,claims,texts", "-watch=5s", "-out="+filepath.Join(t.TempDir(), "attack.md"))
	out, err := attack.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), "%s", out)
}
