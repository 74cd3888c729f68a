// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// The name of the etcd image is written in many manifests, so it is a constant; its tag must be the version that is
// built.
func TestEtcdImageIsOfThePinnedVersion(t *testing.T) {
	for i, module := range []string{"etcd/3.5", "etcd/3.6", "."} {
		goMod, err := os.ReadFile("../../../tools/" + module + "/go.mod")
		if err != nil {
			t.Fatal(err)
		}
		name := EtcdReleases[i].Name
		_, tag, _ := strings.Cut(name, ":")
		for _, program := range []string{"server/v3", "etcdctl/v3", "etcdutl/v3"} {
			if want := "go.etcd.io/etcd/" + program + " " + tag; !strings.Contains(string(goMod), want+"\n") && !strings.Contains(string(goMod), want+" ") {
				t.Errorf("image %s, but the module %s does not require %s", name, module, want)
			}
		}
	}
}

var example = Image{
	Name:   "localhost/test:dev",
	Files:  []File{{"program", "/usr/local/bin/program"}},
	Dirs:   []string{"/var/lib/etcd"},
	Config: v1.Config{Entrypoint: []string{"/usr/local/bin/program"}, User: nonroot},
}

// newCheckout returns a checkout with one binary.
func newCheckout(t *testing.T, content string, modified time.Time) layout.Layout {
	t.Helper()
	l := layout.Layout{Root: t.TempDir()}
	if err := os.MkdirAll(l.Bin(), 0o755); err != nil {
		t.Fatal(err)
	}
	path := l.Binary("program")
	if err := errors.Join(os.WriteFile(path, []byte(content), 0o600), os.Chtimes(path, modified, modified)); err != nil {
		t.Fatal(err)
	}
	return l
}

func build(t *testing.T, i Image, l layout.Layout) v1.Image {
	t.Helper()
	img, err := i.build(l)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func TestSameContentIsSameImage(t *testing.T) {
	id := func(i Image, content string, modified time.Time) string {
		hash, err := build(t, i, newCheckout(t, content, modified)).ConfigName()
		if err != nil {
			t.Fatal(err)
		}
		return hash.String()
	}
	first := id(example, "one", epoch)
	if first != id(example, "one", time.Now()) {
		t.Error("the same program, built elsewhere and later, gives another image")
	}
	if first == id(example, "two", epoch) {
		t.Error("another program gives the same image")
	}
	asRoot := example
	asRoot.Config.User = ""
	if first == id(asRoot, "one", epoch) {
		t.Error("another configuration gives the same image")
	}
}

func TestArchive(t *testing.T) {
	img := build(t, example, newCheckout(t, "one", time.Now()))
	var removed string
	failure := errors.New("loading fails")
	err := example.load(img, t.TempDir(), func(path string) error {
		removed = path
		checkArchive(t, path)
		return failure
	})
	if !errors.Is(err, failure) {
		t.Errorf("got error %v", err)
	}
	if _, err := os.Stat(removed); !os.IsNotExist(err) {
		t.Errorf("the archive is left behind: %v", err)
	}
}

func checkArchive(t *testing.T, path string) {
	t.Helper()
	img, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Config.User != nonroot || !slices.Equal(config.Config.Entrypoint, example.Config.Entrypoint) {
		t.Errorf("got %+v", config)
	}
	content := mutate.Extract(img)
	defer func() { _ = content.Close() }()
	var got []string
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !header.ModTime.Equal(epoch) {
			t.Errorf("%s is of %v", header.Name, header.ModTime)
		}
		got = append(got, fmt.Sprintf("%s %o", header.Name, header.Mode))
	}
	want := "etc 755,tmp 1777,usr 755,usr/local 755,usr/local/bin 755,var 755,var/lib 755,var/lib/etcd 755,etc/group 644,etc/passwd 644,usr/local/bin/program 755"
	if strings.Join(got, ",") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ","), want)
	}
}

func TestMissingBinaryIsAnError(t *testing.T) {
	if _, err := example.build(layout.Layout{Root: t.TempDir()}); err == nil || !strings.Contains(err.Error(), example.Name) {
		t.Errorf("got error %v", err)
	}
}
