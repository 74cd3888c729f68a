//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fence matches a block of commands in the docs, and the comment before it if it has one.
var fence = regexp.MustCompile("(?m)(?:^<!-- not run: (.+) -->\n)?^```console\n((?s:.*?))^```$")

// standIns are what is different on the local cluster: the operator is there already, its images are in no registry, and
// blocks are run that follow others which have the same effect.
const standIns = `
helm() {
	case $1 in
	install|upgrade) command helm upgrade --install "${@:2}" --take-ownership --force-conflicts --set images.registry=localhost,images.tag=dev,images.etcd=localhost/etcd:v3.6.16 ;;
	*) command helm "$@" ;;
	esac
}
kubectl() {
	case "$1 $*" in
	"delete "*) command kubectl "$@" --ignore-not-found ;;
	"apply "*"-k config/default"*) command kubectl apply --server-side --force-conflicts -k test/local/deploy ;;
	*) command kubectl "$@" ;;
	esac
}
`

// Every block of commands in the docs is run as it is printed, in the order of the docs, in a namespace that takes the place
// of "demo".
func TestDocs(t *testing.T) {
	c := &cluster{WithT: NewWithT(t), t: t}
	c.SetDefaultEventuallyTimeout(patience)
	const namespace = "e2e-docs"
	c.remove(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	t.Cleanup(func() {
		c.local("kubectl", "apply", "--server-side", "--force-conflicts", "-k", "../local/deploy")
		c.untilOperatorReady(2)
		c.local("kubectl", "delete", "namespace", namespace, "--wait=false")
	})
	files, err := filepath.Glob("../../docs/*.md")
	c.Expect(err).NotTo(HaveOccurred())
	// Installing and uninstalling comes last. Adopting from etcd-druid needs another cluster, and is followed in test/e2e/executor.
	install, adoption := "../../docs/install.md", "../../docs/gardener.md"
	files = append(slices.DeleteFunc(files, func(f string) bool { return f == install || f == adoption }), install)
	run, left := 0, 0
	for _, file := range append([]string{"../../README.md"}, files...) {
		content, err := os.ReadFile(file)
		c.Expect(err).NotTo(HaveOccurred())
		for _, block := range fence.FindAllStringSubmatch(string(content), -1) {
			if block[1] != "" {
				left++
				continue
			}
			run++
			c.runBlock(file, regexp.MustCompile(`\bdemo\b`).ReplaceAllString(block[2], namespace))
		}
	}
	c.Expect(run).To(BeNumerically(">=", 10))
	c.Expect(left).To(BeNumerically("<=", 6), "blocks that are not run")
}

func (c *cluster) runBlock(file, commands string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Minute)
	defer cancel()
	home := c.t.TempDir()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", standIns+commands)
	cmd.Dir = "../.."
	bin, err := filepath.Abs("../../.local/bin")
	c.Expect(err).NotTo(HaveOccurred())
	config, err := filepath.Abs(kubeconfig)
	c.Expect(err).NotTo(HaveOccurred())
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+config, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	out, err := cmd.CombinedOutput()
	c.Expect(err).NotTo(HaveOccurred(), "%s:\n%s\n%s", file, strings.TrimSpace(commands), out)
	c.t.Logf("%s:\n%s\n%s", file, strings.TrimSpace(commands), out)
}
