// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/measure/console"
)

// newCheckout returns a checkout with one module, tools, and a program in it.
func newCheckout(t *testing.T) (root string, binary Binary) {
	t.Helper()
	root = t.TempDir()
	for path, content := range map[string]string{
		"tools/go.mod":       "module example.com/tools\n",
		"tools/go.sum":       "",
		"tools/hello/a.go":   "package main\n",
		"tools/hello/b.go":   "package main // b\n",
		"tools/other/c.go":   "package main\n",
		".local/bin/hello":   "binary",
		".local/bin/partial": "",
	} {
		write(t, filepath.Join(root, path), content)
	}
	return root, Binary{Name: "hello", Module: "tools", Package: "./hello", Pinned: true}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestStampChangesWithEveryInput(t *testing.T) {
	for name, test := range map[string]struct {
		change func(t *testing.T, root string, binary *Binary, flags *string)
		same   bool
	}{
		"nothing":        {func(*testing.T, string, *Binary, *string) {}, true},
		"other program":  {func(t *testing.T, root string, _ *Binary, _ *string) { write(t, root+"/tools/other/c.go", "x") }, true},
		"module file":    {func(t *testing.T, root string, _ *Binary, _ *string) { write(t, root+"/tools/go.mod", "x") }, false},
		"checksums":      {func(t *testing.T, root string, _ *Binary, _ *string) { write(t, root+"/tools/go.sum", "x") }, false},
		"source":         {func(t *testing.T, root string, _ *Binary, _ *string) { write(t, root+"/tools/hello/b.go", "x") }, false},
		"new source":     {func(t *testing.T, root string, _ *Binary, _ *string) { write(t, root+"/tools/hello/d.go", "") }, false},
		"renamed source": {func(t *testing.T, root string, _ *Binary, _ *string) { rename(t, root+"/tools/hello/b.go", "c.go") }, false},
		"package":        {func(_ *testing.T, _ string, b *Binary, _ *string) { b.Package = "./other" }, false},
		"linker flags":   {func(_ *testing.T, _ string, _ *Binary, flags *string) { *flags = "-w" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			root, binary := newCheckout(t)
			flags := "-s -w"
			before, err := stamp(root, binary, flags)
			if err != nil {
				t.Fatal(err)
			}
			test.change(t, root, &binary, &flags)
			after, err := stamp(root, binary, flags)
			if err != nil {
				t.Fatal(err)
			}
			if (before == after) != test.same {
				t.Errorf("same stamp: %t, want %t", before == after, test.same)
			}
		})
	}
}

func rename(t *testing.T, path, name string) {
	t.Helper()
	if err := os.Rename(path, filepath.Join(filepath.Dir(path), name)); err != nil {
		t.Fatal(err)
	}
}

func TestCurrent(t *testing.T) {
	root, _ := newCheckout(t)
	stampPath := filepath.Join(root, "stamp")
	write(t, stampPath, "good")
	for name, test := range map[string]struct {
		binary, stampPath, want string
		current                 bool
	}{
		"built under this stamp":    {"hello", stampPath, "good", true},
		"built under another stamp": {"hello", stampPath, "better", false},
		"never built":               {"hello", root + "/none", "good", false},
		"binary removed":            {"none", stampPath, "good", false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := current(filepath.Join(root, ".local/bin", test.binary), test.stampPath, test.want)
			if err != nil {
				t.Fatal(err)
			}
			if got != test.current {
				t.Errorf("got %t, want %t", got, test.current)
			}
		})
	}
}

func TestProvided(t *testing.T) {
	root, _ := newCheckout(t)
	own := filepath.Join(root, ".local/bin")
	elsewhere := t.TempDir()
	write(t, filepath.Join(elsewhere, "etcd"), "binary")
	write(t, filepath.Join(elsewhere, "README"), "text")
	if err := os.Chmod(filepath.Join(elsewhere, "etcd"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(own, "hello"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		assets, binary string
		provided       bool
	}{
		"no assets":             {"", "etcd", false},
		"in the assets":         {elsewhere, "etcd", true},
		"not in the assets":     {elsewhere, "kubectl", false},
		"not a program":         {elsewhere, "README", false},
		"assets are our own":    {own, "hello", false},
		"assets do not exist":   {elsewhere + "/none", "etcd", false},
		"assets are ours, link": {own + "/../bin", "hello", false},
	} {
		t.Run(name, func(t *testing.T) {
			builder := Builder{Layout: layout.Layout{Root: root}, Console: console.New(os.Stderr), Assets: test.assets}
			if got := builder.provided(test.binary); got != test.provided {
				t.Errorf("got %t, want %t", got, test.provided)
			}
		})
	}
}

func TestSelect(t *testing.T) {
	selected, err := Select([]string{"kubectl", "etcd"})
	if err != nil || len(selected) != 2 || selected[0].Name != "etcd" || selected[1].Name != "kubectl" {
		t.Errorf("got %v, %v", selected, err)
	}
	if _, err := Select([]string{"etcd", "kubeadm"}); err == nil || !strings.Contains(err.Error(), `"kubeadm"`) {
		t.Errorf("got error %v for an unknown name", err)
	}
}

func TestProgramsOfARelease(t *testing.T) {
	current := Pinned("", false)
	for name, want := range map[string]bool{"kubelet": true, "etcd": true, "etcd-3.6/etcdctl": true, "etcd-3.5/etcd": false, "etcdutl": false, "helm": false} {
		if slices.Contains(current, name) != want {
			t.Errorf("the current release has %s: %t, want %t", name, !want, want)
		}
	}
	if all := Pinned("", true); !slices.Contains(all, "etcd-3.5/etcd") || !slices.Contains(all, "etcdutl") || slices.Contains(all, "helm") {
		t.Errorf("with all releases of etcd: %v", all)
	}
	older := Pinned("1.33", false)
	if len(older) != len(current) {
		t.Errorf("1.33: %v", older)
	}
	for i, name := range current {
		want := name
		if slices.Contains(Kubernetes, name) {
			want = "1.33/" + name
		}
		if older[i] != want {
			t.Errorf("got %s for %s", older[i], name)
		}
	}
	if _, err := Select(older); err != nil {
		t.Error(err)
	}
	for release, ok := range map[string]bool{"": true, "1.33": true, "1.37": false, "1.32": false} {
		if err := CheckRelease(release); (err == nil) != ok {
			t.Errorf("release %q: %v", release, err)
		}
	}
}

func TestKubernetesVersion(t *testing.T) {
	const goMod = "module x\nrequire (\n\tk8s.io/kubernetes v1.36.3\n)\nreplace k8s.io/kubernetes/x => k8s.io/x v0.1.0\n"
	flags, err := kubernetesVersion(goMod)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"component-base/version.gitVersion=v1.36.3", "component-base/version.gitMinor=36", "client-go/pkg/version.gitVersion=v1.36.3"} {
		if !strings.Contains(flags, want) {
			t.Errorf("flags %q lack %q", flags, want)
		}
	}
	if _, err := kubernetesVersion("module x\n"); err == nil {
		t.Error("no error for a go.mod without Kubernetes")
	}
}

func TestWhatIsBuiltAtOnce(t *testing.T) {
	root := filepath.Join("..", "..", "..", "..")
	b := Builder{Layout: layout.Layout{Root: root}, Console: console.New(os.Stderr)}
	// As if nothing had been built.
	b.Layout.Root = t.TempDir()
	for _, module := range []string{toolsModule, etcdReleases + "/3.5", etcdReleases + "/3.6", s3Module, gcsModule, certModule, helmModule} {
		for _, file := range []string{"go.mod", "go.sum"} {
			content, err := os.ReadFile(filepath.Join(root, module, file))
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(b.Layout.Root, module, file), string(content))
		}
	}
	for _, tool := range []string{"hyperkube", "coredns", "provisioner", "pause"} {
		write(t, filepath.Join(b.Layout.Root, toolsModule, tool, "main.go"), "package main\n")
	}
	batches, err := b.plan(Binaries)
	if err != nil {
		t.Fatal(err)
	}
	var labels []string
	for _, batch := range batches {
		labels = append(labels, batch.label())
	}
	if got := strings.Join(labels, "; "); got != "etcd and 11 more; etcd-3.5/etcd and 2 more; etcd-3.6/etcd and 2 more; versitygw; fake-gcs-server; certmanager; helm; etcd-foreman, etcd-agent" {
		t.Errorf("batches: %s", got)
	}
	for name, want := range map[string]string{"etcd": "server", "etcd-3.5/etcd": "server", "etcdctl": "etcdctl", "kubectl": "kubectl", "kubelet": "hyperkube", "coredns": "coredns", "etcd-agent": "etcd-agent"} {
		selected, err := Select([]string{name})
		if err != nil || selected[0].executable() != want {
			t.Errorf("%s: %s, %v", name, selected[0].executable(), err)
		}
	}
}

// An older release whose module pins another release would be tested in name only.
func TestOlderReleasesAreWhatTheyAreCalled(t *testing.T) {
	modules := filepath.Join("..", "..", "..", "..", olderReleases)
	for _, release := range OlderReleases {
		goMod, err := os.ReadFile(filepath.Join(modules, release, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		version, err := requiredVersion(string(goMod), "k8s.io/kubernetes")
		if err != nil || !strings.HasPrefix(version, "v"+release+".") {
			t.Errorf("%s: %s, %v", release, version, err)
		}
		for _, program := range Kubernetes {
			if tool := "k8s.io/kubernetes/cmd/" + program; !strings.Contains(string(goMod), "\t"+tool+"\n") {
				t.Errorf("the module of %s does not pin what %s needs", release, tool)
			}
		}
	}
	found, err := filepath.Glob(filepath.Join(modules, "1.*"))
	if err != nil || len(found) != len(OlderReleases) {
		t.Errorf("modules: %v, %v", found, err)
	}
	binaries, err := Select([]string{"1.33/kube-apiserver"})
	if err != nil || len(binaries) != 1 || binaries[0].Module != olderReleases+"/1.33" {
		t.Errorf("%+v, %v", binaries, err)
	}
}

// A program with several names is one file, and none of them is built again while all are current.
func TestNamesOfOneFile(t *testing.T) {
	root, hello := newCheckout(t)
	hi := hello
	hi.Name = "1.33/hi"
	names := []Binary{hello, hi}
	b := Builder{Layout: layout.Layout{Root: root}, Console: console.New(os.Stderr)}
	build := func(content string) (first, second os.FileInfo) {
		t.Helper()
		built := filepath.Join(root, "built")
		write(t, built, content)
		batches, err := b.plan(names)
		if err != nil || len(batches) != 1 || len(batches[0].binaries) != len(names) {
			t.Fatalf("batches: %v, %v", batches, err)
		}
		var infos []os.FileInfo
		for i, binary := range names {
			if err := b.install(built, binary, batches[0].stamps[i]); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(b.Layout.Binary(binary.Name)); err != nil || string(got) != content {
				t.Errorf("%s is %q, %v", binary.Name, got, err)
			}
			info, err := os.Stat(b.Layout.Binary(binary.Name))
			if err != nil {
				t.Fatal(err)
			}
			infos = append(infos, info)
		}
		if batches, err := b.plan(names); err != nil || len(batches) != 0 {
			t.Errorf("both names are current, and %d batches are built again: %v", len(batches), err)
		}
		return infos[0], infos[1]
	}
	if first, second := build("one"); !os.SameFile(first, second) {
		t.Error("the two names are two files")
	}
	if err := os.Remove(filepath.Join(root, "built")); err != nil {
		t.Fatal(err)
	}
	write(t, root+"/tools/hello/c.go", "package main\n")
	if first, second := build("two"); !os.SameFile(first, second) {
		t.Error("after a change, the two names are two files")
	}
	if err := os.Remove(b.Layout.Binary(hi.Name)); err != nil {
		t.Fatal(err)
	}
	if batches, err := b.plan(names); err != nil || len(batches) != 1 || len(batches[0].binaries) != 1 || batches[0].binaries[0].Name != hi.Name {
		t.Errorf("one name is gone: batches %v, %v", batches, err)
	}
}
