// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Command images builds the images of the operator and the agent with ko, for linux/amd64 and linux/arm64, on a base image
// that it makes itself, so that no registry is reached. The same sources make the same digests. It writes the images into an
// OCI layout or pushes them to a registry, in both cases with an SBOM (SPDX), and prints the name of each with its digest.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/ko/pkg/build"
	"github.com/google/ko/pkg/publish"
)

// module is the path of the Go module with the programs.
const module = "github.com/etcd-foreman/etcd-foreman"

// programs are those that run in clusters. Each has an image of its name.
var programs = []string{"etcd-foreman", "etcd-agent"}

type options struct {
	// root is the folder of the module.
	root string
	// version is the tag of the images, and what the programs call themselves.
	version string
	// push is the registry, with a prefix of repositories. Empty: the images are only written to out.
	push string
	// platforms to build for.
	platforms []string
	// out is a folder for the OCI layout and the SBOMs; cache is one for downloads.
	out, cache string
}

func main() {
	var o options
	flag.StringVar(&o.root, "root", "../..", "folder of the module "+module)
	flag.StringVar(&o.version, "version", "", "tag of the images, and version of the programs")
	flag.StringVar(&o.push, "push", "", "registry and prefix to push to, such as ghcr.io/etcd-foreman; empty: write an OCI layout")
	only := flag.String("platforms", strings.Join(allPlatforms(), ","), "platforms to build for")
	flag.StringVar(&o.out, "out", "../../.local/images", "folder for the OCI layout and the SBOMs")
	flag.StringVar(&o.cache, "cache", "../../.local/downloads", "folder for downloads")
	flag.Parse()
	o.platforms = strings.Split(*only, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	names, err := run(ctx, o)
	stop()
	fmt.Print(names)
	if err != nil {
		fmt.Fprintln(os.Stderr, "building the images:", err)
		os.Exit(1)
	}
}

// run builds the images and returns their names with tag and digest, one a line. It also writes them to images.txt.
func run(ctx context.Context, o options) (string, error) {
	if o.version == "" {
		return "", errors.New("--version is required")
	}
	roots, err := trusted(ctx, o.cache)
	if err != nil {
		return "", err
	}
	sboms := filepath.Join(o.out, "sbom")
	if err := errors.Join(os.RemoveAll(o.out), os.MkdirAll(sboms, 0o755)); err != nil {
		return "", fmt.Errorf("emptying %s: %w", o.out, err)
	}
	var names string
	for _, program := range programs {
		image, err := buildImage(ctx, o, program, roots, sboms)
		if err != nil {
			return names, fmt.Errorf("image %s: %w", program, err)
		}
		published, err := o.publish(ctx, image, program)
		if err != nil {
			return names, fmt.Errorf("publishing image %s: %w", program, err)
		}
		names += published + "\n"
	}
	return names, os.WriteFile(filepath.Join(o.out, "images.txt"), []byte(names), 0o644)
}

func trusted(ctx context.Context, cache string) ([]byte, error) {
	deb, err := rootsPackage.get(ctx, cache)
	if err != nil {
		return nil, err
	}
	return certificates(deb)
}

func buildImage(ctx context.Context, o options, program string, roots []byte, sboms string) (build.Result, error) {
	base, err := newBase(program, roots)
	if err != nil {
		return nil, err
	}
	baseName, err := name.NewTag("localhost/etcd-foreman/base:" + baseTag)
	if err != nil {
		return nil, err
	}
	builder, err := build.NewGo(ctx, o.root,
		build.WithBaseImages(func(context.Context, string) (name.Reference, build.Result, error) { return baseName, base, nil }),
		build.WithPlatforms(o.platforms...),
		build.WithTrimpath(true),
		build.WithLdflags([]string{"-s", "-w", "-X", module + "/internal/base/version.release=" + o.version}),
		build.WithCreationTime(v1.Time{Time: epoch}),
		build.WithUser(user),
		build.WithLabel("org.opencontainers.image.source", "https://"+module),
		build.WithLabel("org.opencontainers.image.version", o.version),
		build.WithLabel("org.opencontainers.image.licenses", "Apache-2.0"),
		build.WithSPDX(koVersion()),
		build.WithSBOMDir(sboms),
		// Two compilers at a time take more memory than they save time.
		build.WithJobs(1),
	)
	if err != nil {
		return nil, err
	}
	return builder.Build(ctx, build.StrictScheme+path.Join(module, "cmd", program))
}

func allPlatforms() []string {
	all := make([]string, 0, len(platforms))
	for _, p := range platforms {
		all = append(all, p.String())
	}
	return all
}

// koVersion is the version of ko, which an SBOM names as its creator.
func koVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == "github.com/google/ko" {
				return dependency.Version
			}
		}
	}
	return "unknown"
}

func (o options) publish(ctx context.Context, image build.Result, program string) (string, error) {
	digest, err := image.Digest()
	if err != nil {
		return "", err
	}
	published := fmt.Sprintf("%s:%s@%s", path.Join(o.push, program), o.version, digest)
	if o.push == "" {
		return published, writeLayout(filepath.Join(o.out, program), image)
	}
	publisher, err := publish.NewDefault(o.push,
		publish.WithNamer(func(base, importPath string) string { return path.Join(base, path.Base(importPath)) }),
		publish.WithTags([]string{o.version}),
		publish.WithAuthFromKeychain(authn.DefaultKeychain),
	)
	if err != nil {
		return "", err
	}
	if _, err := publisher.Publish(ctx, image, build.StrictScheme+path.Join(module, "cmd", program)); err != nil {
		return "", err
	}
	return published, publisher.Close()
}

// writeLayout writes an OCI layout. ko's own publisher fails where the path has capital letters.
func writeLayout(dir string, image build.Result) error {
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	switch image := image.(type) {
	case v1.ImageIndex:
		return to.AppendIndex(image)
	case v1.Image:
		return to.AppendImage(image)
	}
	return fmt.Errorf("%T is no image", image)
}
