// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/version"
	. "github.com/onsi/gomega"
)

func TestCompletion(t *testing.T) {
	p := newPerson(t)
	p.make("a", v1alpha1.TaskStateInProgress)
	p.make("b", v1alpha1.TaskStateSucceeded)
	for args, want := range map[string]string{
		"plan ":                      "main\tEtcd of 3 members\n:4\n",
		"restart m":                  "main\tEtcd of 3 members\n:4\n",
		"abort ":                     "a\tQuorumAwareRollout of main, InProgress\n:4\n",
		"resume ":                    ":4\n",
		"describe main ":             ":4\n",
		"plan --context ":            "other\ntest\n:4\n",
		"rollout --dry-run=":         "none\nclient\nserver\n:4\n",
		"snapshot --type ":           "full\ndelta\n:4\n",
		"status ":                    "main\tEtcd of 3 members\n:4\n",
		"status --w":                 "--watch\tRenew the page every two seconds until interrupted; if the output is not a terminal, print it when it changes.\n:4\n",
		"report ":                    "main\tEtcd of 3 members\n:4\n",
		"version ":                   ":4\n",
		"version -o ":                "json\nyaml\n:4\n",
		"timeline -o ":               "svg\nhtml\n:4\n",
		"list -o ":                   "wide\njson\nyaml\nname\n:4\n",
		"restart --override-guards ": "LearnerPromoted\nVolumeReachable\nOthersParticipating\nOthersServing\nVotersOdd\nMemberRelieved\nNodesStable\nVersionsCompatible\nUnreadyConfirmed\nSuccessorCaughtUp\nRemovalGranted\nSnapshotTaken\n:4\n",
		"members --override-guards ": "OthersServing\nBackedUp\n:4\n",
	} {
		line := append([]string{"__complete"}, strings.Split(args, " ")...)
		got := p.complete(line...)
		p.Expect(got).To(Equal(want), args)
	}
	p.Expect(p.complete("__complete", "watch", "")).To(And(ContainSubstring("main\t"), ContainSubstring("\na\t")))
	p.Expect(p.complete("__complete", "list", "-n", "")).To(ContainSubstring(p.Namespace))
}

// complete requests completions as a shell does, with the kubeconfig in the environment.
func (p *person) complete(args ...string) string {
	p.T.Helper()
	p.T.Setenv("KUBECONFIG", p.kubeconfig)
	kubeconfig := p.kubeconfig
	p.kubeconfig = ""
	defer func() { p.kubeconfig = kubeconfig }()
	return p.run(args...).out
}

func TestEveryVerbHasAnExample(t *testing.T) {
	p := newPerson(t)
	for _, verb := range []string{
		"rollout", "restart", "snapshot", "compact", "defrag", "copy-backups", "recover", "restore", "recreate",
		"status", "diagnose", "plan", "list", "describe", "restorable", "watch", "timeline", "fleet", "suspend", "resume", "abort", "override", "report", "version",
	} {
		got := p.run(verb, "--help")
		p.Expect(got.code).To(BeZero())
		p.Expect(got.out).To(ContainSubstring("Examples:\n  # "), verb)
		p.Expect(got.out).To(ContainSubstring("  kubectl etcdtask "+verb+" "), verb)
	}
}

func TestVersion(t *testing.T) {
	p := newPerson(t)
	got := p.run("--version")
	p.Expect(got.code).To(BeZero())
	p.Expect(got.out).To(Equal(version.Get().Text("kubectl etcdtask")))
}
