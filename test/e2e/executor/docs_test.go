//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/gomega"
)

// What is different here: the operator's images are in no registry, and its etcd is that of etcd-druid, so that
// the way back is open; and the imitation of etcd-druid has a policy instead of a webhook, and no Deployment.
const (
	standIns = `
kubectl() {
	case "$*" in
	"apply "*"-k config/default")
		command kubectl kustomize test/local/deploy |
			sed 's#etcd: localhost/etcd:v3.6.16#etcd: localhost/etcd:v3.5.35#' |
			command kubectl apply --server-side --force-conflicts -f - ;;
	*) druid "$@" ;;
	esac
}
`
	withImitation = `
druid() {
	case "$*" in
	*" deployment etcd-druid"*) ;;
	"delete validatingwebhookconfiguration etcd-druid") command kubectl delete validatingadmissionpolicybinding etcd-druid-components ;;
	*) command kubectl "$@" ;;
	esac
}
`
	withStock = "druid() { command kubectl \"$@\"; }\n"
)

var (
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fence   = regexp.MustCompile("(?ms)^ *```console\n(.*?)^ *```$")
)

// follow runs a block of commands of a section of docs/gardener.md, as it is printed. The namespace of the cluster takes the place of
// the one that is printed.
func (c *cluster) follow(section string, number int) string {
	c.t.Helper()
	page, err := os.ReadFile(root + "docs/gardener.md")
	c.Expect(err).NotTo(HaveOccurred())
	blocks := blocks(string(page), section)
	c.Expect(len(blocks)).To(BeNumerically(">", number), "blocks of section %q", section)
	other := withImitation
	if *stock {
		other = withStock
	}
	commands := strings.ReplaceAll(blocks[number], "shoot--foo--bar", c.namespace)
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", other+standIns+commands)
	cmd.Dir = root
	bin, err := filepath.Abs(root + ".local/bin")
	c.Expect(err).NotTo(HaveOccurred())
	config, err := filepath.Abs(kubeconfig)
	c.Expect(err).NotTo(HaveOccurred())
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+config)
	out, err := cmd.CombinedOutput()
	c.Expect(err).NotTo(HaveOccurred(), "%s:\n%s\n%s", section, commands, out)
	c.t.Logf("%s:\n%s\n%s", section, commands, out)
	return string(out)
}

// blocks are the blocks of commands between a heading and the next one.
func blocks(page, section string) (all []string) {
	headings := heading.FindAllStringSubmatchIndex(page, -1)
	for i, h := range headings {
		if page[h[2]:h[3]] != section {
			continue
		}
		end := len(page)
		if i+1 < len(headings) {
			end = headings[i+1][0]
		}
		for _, block := range fence.FindAllStringSubmatch(page[h[1]:end], -1) {
			all = append(all, block[1])
		}
	}
	return all
}
