// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func archive(t *testing.T, spec imageSpec) []byte {
	t.Helper()
	img, err := spec.build()
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("localhost/test:dev")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := tarball.Write(tag, img, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func newSpec(t *testing.T, content string) imageSpec {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return imageSpec{Files: []file{{Source: path, Path: "/usr/local/bin/program"}}, Dirs: []string{"/var/lib/etcd"}, User: "65532:65532"}
}

func TestSameContentIsSameImage(t *testing.T) {
	if !bytes.Equal(archive(t, newSpec(t, "one")), archive(t, newSpec(t, "one"))) {
		t.Error("the same program, of another place and time, gives another image")
	}
	if bytes.Equal(archive(t, newSpec(t, "one")), archive(t, newSpec(t, "two"))) {
		t.Error("another program gives the same image")
	}
}

func TestImageSaysHowItIsRun(t *testing.T) {
	spec := newSpec(t, "one")
	spec.Entrypoint = []string{"/usr/local/bin/program"}
	img, err := spec.build()
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Config.User != "65532:65532" || len(config.Config.Entrypoint) != 1 {
		t.Errorf("got %+v", config)
	}
}

func TestMissingFileIsAnError(t *testing.T) {
	spec := imageSpec{Files: []file{{Source: "/no/such/file", Path: "/x"}}}
	if _, err := spec.build(); err == nil {
		t.Error("no error")
	}
}
