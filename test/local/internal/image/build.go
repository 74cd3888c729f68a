// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package image

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

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// passwd and group name the users that an image may run as; some programs look up their own user and fail when it has
// no name.
const (
	passwd = "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"
	group  = "root:x:0:\nnonroot:x:65532:\n"
)

// epoch is the time of everything in an image, so that the same binaries always give the same image.
var epoch = time.Unix(0, 0).UTC()

// build returns the image: one layer with the files, and nothing else. The files are read whenever the layer is.
func (i Image) build(l layout.Layout) (v1.Image, error) {
	opener := func() (io.ReadCloser, error) {
		reader, writer := io.Pipe()
		go func() { writer.CloseWithError(i.writeLayer(l, writer)) }()
		return reader, nil
	}
	// Not compressed: the archive goes straight into a local image store.
	layer, err := tarball.LayerFromOpener(opener, tarball.WithCompressionLevel(gzip.NoCompression))
	if err != nil {
		return nil, fmt.Errorf("building the layer of image %s: %w", i.Name, err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, fmt.Errorf("building image %s: %w", i.Name, err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("building image %s: %w", i.Name, err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", runtime.GOARCH, v1.Time{Time: epoch}
	config.Config = i.Config
	config.Config.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	return mutate.ConfigFile(img, config)
}

func (i Image) writeLayer(l layout.Layout, out io.Writer) error {
	archive := tar.NewWriter(out)
	for _, dir := range i.directories() {
		mode := int64(0o755)
		if dir == "tmp" {
			mode = 0o1777
		}
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: mode, ModTime: epoch}); err != nil {
			return fmt.Errorf("writing directory %s: %w", dir, err)
		}
	}
	for _, account := range []struct{ path, content string }{{"/etc/group", group}, {"/etc/passwd", passwd}} {
		if err := writeFile(archive, account.path, 0o644, int64(len(account.content)), strings.NewReader(account.content)); err != nil {
			return err
		}
	}
	for _, f := range i.Files {
		if err := writeBinary(archive, l.Binary(f.Binary), f.Path); err != nil {
			return err
		}
	}
	return archive.Close()
}

// directories returns every directory of the image, parents first, without the leading slash.
func (i Image) directories() []string {
	dirs := []string{"etc", "tmp"}
	add := func(dir string) {
		for ; dir != "/"; dir = path.Dir(dir) {
			dirs = append(dirs, strings.TrimPrefix(dir, "/"))
		}
	}
	for _, dir := range i.Dirs {
		add(dir)
	}
	for _, f := range i.Files {
		add(path.Dir(f.Path))
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func writeBinary(archive *tar.Writer, source, target string) error {
	file, err := os.Open(source)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return writeFile(archive, target, 0o755, info.Size(), file)
}

func writeFile(archive *tar.Writer, target string, mode, size int64, content io.Reader) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(target, "/"), Mode: mode, Size: size, ModTime: epoch}
	if err := archive.WriteHeader(header); err != nil {
		return fmt.Errorf("writing header of %s: %w", target, err)
	}
	if _, err := io.Copy(archive, content); err != nil {
		return fmt.Errorf("writing %s: %w", target, err)
	}
	return nil
}
