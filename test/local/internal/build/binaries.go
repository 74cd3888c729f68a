// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package build compiles the programs that the local Kubernetes consists of,
// each at the version that a go.mod pins, into .local/bin. What is already there
// and current is left alone. It imports the standard library and its siblings
// layout and progress only.
package build

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Binary is one program to compile.
type Binary struct {
	Name    string
	Module  string // folder of its Go module, relative to the checkout
	Package string
	// Pinned programs change only when their module file, their own folder or
	// the toolchain does, so a stamp tells whether they are current. For the
	// others the go command has to be asked each time.
	Pinned bool
	// InImage programs run in a container only.
	InImage bool
	// ForTests programs are started by tests; a cluster does not need them.
	ForTests bool
	// Flags returns the linker flags that carry the version, given the go.mod.
	Flags func(goMod string) (string, error)
}

// The modules that pin the programs. All that the cluster consists of is in one,
// so that what several of them have in common is compiled once. Each of the older
// releases of Kubernetes has one of its own.
const (
	toolsModule   = "test/tools"
	olderReleases = "test/tools/kubernetes"
	s3Module      = "test/tools/s3"
	gcsModule     = "test/tools/gcs"
	mainModule    = "."
)

// Binaries are all programs, in the order in which they are built.
var Binaries = []Binary{
	tool("etcd", "go.etcd.io/etcd/server/v3"),
	tool("etcdctl", "go.etcd.io/etcd/etcdctl/v3"),
	tool("etcdutl", "go.etcd.io/etcd/etcdutl/v3"),
	{Name: "versitygw", Module: s3Module, Package: "github.com/versity/versitygw/cmd/versitygw", Pinned: true, ForTests: true},
	{Name: "fake-gcs-server", Module: gcsModule, Package: "github.com/fsouza/fake-gcs-server", Pinned: true, ForTests: true},
	kubernetes("kube-apiserver"),
	kubernetes("kube-controller-manager"),
	kubernetes("kubectl"),
	kubernetes("kube-scheduler"),
	kubernetes("kubelet"),
	kubernetes("kube-proxy"),
	tool("coredns", "./coredns"),
	tool("provisioner", "./provisioner"),
	tool("image", "./image"),
	tool("pause", "./pause"),
	operator("etcd-foreman"),
	operator("etcd-agent"),
}

func kubernetes(name string) Binary {
	return tool(name, "k8s.io/kubernetes/cmd/"+name)
}

// OlderReleases are the releases of Kubernetes, besides that of the cluster, that the operator is tested against. Each
// has a module of its own in the folder of its name, and its programs are called "1.33/kube-apiserver" and so on.
var OlderReleases = []string{"1.33", "1.34", "1.35"}

// older are the programs of the older releases that integration tests need.
func older() []Binary {
	var binaries []Binary
	for _, release := range OlderReleases {
		for _, name := range []string{"kube-apiserver", "kube-controller-manager"} {
			b := kubernetes(name)
			b.Name, b.Module = release+"/"+name, olderReleases+"/"+release
			binaries = append(binaries, b)
		}
	}
	return binaries
}

// tool is a program of the module of tools. Those that are not Kubernetes have its version as well, which changes
// nothing: so that all have the same flags, and are built at once.
func tool(name, pkg string) Binary {
	return Binary{Name: name, Module: toolsModule, Package: pkg, Pinned: true, Flags: kubernetesVersion}
}

func operator(name string) Binary {
	return Binary{Name: name, Module: mainModule, Package: "./cmd/" + name, InImage: true}
}

// executable is the name that the go command gives to the program.
func (b Binary) executable() string {
	dir, name := path.Split(b.Package)
	if majorVersion.MatchString(name) {
		name = path.Base(dir)
	}
	return name
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// Pinned returns the names of the pinned programs: all that a cluster needs
// before the operator comes.
func Pinned() []string {
	var names []string
	for _, binary := range Binaries {
		if binary.Pinned && !binary.ForTests {
			names = append(names, binary.Name)
		}
	}
	return names
}

// Select returns the binaries with the given names, in building order.
func Select(names []string) ([]Binary, error) {
	var selected []Binary
	for _, binary := range append(slices.Clone(Binaries), older()...) {
		if slices.Contains(names, binary.Name) {
			selected = append(selected, binary)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(selected, func(b Binary) bool { return b.Name == name }) {
			return nil, fmt.Errorf("no binary is called %q; there are: %s", name, strings.Join(allNames(), " "))
		}
	}
	return selected, nil
}

func allNames() []string {
	names := make([]string, 0, len(Binaries))
	for _, binary := range Binaries {
		names = append(names, binary.Name)
	}
	return names
}

// kubernetesVersion stamps the release into a Kubernetes program, which
// otherwise calls itself v0.0.0 and is refused by clients that compare versions.
func kubernetesVersion(goMod string) (string, error) {
	version, err := requiredVersion(goMod, "k8s.io/kubernetes")
	if err != nil {
		return "", err
	}
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) != 3 {
		return "", fmt.Errorf("version %s of k8s.io/kubernetes: want vMAJOR.MINOR.PATCH", version)
	}
	var flags []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags,
			"-X "+pkg+".gitVersion="+version,
			"-X "+pkg+".gitMajor="+parts[0],
			"-X "+pkg+".gitMinor="+parts[1],
			"-X "+pkg+".gitTreeState=clean",
		)
	}
	return strings.Join(flags, " "), nil
}

// requiredVersion returns the version of a module that a go.mod requires.
func requiredVersion(goMod, module string) (string, error) {
	for line := range strings.Lines(goMod) {
		fields := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(fields) >= 2 && fields[0] == module && strings.HasPrefix(fields[1], "v") {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("the go.mod does not require %s", module)
}
