// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package image says what is in the images of the local Kubernetes, writes them
// from built binaries, and brings them into the container runtime: there is no
// registry to pull from. It imports the standard library and its siblings
// atomic, config and layout only.
package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/atomic"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/config"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
)

// Image is one image, made of binaries that are built already.
type Image struct {
	Name  string
	Files []File
	Flags []string // of the image writer, see test/tools/image
}

// File is a binary and its place in an image.
type File struct {
	Binary string
	Path   string
}

// The images.
var (
	Pause = Image{
		Name:  config.PauseImage,
		Files: []File{{"pause", "/pause"}},
		Flags: []string{"-entrypoint=/pause", "-user=65535:65535"},
	}
	// Etcd is laid out as etcd's own image: command and all, and run as root
	// unless the pod says otherwise.
	Etcd = Image{
		Name: "localhost/etcd:v3.6.8",
		Files: []File{
			{"etcd", "/usr/local/bin/etcd"}, {"etcdctl", "/usr/local/bin/etcdctl"}, {"etcdutl", "/usr/local/bin/etcdutl"},
		},
		Flags: []string{"-cmd=/usr/local/bin/etcd", "-user=", "-workdir=/var/lib/etcd", "-dir=/var/etcd", "-dir=/var/lib/etcd"},
	}
	Operator = Image{
		Name:  "localhost/etcd-foreman:dev",
		Files: []File{{"etcd-foreman", "/etcd-foreman"}},
		Flags: []string{"-entrypoint=/etcd-foreman"},
	}
	Agent = Image{
		Name:  "localhost/etcd-agent:dev",
		Files: []File{{"etcd-agent", "/etcd-agent"}},
		Flags: []string{"-entrypoint=/etcd-agent"},
	}
)

// Import brings an image into the container runtime and tells whether it was
// another one, or none, before.
func Import(ctx context.Context, l layout.Layout, image Image) (bool, error) {
	digest, err := image.digest(l)
	if err != nil {
		return false, fmt.Errorf("comparing image %s: %w", image.Name, err)
	}
	record := filepath.Join(layout.Images, strings.NewReplacer("/", "_", ":", "_").Replace(image.Name))
	if before, err := os.ReadFile(record); err == nil && string(before) == digest {
		return false, nil
	}
	ctr := exec.CommandContext(ctx, "ctr", "--address", layout.ContainerdSocket, "--namespace", "k8s.io", "images", "import", "-")
	if err := image.stream(ctx, l, ctr); err != nil {
		return false, fmt.Errorf("importing image %s: %w", image.Name, err)
	}
	if err := os.MkdirAll(layout.Images, 0o755); err != nil {
		return false, fmt.Errorf("noting the import of image %s: %w", image.Name, err)
	}
	return true, atomic.WriteFile(record, []byte(digest), 0o644)
}

// Write writes an image as a docker archive.
func Write(ctx context.Context, l layout.Layout, image Image, path string) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing image %s: %w", image.Name, err)
	}
	writer := image.writer(ctx, l)
	writer.Stdout = file
	err = runQuietly(writer)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing image %s: %w", image.Name, err)
	}
	return nil
}

// writer returns the command that writes the archive to its standard output.
func (i Image) writer(ctx context.Context, l layout.Layout) *exec.Cmd {
	args := append([]string{"-name=" + i.Name}, i.Flags...)
	for _, file := range i.Files {
		args = append(args, l.Binary(file.Binary)+"="+file.Path)
	}
	return exec.CommandContext(ctx, l.Binary("image"), args...)
}

// stream pipes the archive into another command.
func (i Image) stream(ctx context.Context, l layout.Layout, into *exec.Cmd) error {
	writer := i.writer(ctx, l)
	archive, err := writer.StdoutPipe()
	if err != nil {
		return err
	}
	var writerSaid strings.Builder
	writer.Stderr = &writerSaid
	if err := writer.Start(); err != nil {
		return err
	}
	into.Stdin = archive
	err = runQuietly(into)
	_ = archive.Close() // else a writer whose reader failed would wait for ever
	if writerErr := writer.Wait(); writerErr != nil && err == nil {
		err = fmt.Errorf("%s: %w: %s", writer.Path, writerErr, writerSaid.String())
	}
	return err
}

// runQuietly runs a command and keeps what it says for the error.
func runQuietly(cmd *exec.Cmd) error {
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", cmd.Path, err, strings.TrimSpace(said.String()))
	}
	return nil
}

// digest tells apart images that differ in anything.
func (i Image) digest(l layout.Layout) (string, error) {
	digest := sha256.New()
	_, _ = fmt.Fprintf(digest, "%q", i)
	for _, file := range i.Files {
		binary, err := os.Open(l.Binary(file.Binary))
		if err != nil {
			return "", err
		}
		_, err = io.Copy(digest, binary)
		_ = binary.Close()
		if err != nil {
			return "", fmt.Errorf("reading %s: %w", file.Binary, err)
		}
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}
