// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package build compiles the programs that the local Kubernetes consists of into .local/bin, each at the version that a
// go.mod pins. What is current is left alone.
package build

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// Binary is one program to compile.
type Binary struct {
	Name    string
	Module  string // folder of its Go module, relative to the checkout
	Package string
	// Pinned programs change only when their module file, their own folder or the toolchain does, so a stamp shows whether
	// they are current. The others are passed to the go command each time.
	Pinned bool
	// InImage programs run in a container only.
	InImage bool
	// ForTests programs are started by tests; a cluster does not need them.
	ForTests bool
	// OtherEtcd programs are only in the images of the releases of etcd that are not the default.
	OtherEtcd bool
	// Flags returns the linker flags that carry the version, given the go.mod.
	Flags func(goMod string) (string, error)
}

// The modules that pin the programs. All programs of the cluster are in one, so that packages that several of them use
// are compiled once. Each older release of Kubernetes and of etcd has a module of its own.
const (
	toolsModule   = "test/tools"
	etcdReleases  = "test/tools/etcd"
	olderReleases = "test/tools/kubernetes"
	s3Module      = "test/tools/s3"
	gcsModule     = "test/tools/gcs"
	certModule    = "test/tools/certmanager"
	helmModule    = "hack/helm"
	mainModule    = "."
)

// Binaries are all programs, in the order in which they are built.
var Binaries = []Binary{
	tool("etcd", "go.etcd.io/etcd/server/v3"),
	otherEtcd(tool("etcdctl", "go.etcd.io/etcd/etcdctl/v3")), otherEtcd(tool("etcdutl", "go.etcd.io/etcd/etcdutl/v3")),
	otherEtcd(member("3.5", "server")), otherEtcd(member("3.5", "etcdctl")), otherEtcd(member("3.5", "etcdutl")),
	member("3.6", "server"), member("3.6", "etcdctl"), member("3.6", "etcdutl"),
	{Name: "versitygw", Module: s3Module, Package: "github.com/versity/versitygw/cmd/versitygw", Pinned: true, ForTests: true},
	{Name: "fake-gcs-server", Module: gcsModule, Package: "github.com/fsouza/fake-gcs-server", Pinned: true, ForTests: true},
	{Name: "certmanager", Module: certModule, Package: "github.com/etcd-foreman/etcd-foreman/test/tools/certmanager", Pinned: true, ForTests: true},
	{Name: "helm", Module: helmModule, Package: "helm.sh/helm/v4/cmd/helm", Pinned: true, ForTests: true},
	tool("kube-apiserver", hyperkube),
	tool("kube-controller-manager", hyperkube),
	tool("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
	tool("kube-scheduler", hyperkube),
	tool("kubelet", hyperkube),
	tool("kube-proxy", hyperkube),
	tool("coredns", "./coredns"),
	tool("provisioner", "./provisioner"),
	tool("pause", "./pause"),
	operator("etcd-foreman"),
	operator("etcd-agent"),
}

// hyperkube is all programs of the current release of Kubernetes, except kubectl, which starts faster alone and which
// clusters of older releases need as well. They are one file with a name for each.
const hyperkube = "./hyperkube"

// OlderReleases are the releases of Kubernetes, besides the current one, that the operator is tested against. Each has a
// module in the folder of its name, and its programs are called "1.33/kube-apiserver" and so on.
var OlderReleases = []string{"1.33", "1.34", "1.35", "1.36"}

// Kubernetes are the programs that make up a release. kubectl is always that of the current release.
var Kubernetes = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"}

// older are the programs of the older releases.
func older() []Binary {
	var binaries []Binary
	for _, release := range OlderReleases {
		for _, name := range Kubernetes {
			b := tool(release+"/"+name, "k8s.io/kubernetes/cmd/"+name)
			b.Module = olderReleases + "/" + release
			binaries = append(binaries, b)
		}
	}
	return binaries
}

// tool is a program of the module of tools. All of them are linked with the version of Kubernetes, so that all have the
// same flags and are built at once.
func tool(name, pkg string) Binary {
	return Binary{Name: name, Module: toolsModule, Package: pkg, Pinned: true, Flags: kubernetesVersion}
}

// member is a program of the image of etcd's older release: "etcd-3.6/etcd" is its server. That of the newest release is beside
// Kubernetes, whose client library it shares.
func member(release, program string) Binary {
	name := program
	if program == "server" {
		name = "etcd"
	}
	return Binary{Name: "etcd-" + release + "/" + name, Module: etcdReleases + "/" + release, Package: "go.etcd.io/etcd/" + program + "/v3", Pinned: true, InImage: true}
}

func otherEtcd(b Binary) Binary {
	b.OtherEtcd = true
	return b
}

func operator(name string) Binary {
	return Binary{Name: name, Module: mainModule, Package: "./cmd/" + name, InImage: true}
}

// executable is the name that the go command gives to the program.
func (b Binary) executable() string {
	withoutMajor, _, _ := module.SplitPathVersion(b.Package)
	return path.Base(withoutMajor)
}

// Pinned returns the names of the pinned programs: all that a cluster of a release needs, except the operator. No release
// is the current one. allEtcds adds what only the images of other releases of etcd hold.
func Pinned(release string, allEtcds bool) []string {
	var names []string
	for _, binary := range Binaries {
		if binary.Pinned && !binary.ForTests && (allEtcds || !binary.OtherEtcd) {
			names = append(names, Of(release, binary.Name))
		}
	}
	return names
}

// Of returns the name of a program in a cluster of a release.
func Of(release, name string) string {
	if slices.Contains(Kubernetes, name) {
		return path.Join(release, name)
	}
	return name
}

// CheckRelease returns an error if there is no module for a release of Kubernetes.
func CheckRelease(release string) error {
	if release == "" || slices.Contains(OlderReleases, release) {
		return nil
	}
	return fmt.Errorf("no module pins Kubernetes %s; there are %s, and the current release if none is given", release, strings.Join(OlderReleases, ", "))
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

// kubernetesVersion returns the linker flags that set the release of a Kubernetes program. Without them its version is
// v0.0.0, which clients that compare versions refuse.
func kubernetesVersion(goMod string) (string, error) {
	version, err := requiredVersion(goMod, "k8s.io/kubernetes")
	if err != nil {
		return "", err
	}
	major, minor, _ := strings.Cut(strings.TrimPrefix(semver.MajorMinor(version), "v"), ".")
	var flags []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags,
			"-X "+pkg+".gitVersion="+version,
			"-X "+pkg+".gitMajor="+major,
			"-X "+pkg+".gitMinor="+minor,
			"-X "+pkg+".gitTreeState=clean",
		)
	}
	return strings.Join(flags, " "), nil
}

// requiredVersion returns the version of a module that a go.mod requires.
func requiredVersion(goMod, path string) (string, error) {
	file, err := modfile.ParseLax("go.mod", []byte(goMod), nil)
	if err != nil {
		return "", err
	}
	for _, required := range file.Require {
		if required.Mod.Path == path {
			return required.Mod.Version, nil
		}
	}
	return "", fmt.Errorf("the go.mod does not require %s", path)
}
