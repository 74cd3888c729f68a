// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/diagnose/diagnosetest"
	. "github.com/onsi/gomega"
)

// etcd has the metrics that the dashboard and the alerts ask it for. Those of its peers are known from a recording, since etcd observes
// them every half a minute only.
func TestEtcdHasTheMetricsOfTheDashboard(t *testing.T) {
	c := start(t, options{members: 1})
	root := filepath.Join("..", "..", "..")
	recorded, err := diagnosetest.Load(filepath.Join(root, "internal", "diagnose", "testdata", "healthy"))
	c.Expect(err).NotTo(HaveOccurred())
	served := func() string {
		response, err := http.Get("http://" + c.members[0].metrics + "/metrics")
		c.Expect(err).NotTo(HaveOccurred())
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		c.Expect(err).NotTo(HaveOccurred())
		return string(body)
	}()
	names := map[string]bool{}
	for _, file := range []string{"dashboard.json", "rules.yaml"} {
		text, err := os.ReadFile(filepath.Join(root, "config", "monitoring", file))
		c.Expect(err).NotTo(HaveOccurred())
		for _, name := range regexp.MustCompile(`\b(?:etcd_(?:server|disk|mvcc|network)|process)_[a-z_]+`).FindAllString(string(text), -1) {
			names[strings.TrimSuffix(name, "_bucket")] = true
		}
	}
	c.Expect(len(names)).To(BeNumerically(">", 10))
	for name := range names {
		if len(recorded.Input.Members[0].Second.Metrics[name]) == 0 {
			c.Expect(served).To(ContainSubstring("# TYPE "+name+" "), name)
		}
	}
}
