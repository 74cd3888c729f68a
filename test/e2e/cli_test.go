//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

// A user plans, starts and watches a restart in a terminal of 80 columns. The restart follows the plan, and no write is
// lost.
func TestPluginPlansRestartsAndWatchesInATerminal(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	plugin := c.plugin()
	terminal := c.terminal()

	planned := c.planned(plugin, "--restart")
	c.Expect(planned).To(HaveLen(3))
	leader := podName(c.leader())
	c.Expect(planned[2]).To(Equal(leader), "the leader goes last")

	terminal.send(plugin + " plan main --restart; echo plan: $?")
	screen := terminal.until("plan: 0")
	c.Expect(screen).To(And(ContainSubstring("Quorum is kept throughout."), ContainSubstring("MoveLeader  "+leader)))
	c.Expect(c.rollouts(c)).To(BeEmpty(), "a plan creates no task")

	terminal.send(plugin + " restart main --name again; " + plugin + " watch main; echo watch: $?")
	c.Eventually(terminal.screen).Should(MatchRegexp(`(?m)^main-\d +(Missing|Terminating|Starting|Unready) .*DeletePod InProgress`))
	c.Expect(strings.Count(terminal.screen(), "LAST OPERATION")).To(Equal(1), "the table is redrawn in place:\n%s", terminal.screen())
	screen = terminal.until("watch: 0")
	c.Expect(strings.Count(screen, "LAST OPERATION")).To(Equal(1), "the table is redrawn in place:\n%s", screen)
	c.Expect(screen).To(ContainSubstring("task again succeeded"))

	task := &v1alpha1.EtcdOperatorTask{}
	c.Expect(kube.Get(t.Context(), types.NamespacedName{Namespace: c.namespace, Name: "again"}, task)).To(Succeed())
	c.Expect(replaced(*task)).To(Equal(planned), "the restart followed the plan")
	c.neverTookTheQuorum()
	c.writesSurvive()

	terminal.send(plugin + " describe main | head -n 20; " + plugin + " list")
	c.Eventually(terminal.screen).Should(And(ContainSubstring("STORY"), MatchRegexp(`again +QuorumAwareRollout +main +Succeeded`)))
}

// --wait shows one updating line on a terminal, and one line per event in a pipe.
func TestPluginWaitsInAPipe(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	out, err := exec.CommandContext(t.Context(), "sh", "-c", c.plugin()+" restart main --wait --timeout 5m 2>&1").CombinedOutput()
	c.Expect(err).NotTo(HaveOccurred(), "%s", out)
	c.Expect(string(out)).To(MatchRegexp(`(?s)^etcdoperatortask.druid.gardener.cloud/main-restart-\w{5} created\n.*task main-restart-\w{5} succeeded after \S+: every pod .*\n$`))
	c.writesSurvive()
}

// plugin builds the plugin and returns its command line for this cluster.
func (c *cluster) plugin() string {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), "kubectl-etcdtask")
	build := exec.CommandContext(c.t.Context(), "go", "build", "-o", path, "../../cmd/kubectl-etcdtask")
	out, err := build.CombinedOutput()
	c.Expect(err).NotTo(HaveOccurred(), "%s", out)
	config, err := filepath.Abs(kubeconfig)
	c.Expect(err).NotTo(HaveOccurred())
	return fmt.Sprintf("%s --kubeconfig %s -n %s", path, config, c.namespace)
}

// planned returns the pods that a plan replaces, in order. The plan must have reached etcd.
func (c *cluster) planned(plugin string, flags ...string) []string {
	c.t.Helper()
	out, err := exec.CommandContext(c.t.Context(), "sh", "-c", plugin+" plan main -o json "+strings.Join(flags, " ")).Output()
	c.Expect(err).NotTo(HaveOccurred(), "%s", out)
	var plan struct {
		EtcdReachable bool
		Steps         []struct {
			Action string
			Pods   []struct{ Pod string }
		}
	}
	c.Expect(json.Unmarshal(out, &plan)).To(Succeed())
	c.Expect(plan.EtcdReachable).To(BeTrue(), "members are reached through a port-forward")
	var pods []string
	for _, s := range plan.Steps {
		if s.Action == "DeletePod" {
			pods = append(pods, s.Pods[0].Pod)
		}
	}
	return pods
}

// terminal is a real terminal of 80 columns and 24 rows, in tmux.
type terminal struct {
	*cluster
	socket string
}

func (c *cluster) terminal() *terminal {
	c.t.Helper()
	c.needsTmux()
	// The name of the test's own folder is too long for a socket.
	folder, err := os.MkdirTemp("", "e2e")
	c.Expect(err).NotTo(HaveOccurred())
	term := &terminal{c, filepath.Join(folder, "tmux")}
	c.t.Cleanup(func() {
		_ = exec.Command("tmux", "-S", term.socket, "kill-server").Run()
		_ = os.RemoveAll(folder)
	})
	term.tmux("new-session", "-d", "-x", "80", "-y", "24", "env", "PS1=$ ", "TERM=screen", "sh")
	return term
}

// needsTmux installs tmux if it is missing, as the local Kubernetes does with its dependencies.
func (c *cluster) needsTmux() {
	c.t.Helper()
	if _, err := exec.LookPath("tmux"); err == nil {
		return
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		c.t.Skip("tmux is not installed, and there is no apt-get to install it")
	}
	for _, args := range [][]string{{"update"}, {"install", "--yes", "--no-install-recommends", "tmux"}} {
		apt := exec.CommandContext(c.t.Context(), "apt-get", args...)
		apt.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		out, err := apt.CombinedOutput()
		c.Expect(err).NotTo(HaveOccurred(), "%s", out)
	}
}

func (t *terminal) tmux(args ...string) string {
	out, err := exec.Command("tmux", append([]string{"-S", t.socket}, args...)...).CombinedOutput()
	t.Expect(err).NotTo(HaveOccurred(), "tmux %v: %s", args, out)
	return string(out)
}

// send types a line.
func (t *terminal) send(line string) {
	t.tmux("send-keys", "-l", line)
	t.tmux("send-keys", "Enter")
}

// screen returns the screen with its history.
func (t *terminal) screen() string { return t.tmux("capture-pane", "-p", "-S", "-") }

// until waits until a line is shown, and returns the screen.
func (t *terminal) until(line string) string {
	t.t.Helper()
	t.Eventually(func() []string { return strings.Split(t.screen(), "\n") }).Should(ContainElement(line))
	return t.screen()
}
