// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// passwd and group name the users that an image may run as; some programs look
// up their own user and fail when it has no name.
const (
	passwd = "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"
	group  = "root:x:0:\nnonroot:x:65532:\n"
)

// epoch is the time of everything in an image, so that it is reproducible.
var epoch = time.Unix(0, 0).UTC()

// file is one file of the image.
type file struct {
	Source string // on this machine
	Path   string // in the image, absolute
}

// imageSpec says what is in an image and how it is run.
type imageSpec struct {
	Files      []file
	Dirs       []string
	Entrypoint []string
	Cmd        []string
	Env        []string
	User       string
	WorkingDir string
}

// build returns the image; the files are read when its layer is.
func (s imageSpec) build() (v1.Image, error) {
	// Not compressed: the archive goes straight into a local image store.
	layer, err := tarball.LayerFromOpener(s.layer, tarball.WithCompressionLevel(gzip.NoCompression))
	if err != nil {
		return nil, fmt.Errorf("reading the layer: %w", err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, fmt.Errorf("appending the layer: %w", err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Created = v1.Time{Time: epoch}
	config.Config = v1.Config{
		Entrypoint: s.Entrypoint,
		Cmd:        s.Cmd,
		Env:        append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, s.Env...),
		User:       s.User,
		WorkingDir: s.WorkingDir,
	}
	return mutate.ConfigFile(img, config)
}

// layer streams the layer as a tar archive. It is called once for each digest
// and once for the content, so nothing is held in memory.
func (s imageSpec) layer() (io.ReadCloser, error) {
	reader, writer := io.Pipe()
	go func() {
		archive := tar.NewWriter(writer)
		err := s.write(archive)
		if err == nil {
			err = archive.Close()
		}
		writer.CloseWithError(err)
	}()
	return reader, nil
}

func (s imageSpec) write(archive *tar.Writer) error {
	for _, dir := range s.directories() {
		mode := int64(0o755)
		if dir == "tmp" {
			mode = 0o1777
		}
		header := &tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: mode, ModTime: epoch}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("writing directory %s: %w", dir, err)
		}
	}
	for _, account := range []struct{ path, content string }{{"etc/group", group}, {"etc/passwd", passwd}} {
		if err := writeFile(archive, account.path, 0o644, int64(len(account.content)), strings.NewReader(account.content)); err != nil {
			return err
		}
	}
	for _, f := range s.Files {
		if err := copyFile(archive, f); err != nil {
			return err
		}
	}
	return nil
}

// directories returns every directory of the image, parents first, without the
// leading slash.
func (s imageSpec) directories() []string {
	dirs := []string{"etc", "tmp"}
	add := func(dir string) {
		for ; dir != "/" && dir != "."; dir = path.Dir(dir) {
			dirs = append(dirs, strings.TrimPrefix(dir, "/"))
		}
	}
	for _, dir := range s.Dirs {
		add(path.Clean(dir))
	}
	for _, f := range s.Files {
		add(path.Dir(f.Path))
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func copyFile(archive *tar.Writer, f file) error {
	source, err := os.Open(f.Source)
	if err != nil {
		return fmt.Errorf("opening a file of the image: %w", err)
	}
	defer func() { _ = source.Close() }()
	info, err := source.Stat()
	if err != nil {
		return fmt.Errorf("reading size of %s: %w", f.Source, err)
	}
	return writeFile(archive, strings.TrimPrefix(f.Path, "/"), 0o755, info.Size(), source)
}

func writeFile(archive *tar.Writer, name string, mode, size int64, content io.Reader) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: size, ModTime: epoch}
	if err := archive.WriteHeader(header); err != nil {
		return fmt.Errorf("writing header of %s: %w", name, err)
	}
	if _, err := io.Copy(archive, content); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}
