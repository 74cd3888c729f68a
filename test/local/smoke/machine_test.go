// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package smoke

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// machine is the state of the machine that a local Kubernetes could change: a list of lines for each kind of state.
type machine map[string][]string

// inspect reads the state of the machine. A kind of state is empty if its program is not installed.
func inspect(t *testing.T) machine {
	t.Helper()
	m := machine{}
	for kind, command := range map[string]string{
		"mount":     "cut --delimiter=' ' --fields=4,5 /proc/self/mountinfo",
		"interface": "ip -brief address | awk '{print $1, $3}'",
		"route":     "ip route",
		"nftables":  "nft list tables",
		"iptables":  "iptables-legacy-save | grep '^-A'; iptables-nft-save | grep '^-A'",
		"netns":     "ip netns list",
		// Without the control planes of other tests, and without zombies, which init reaps.
		"process": "ps -eo comm,args --no-headers | grep --extended-regexp 'containerd|runc|/pause|etcd-foreman-local|[.]local/run|10[.]88[.]' | grep --invert-match --extended-regexp 'grep|defunct'",
		"sysctl":  "sysctl net.ipv4.ip_forward net.bridge vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops kernel.keys",
		"cgroup":  "find /sys/fs/cgroup -maxdepth 2 -type d",
		"socket":  "ss --listening --tcp --udp --numeric --no-header | awk '{print $1, $5}' | grep --extended-regexp '10[.]88|:(6443|10250|10257|10259|12379|12380)$'",
	} {
		// It is no error if the last program of a pipe finds nothing.
		out, err := exec.Command("bash", "-c", command+" || true").Output()
		if err != nil {
			t.Fatalf("reading kind %s: %v", kind, err)
		}
		m[kind] = lines(string(out))
	}
	for _, pattern := range []string{"/run/*", "/run/containerd/*", "/run/netns/*", "/var/lib/*", "/var/lib/cni/*", "/var/lib/kubelet/*", "/var/log/containers/*", "/var/log/pods/*", "/opt/*", "/etc/cni/*"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatalf("listing files: %v", err)
		}
		m["file"] = append(m["file"], files...)
	}
	return m
}

// compare reports every line that is new since before.
func compare(t *testing.T, before machine) {
	t.Helper()
	for kind, now := range inspect(t) {
		for _, line := range now {
			if !slices.Contains(before[kind], line) {
				t.Errorf("left behind, %s: %s", kind, line)
			}
		}
	}
	for _, path := range []string{".local/run", ".local/kubeconfig"} {
		if _, err := os.Lstat(filepath.Join(root, path)); err == nil {
			t.Errorf("left behind: %s", path)
		}
	}
}

func lines(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
}
