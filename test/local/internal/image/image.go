// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package image makes the images of the local Kubernetes from built binaries and imports them into the container
// runtime: there is no registry to pull from.
package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/atomic"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/command"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Image is one image, made of binaries that are built already.
type Image struct {
	Name   string
	Files  []File
	Dirs   []string // empty directories
	Config v1.Config
}

// File is a binary and its place in an image.
type File struct {
	Binary string // its name in .local/bin
	Path   string
}

// nonroot is the user that an image runs as unless it says otherwise.
const nonroot = "65532:65532"

// The images.
var (
	Pause = Image{
		Name:   layout.PauseImage,
		Files:  []File{{"pause", "/pause"}},
		Config: v1.Config{Entrypoint: []string{"/pause"}, User: "65535:65535"},
	}
	// Etcd is the default, and EtcdReleases are all releases that end-to-end tests run, oldest first.
	Etcd         = etcd("v3.6.16", "etcd-3.6/")
	EtcdReleases = []Image{etcd("v3.5.35", "etcd-3.5/"), Etcd, etcd("v3.7.3", "")}
	Operator     = Image{
		Name:   "localhost/etcd-foreman:dev",
		Files:  []File{{"etcd-foreman", "/etcd-foreman"}},
		Config: v1.Config{Entrypoint: []string{"/etcd-foreman"}, User: nonroot},
	}
	Agent = Image{
		Name:   "localhost/etcd-agent:dev",
		Files:  []File{{"etcd-agent", "/etcd-agent"}},
		Config: v1.Config{Entrypoint: []string{"/etcd-agent"}, User: nonroot},
	}
)

// etcd is an image with the layout of etcd's own, with its command. It runs as root unless the pod says otherwise.
func etcd(tag, binaries string) Image {
	return Image{
		Name: "localhost/etcd:" + tag,
		Files: []File{
			{binaries + "etcd", "/usr/local/bin/etcd"}, {binaries + "etcdctl", "/usr/local/bin/etcdctl"}, {binaries + "etcdutl", "/usr/local/bin/etcdutl"},
		},
		Dirs:   []string{"/var/etcd", "/var/lib/etcd"},
		Config: v1.Config{Cmd: []string{"/usr/local/bin/etcd"}, WorkingDir: "/var/lib/etcd"},
	}
}

// Import imports an image into the container runtime. It reports whether the runtime had none of that name, or another.
func Import(ctx context.Context, l layout.Layout, image Image) (bool, error) {
	built, err := image.build(l)
	if err != nil {
		return false, err
	}
	id, err := built.ConfigName()
	if err != nil {
		return false, fmt.Errorf("digesting image %s: %w", image.Name, err)
	}
	record := filepath.Join(layout.Images, strings.NewReplacer("/", "_", ":", "_").Replace(image.Name))
	if before, err := os.ReadFile(record); err == nil && string(before) == id.String() {
		return false, nil
	}
	if err := image.load(built, layout.StateDir, func(archive string) error {
		return command.Run(ctx, "ctr", "--address", layout.ContainerdSocket, "--namespace", "k8s.io", "images", "import", archive)
	}); err != nil {
		return false, err
	}
	if err := os.MkdirAll(layout.Images, 0o755); err != nil {
		return false, fmt.Errorf("recording the import of image %s: %w", image.Name, err)
	}
	return true, atomic.WriteFile(record, []byte(id.String()), 0o644)
}

// LoadIntoKind puts an image on the nodes of a kind cluster.
func LoadIntoKind(ctx context.Context, l layout.Layout, image Image, cluster string) error {
	built, err := image.build(l)
	if err != nil {
		return err
	}
	return image.load(built, os.TempDir(), func(archive string) error {
		return command.Run(ctx, "kind", "load", "image-archive", archive, "--name", cluster)
	})
}

// load writes an archive of the built image into a folder, passes its path to the program that loads it, and removes it.
func (i Image) load(built v1.Image, dir string, loader func(archive string) error) error {
	tag, err := name.NewTag(i.Name, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("naming image %s: %w", i.Name, err)
	}
	archive, err := os.CreateTemp(dir, "image-*.tar")
	if err != nil {
		return fmt.Errorf("writing image %s: %w", i.Name, err)
	}
	defer func() { _ = os.Remove(archive.Name()) }()
	if err := errors.Join(tarball.Write(tag, built, archive), archive.Close()); err != nil {
		return fmt.Errorf("writing image %s: %w", i.Name, err)
	}
	if err := loader(archive.Name()); err != nil {
		return fmt.Errorf("loading image %s: %w", i.Name, err)
	}
	return nil
}
