// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// epoch is the time of everything in an image: the same sources make the same image.
var epoch = time.Unix(0, 0).UTC()

// user is who the images run as.
const user = "65532:65532"

// platforms are those that the images are built for.
var platforms = []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}}

// newBase returns the base image of a program, for all platforms: users, roots of trust, a folder for temporary files, and the
// program's path, which Etcds name and ko does not: a link to where ko puts it. There is no shell and no C library.
func newBase(program string, roots []byte) (v1.ImageIndex, error) {
	archive, err := baseArchive(program, roots)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("building the layer of the base image: %w", err)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, platform := range platforms {
		image, err := baseImage(layer, platform)
		if err != nil {
			return nil, fmt.Errorf("building the base image for %s: %w", platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &platform}})
	}
	return index, nil
}

func baseImage(layer v1.Layer, platform v1.Platform) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "hack/images"}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = platform.OS, platform.Architecture, v1.Time{Time: epoch}
	config.Config = v1.Config{User: user, Env: []string{"PATH=/"}}
	return mutate.ConfigFile(image, config)
}

func baseArchive(program string, roots []byte) ([]byte, error) {
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for _, dir := range []struct {
		name string
		mode int64
	}{{"etc/", 0o755}, {"etc/ssl/", 0o755}, {"etc/ssl/certs/", 0o755}, {"tmp/", 0o1777}} {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir.name, Mode: dir.mode, ModTime: epoch}); err != nil {
			return nil, fmt.Errorf("writing folder %s: %w", dir.name, err)
		}
	}
	for _, file := range []struct{ name, content string }{
		{"etc/group", "root:x:0:\nnonroot:x:65532:\n"},
		{"etc/passwd", "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"},
		{"etc/ssl/certs/ca-certificates.crt", string(roots)},
	} {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: file.name, Mode: 0o644, Size: int64(len(file.content)), ModTime: epoch}); err != nil {
			return nil, fmt.Errorf("writing file %s: %w", file.name, err)
		}
		if _, err := io.Copy(archive, strings.NewReader(file.content)); err != nil {
			return nil, fmt.Errorf("writing file %s: %w", file.name, err)
		}
	}
	link := tar.Header{Typeflag: tar.TypeSymlink, Name: program, Linkname: "/ko-app/" + program, Mode: 0o777, ModTime: epoch}
	if err := archive.WriteHeader(&link); err != nil {
		return nil, fmt.Errorf("writing link %s: %w", program, err)
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("writing the base image: %w", err)
	}
	return out.Bytes(), nil
}
