// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/ulikunitz/xz"
)

func must[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// contents are the entries of an image: modes, and where links point to.
func contents(t *testing.T, image v1.Image) map[string]string {
	t.Helper()
	all := map[string]string{}
	files := mutate.Extract(image)
	defer func() { _ = files.Close() }()
	for archive := tar.NewReader(files); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if !header.ModTime.Equal(epoch) && !header.ModTime.IsZero() {
			t.Errorf("%s is of %v", header.Name, header.ModTime)
		}
		all[strings.Trim(header.Name, "/")] = fmt.Sprintf("%o%s", header.Mode, header.Linkname)
	}
}

func TestBaseImage(t *testing.T) {
	index := must(newBase("etcd-agent", []byte("roots")))(t)
	manifest := must(index.IndexManifest())(t)
	var found []string
	for _, d := range manifest.Manifests {
		found = append(found, d.Platform.String())
		image := must(index.Image(d.Digest))(t)
		config := must(image.ConfigFile())(t)
		if config.Config.User != user || config.Architecture != d.Platform.Architecture {
			t.Errorf("got %+v", config)
		}
		files := contents(t, image)
		for path, want := range map[string]string{"etc/ssl/certs/ca-certificates.crt": "644", "etc/passwd": "644", "tmp": "1777", "etcd-agent": "777/ko-app/etcd-agent"} {
			if files[path] != want {
				t.Errorf("%s is %q instead of %q", path, files[path], want)
			}
		}
	}
	if !slices.Equal(found, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("got platforms %v", found)
	}
	if must(index.Digest())(t) != must(must(newBase("etcd-agent", []byte("roots")))(t).Digest())(t) {
		t.Error("the same content gives another image")
	}
}

func TestLayout(t *testing.T) {
	base := must(newBase("etcd-agent", []byte("roots")))(t)
	dir := filepath.Join(t.TempDir(), "Capital")
	if err := writeLayout(dir, base); err != nil {
		t.Fatal(err)
	}
	index := must(must(layout.FromPath(dir))(t).ImageIndex())(t)
	manifest := must(index.IndexManifest())(t)
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].Digest != must(base.Digest())(t) {
		t.Errorf("got %+v", manifest.Manifests)
	}
}

// deb is a Debian package with some files.
func deb(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var data bytes.Buffer
	compressed := must(xz.NewWriter(&data))(t)
	archive := tar.NewWriter(compressed)
	for name, content := range files {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		_, _ = archive.Write([]byte(content))
	}
	if err := errors.Join(archive.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	out := []byte("!<arch>\n")
	for _, m := range []struct{ name, content string }{{"debian-binary", "2.0"}, {"data.tar.xz", data.String()}} {
		out = append(out, fmt.Sprintf("%-16s%-12d%-6d%-6d%-8s%-10d`\n%s", m.name, 0, 0, 0, "100644", len(m.content), m.content)...)
		if len(m.content)%2 == 1 {
			out = append(out, '\n')
		}
	}
	return out
}

func TestCertificatesOfAPackage(t *testing.T) {
	got := must(certificates(deb(t, map[string]string{"./usr/share/ca-certificates/b.crt": "B\n", "./usr/share/ca-certificates/a.crt": "A", "./usr/share/doc": "?"})))(t)
	if string(got) != "A\nB\n" {
		t.Errorf("got %q", got)
	}
	for name, broken := range map[string][]byte{
		"nothing": nil, "no archive": []byte("<html>"), "no certificate": deb(t, map[string]string{"./usr/share/doc": "?"}), "cut off": deb(t, map[string]string{"a.crt": "A"})[:150],
	} {
		if _, err := certificates(broken); err == nil {
			t.Errorf("%s is no error", name)
		}
	}
}

func TestDownloadsAreChecked(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	good := download{sha256: checksum([]byte("{}")), urls: []string{server.URL + "/none", server.URL + "/v2/"}}
	forged := download{sha256: checksum([]byte("else")), urls: good.urls}
	if _, err := forged.get(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("got error %v", err)
	}
	cache := t.TempDir()
	body := must(fetch(t.Context(), server.URL+"/v2/"))(t)
	good.sha256 = checksum(body)
	if got := must(good.get(t.Context(), cache))(t); !bytes.Equal(got, body) {
		t.Errorf("got %q", got)
	}
	server.Close()
	if got := must(good.get(t.Context(), cache))(t); !bytes.Equal(got, body) {
		t.Errorf("from the cache: got %q", got)
	}
}

// The images as they are pushed to a registry and pulled from it. This compiles everything for two architectures and downloads
// ca-certificates.
func TestPushToARegistry(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: compiles the operator and the agent")
	}
	server := httptest.NewServer(registry.New())
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	o := options{root: "../..", version: "v0.0.1", push: host + "/a/b", platforms: allPlatforms(), out: t.TempDir(), cache: "../../.local/downloads"}
	first := must(run(context.Background(), o))(t)
	o.push, o.out = "", t.TempDir()
	again := must(run(context.Background(), o))(t)
	if strings.ReplaceAll(first, host+"/a/b/", "") != again {
		t.Errorf("the same sources give other digests:\n%s%s", first, again)
	}
	for _, file := range []string{"images.txt", "sbom/etcd-agent-linux-arm64.spdx.json", "etcd-agent/index.json"} {
		if _, err := os.Stat(filepath.Join(o.out, file)); err != nil {
			t.Error(err)
		}
	}
	for line := range strings.Lines(first) {
		checkPushed(t, strings.TrimSpace(line))
	}
}

func checkPushed(t *testing.T, pushed string) {
	t.Helper()
	tagged, digest, _ := strings.Cut(pushed, "@")
	index := must(remote.Index(must(name.ParseReference(tagged))(t)))(t)
	if got := must(index.Digest())(t); got.String() != digest {
		t.Errorf("%s is %s in the registry", pushed, got)
	}
	program := programs[0]
	if strings.Contains(tagged, programs[1]) {
		program = programs[1]
	}
	for _, d := range must(index.IndexManifest())(t).Manifests {
		image := must(index.Image(d.Digest))(t)
		config := must(image.ConfigFile())(t)
		if !slices.Equal(config.Config.Entrypoint, []string{"/ko-app/" + program}) || config.Config.User != user {
			t.Errorf("%s for %s: got %+v", pushed, d.Platform, config.Config)
		}
		files := contents(t, image)
		if files[program] != "777/ko-app/"+program || files["ko-app/"+program] != "555" {
			t.Errorf("%s for %s: got %v", pushed, d.Platform, files)
		}
		sbom := must(name.NewTag(tagged[:strings.LastIndex(tagged, ":")] + ":" + strings.Replace(d.Digest.String(), ":", "-", 1) + ".sbom"))(t)
		layers := must(must(remote.Image(sbom))(t).Layers())(t)
		content := must(io.ReadAll(must(layers[0].Uncompressed())(t)))(t)
		if !bytes.Contains(content, []byte("SPDX-2.3")) || !bytes.Contains(content, []byte("sigs.k8s.io/controller-runtime")) && program == programs[0] {
			t.Errorf("%s for %s has SBOM %.200s", pushed, d.Platform, content)
		}
		roots := mutate.Extract(image)
		for archive := tar.NewReader(roots); ; {
			header, err := archive.Next()
			if err != nil {
				t.Fatalf("%s has no roots of trust: %v", pushed, err)
			}
			if strings.TrimPrefix(header.Name, "/") == "etc/ssl/certs/ca-certificates.crt" {
				if !x509.NewCertPool().AppendCertsFromPEM(must(io.ReadAll(archive))(t)) {
					t.Errorf("%s has no roots of trust", pushed)
				}
				break
			}
		}
		_ = roots.Close()
	}
}
