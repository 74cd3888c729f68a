// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package host knows what the local Kubernetes needs of the machine it runs on,
// says in one line each what is missing, and installs Debian packages. It
// imports the standard library and its siblings layout and package console only.
package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/measure/console"
)

// cniDirs are where distributions put CNI plugins.
var cniDirs = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}

// requirement is something that a Debian package brings.
type requirement struct {
	Package string
	Present func() bool
}

// requirements are checked by what they bring, not by package, because a
// containerd that is there in another way must never be replaced.
var requirements = []requirement{
	{"containerd", command("containerd")},
	{"containerd", command("ctr")},
	{"runc", command("runc")},
	{"nftables", command("nft")},
	{"iproute2", command("ip")},
	{"containernetworking-plugins", func() bool { _, err := CNIDir(); return err == nil }},
}

// CNIDir returns the folder of the CNI plugins.
func CNIDir() (string, error) {
	for _, dir := range cniDirs {
		if _, err := os.Stat(filepath.Join(dir, "bridge")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no CNI plugins in %s", strings.Join(cniDirs, ", "))
}

// command returns a check for a program.
func command(name string) func() bool {
	return func() bool { _, err := exec.LookPath(name); return err == nil }
}

// Prepare checks the requirements and installs missing packages. Everything
// that cannot be put right is named in one error.
func Prepare(ctx context.Context, c *console.Console) error {
	if err := Check(); err != nil {
		return err
	}
	packages := missing(requirements)
	if len(packages) == 0 {
		return nil
	}
	if !command("apt-get")() {
		return fmt.Errorf("missing %s, and this is no Debian to install them on: install them by hand", strings.Join(packages, ", "))
	}
	return c.Step("packages", func(note func(string)) (string, error) {
		note("installing " + strings.Join(packages, " "))
		if err := apt(ctx, "update"); err != nil {
			return "", err
		}
		if err := apt(ctx, append([]string{"install", "--yes", "--no-install-recommends"}, packages...)...); err != nil {
			return "", err
		}
		if still := missing(requirements); len(still) > 0 {
			return "", fmt.Errorf("still missing after installing packages: %s", strings.Join(still, ", "))
		}
		return "installed " + strings.Join(packages, " "), nil
	})
}

// Check tells what no package brings.
func Check() error {
	var problems []error
	if runtime.GOOS != "linux" {
		problems = append(problems, fmt.Errorf("this is %s: the local Kubernetes needs Linux (use CLUSTER=current with a cluster of your own)", runtime.GOOS))
	}
	if os.Geteuid() != 0 {
		problems = append(problems, errors.New("not root: run it with sudo, or use CLUSTER=current with a cluster of your own"))
	}
	if _, err := exec.LookPath("go"); err != nil {
		problems = append(problems, errors.New("the go command is not on PATH (sudo may have shortened it)"))
	}
	return errors.Join(problems...)
}

// CheckFree tells whether the addresses and names that the cluster will use are
// taken by something else. It is for a machine on which no local Kubernetes is.
func CheckFree() error {
	interfaces, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("listing network interfaces: %w", err)
	}
	pods := netip.MustParsePrefix(layout.PodCIDR)
	for _, i := range interfaces {
		if i.Name == layout.Bridge {
			return fmt.Errorf("interface %s exists and is not ours: this machine seems to run another Kubernetes", i.Name)
		}
		addresses, err := i.Addrs()
		if err != nil {
			return fmt.Errorf("listing addresses of %s: %w", i.Name, err)
		}
		for _, address := range addresses {
			if prefix, err := netip.ParsePrefix(address.String()); err == nil && prefix.Overlaps(pods) && prefix.Bits() > 0 {
				return fmt.Errorf("interface %s has %s, which overlaps the pod network %s: take it down first", i.Name, prefix, pods)
			}
		}
	}
	if err := exec.Command("nft", "list", "table", "ip", "kube-proxy").Run(); err == nil {
		return errors.New("nftables has a table kube-proxy that is not ours: this machine seems to run another Kubernetes")
	}
	return nil
}

func missing(requirements []requirement) []string {
	var packages []string
	seen := map[string]bool{}
	for _, r := range requirements {
		if !r.Present() && !seen[r.Package] {
			seen[r.Package] = true
			packages = append(packages, r.Package)
		}
	}
	return packages
}

func apt(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"--quiet"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}
