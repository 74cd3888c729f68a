// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package host checks what the local Kubernetes needs of the machine it runs on, and installs Debian packages.
package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/command"
	"github.com/etcd-foreman/etcd-foreman/test/measure/console"
)

// cniDirs are where distributions put CNI plugins.
var cniDirs = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}

// CNIDir returns the folder of the CNI plugins.
func CNIDir() (string, error) {
	for _, dir := range cniDirs {
		if _, err := os.Stat(filepath.Join(dir, "bridge")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no CNI plugins in %s", strings.Join(cniDirs, ", "))
}

// programs are the programs that are needed, and the Debian packages that have them. They are looked up by name, not by
// package: a containerd that was installed in another way is never replaced.
var programs = []struct{ name, inPackage string }{
	{"containerd", "containerd"}, {"ctr", "containerd"}, {"runc", "runc"}, {"nft", "nftables"}, {"ip", "iproute2"},
	// The robustness test slows the disks of members with it.
	{"strace", "strace"},
}

// missing returns the packages to install.
func missing() []string {
	var packages []string
	for _, p := range programs {
		if !command.Exists(p.name) && !slices.Contains(packages, p.inPackage) {
			packages = append(packages, p.inPackage)
		}
	}
	if _, err := CNIDir(); err != nil {
		packages = append(packages, "containernetworking-plugins")
	}
	return packages
}

// Prepare checks the machine and installs missing packages. Its error names everything that it cannot fix.
func Prepare(ctx context.Context, c *console.Console) error {
	if err := Check(); err != nil {
		return err
	}
	packages := missing()
	if len(packages) == 0 {
		return nil
	}
	if !command.Exists("apt-get") {
		return fmt.Errorf("missing %s, and apt-get is not on PATH: install them by hand", strings.Join(packages, ", "))
	}
	return c.Step("packages", func(note func(string)) (string, error) {
		note("installing " + strings.Join(packages, " "))
		if err := apt(ctx, "update"); err != nil {
			return "", err
		}
		if err := apt(ctx, append([]string{"install", "--yes", "--no-install-recommends"}, packages...)...); err != nil {
			return "", err
		}
		if still := missing(); len(still) > 0 {
			return "", fmt.Errorf("still missing after installing packages: %s", strings.Join(still, ", "))
		}
		return "installed " + strings.Join(packages, " "), nil
	})
}

func apt(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"--quiet"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	return command.Do(cmd)
}

// Check returns an error that names everything that is missing and that no package has.
func Check() error {
	var problems []error
	if runtime.GOOS != "linux" {
		problems = append(problems, fmt.Errorf("this is %s: the local Kubernetes needs Linux (use CLUSTER=current with a cluster of your own)", runtime.GOOS))
	}
	if os.Geteuid() != 0 {
		problems = append(problems, errors.New("not root: run it with sudo, or use CLUSTER=current with a cluster of your own"))
	}
	if !command.Exists("go") {
		problems = append(problems, errors.New("the go command is not on PATH (sudo may have shortened it)"))
	}
	return errors.Join(problems...)
}
