// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	agentmember "github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
)

// attended is a cluster whose members have agents beside them.
type attended struct {
	*etcds
	agents []*os.Process
	// metrics are the URLs of those of the agents.
	metrics []string
}

// withoutTiming replaces internal/agent/serve/timed.go in an agent that times nothing.
const withoutTiming = `package serve

import "context"

func (s *Server) time(context.Context) (stop func()) { return func() {} }
`

// buildAgent builds the agent, with its timed reads or without.
func (c *etcds) buildAgent(timing bool) string {
	c.t.Helper()
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	c.Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(c.t.TempDir(), "etcd-agent")
	args := []string{"build", "-o", path}
	if !timing {
		replaced := map[string]map[string]string{"Replace": {filepath.Join(root, "internal", "agent", "serve", "timed.go"): machine.WriteFile(c.t, "timed.go", []byte(withoutTiming))}}
		overlay, err := json.Marshal(replaced)
		c.Expect(err).NotTo(HaveOccurred())
		args = append(args, "-overlay", machine.WriteFile(c.t, "overlay.json", overlay))
	}
	build := exec.CommandContext(c.t.Context(), "go", append(args, "./cmd/etcd-agent")...)
	build.Dir = root
	out, err := build.CombinedOutput()
	c.Expect(err).NotTo(HaveOccurred(), "%s", out)
	return path
}

// attend starts a cluster of three members and their agents, as in pods without a backup store. The API server is one that accepts Leases.
func attend(b *testing.B, server *httptest.Server, timing bool) *attended {
	c := &attended{etcds: start(b, options{members: 3})}
	agent := c.buildAgent(timing)
	pod := b.TempDir()
	c.Expect(os.WriteFile(filepath.Join(pod, "token"), []byte("token"), 0o600)).To(Succeed())
	c.Expect(os.WriteFile(filepath.Join(pod, "ca.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600)).To(Succeed())
	at, err := url.Parse(server.URL)
	c.Expect(err).NotTo(HaveOccurred())
	var list []string
	for _, m := range c.members {
		list = append(list, m.name+"=http://"+m.peer)
	}
	for _, m := range c.members {
		shared, address := b.TempDir(), machine.FreeAddress(b)
		for name, content := range map[string]string{
			agentmember.KeyConfig:    fmt.Sprintf("{listen-client-urls: 'http://%s', listen-peer-urls: 'http://%s', data-dir: %s}", m.client, m.peer, m.dir),
			agentmember.KeyBootstrap: fmt.Sprintf("{initial-cluster: '%s', initial-cluster-token: uid}", strings.Join(list, ",")),
		} {
			c.Expect(os.WriteFile(filepath.Join(shared, name), []byte(content), 0o600)).To(Succeed())
		}
		// It reads the credentials of its pod from where a kubelet puts them.
		cmd := exec.Command("/usr/bin/unshare", "--map-root-user", "--mount", "/bin/sh", "-ec",
			`mount -t tmpfs tmpfs /run; mkdir -p /var/run/secrets/kubernetes.io/serviceaccount; cp "$0"/* /var/run/secrets/kubernetes.io/serviceaccount; exec "$@"`, pod,
			agent, "serve", "--name="+m.name, "--namespace=demo", "--shared-dir="+shared, "--listen="+address)
		cmd.Env = append(os.Environ(), "KUBERNETES_SERVICE_HOST="+at.Hostname(), "KUBERNETES_SERVICE_PORT="+at.Port())
		c.agents, c.metrics = append(c.agents, machine.Run(b, cmd)), append(c.metrics, "http://"+address+"/metrics")
	}
	for i := range c.agents {
		c.Eventually(func() (int, error) { return c.timed(i) }).Should(BeNumerically(">=", map[bool]int{true: 1}[timing]), "agent %d serves", i)
	}
	return c
}

var countOfReads = regexp.MustCompile(`(?m)^etcd_agent_read_duration_seconds_count\{kind="linearizable"\} (\d+)`)

// timed returns how many linearizable reads an agent has timed.
func (c *attended) timed(i int) (int, error) {
	response, err := http.Get(c.metrics[i])
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %w", response.Status, err)
	}
	if found := countOfReads.FindSubmatch(body); found != nil {
		return strconv.Atoi(string(found[1]))
	}
	return 0, nil
}

// usage is how much CPU the members and their agents have used.
type usage struct{ members, agents time.Duration }

func (c *attended) used() (u usage) {
	for i, m := range c.members {
		u.members, u.agents = u.members+cpuOf(c.t, m.process.Pid), u.agents+cpuOf(c.t, c.agents[i].Pid)
	}
	return u
}

// BenchmarkTimedReads measures what it costs a member that its agent times reads and timers all the time: two clusters of three idle members
// with agents run beside each other, and the agents of one time nothing. The figures are percentages of a core for each member, by the
// processor time that the kernel counts in COST_FOR (a minute): what the timing costs etcd and the agent, which together have to be less
// than one, and what both use in all.
//
//	go test ./test/integration/diagnose -run xxx -bench TimedReads -benchtime 1x
func BenchmarkTimedReads(b *testing.B) {
	window, err := time.ParseDuration(cmp.Or(os.Getenv("COST_FOR"), "1m"))
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": %q}}`, filepath.Base(r.URL.Path))
	}))
	b.Cleanup(server.Close)
	with, without := attend(b, server, true), attend(b, server, false)
	pauseFor(10 * time.Second) // what they do once is over
	reads, err := with.timed(0)
	with.Expect(err).NotTo(HaveOccurred())
	before := map[*attended]usage{with: with.used(), without: without.used()}
	began := time.Now()
	pauseFor(window)
	after, elapsed := map[*attended]usage{with: with.used(), without: without.used()}, time.Since(began)
	share := func(d time.Duration) float64 { return 100 * d.Seconds() / elapsed.Seconds() / 3 }
	measured := func(c *attended) (members, agents float64) {
		return share(after[c].members - before[c].members), share(after[c].agents - before[c].agents)
	}
	members, agents := measured(with)
	membersAlone, agentsAlone := measured(without)
	now, err := with.timed(0)
	with.Expect(err).NotTo(HaveOccurred())
	with.Expect(now-reads).To(BeNumerically(">", int(window/(4*time.Second))), "reads were timed in between")
	silent, err := without.timed(0)
	with.Expect(err).NotTo(HaveOccurred())
	with.Expect(silent).To(BeZero())

	b.ReportMetric(0, "ns/op")
	b.ReportMetric(members-membersAlone, "%core-etcd")
	b.ReportMetric(agents-agentsAlone, "%core-agent")
	b.ReportMetric(members, "%core-etcd-in-all")
	b.ReportMetric(agents, "%core-agent-in-all")
	with.Expect(members - membersAlone + agents - agentsAlone).To(BeNumerically("<", 1))
}
