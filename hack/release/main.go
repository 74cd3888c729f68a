// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Command release writes what a release consists of, except for the images, which hack/images builds: manifests and a chart that
// name these images with tag and digest, archives of the plugin, a manifest for Krew, SBOMs, notes and checksums. The same sources
// make the same files.
//
//	go run ./hack/release -version v0.1.0 -images .local/images
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

type release struct {
	// version is that of the release, such as v0.1.0.
	version string
	// registry and prefix that the images are pulled from.
	registry string
	// images is the folder that hack/images has written; out is the folder for the release.
	images, out string
	// platforms that the plugin is built for, as GOOS/GOARCH.
	platforms []string
	// digests are those of the images, by name.
	digests map[string]string
}

func main() {
	var r release
	flag.StringVar(&r.version, "version", "", "version of the release, such as v0.1.0")
	flag.StringVar(&r.registry, "registry", developers, "registry and prefix that the images are pulled from")
	flag.StringVar(&r.images, "images", ".local/images", "folder that hack/images has written")
	flag.StringVar(&r.out, "out", "dist", "folder for the release; it is emptied first")
	only := flag.String("platforms", strings.Join(platforms, ","), "platforms that the plugin is built for")
	flag.Parse()
	r.platforms = strings.Split(*only, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := r.write(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "writing the release:", err)
		os.Exit(1)
	}
}

// versions are those of a release: semantic, with a leading v, as Go and the chart need them.
var versions = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

func (r *release) write(ctx context.Context) error {
	if !versions.MatchString(r.version) {
		return fmt.Errorf("%q is no version of a release: use one such as v0.1.0", r.version)
	}
	list, err := os.ReadFile(filepath.Join(r.images, "images.txt"))
	if err != nil {
		return fmt.Errorf("reading the digests of the images (make images writes them): %w", err)
	}
	if r.digests, err = digests(string(list), r.version); err != nil {
		return err
	}
	changelog, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return fmt.Errorf("reading the notes: %w", err)
	}
	about, err := notes(string(changelog), r.version)
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(r.out), os.MkdirAll(r.out, 0o755)); err != nil {
		return fmt.Errorf("emptying %s: %w", r.out, err)
	}
	return errors.Join(
		r.file("notes.md", []byte(about)),
		r.manifests(),
		r.chart(),
		r.plugin(ctx),
		r.imageSBOMs(),
		r.checksums(),
	)
}

func (r *release) file(name string, content []byte) error {
	if err := os.WriteFile(filepath.Join(r.out, name), content, 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// operator is the program that every installation has.
const operator = "etcd-foreman"

// programs have images.
var programs = []string{operator, "etcd-agent"}

// digests reads the list that hack/images prints: a line REPOSITORY:TAG@DIGEST for each image.
func digests(list, version string) (map[string]string, error) {
	found := map[string]string{}
	for line := range strings.Lines(list) {
		image, digest, _ := strings.Cut(strings.TrimSpace(line), "@")
		at := strings.LastIndex(image, ":")
		if at < 0 || !strings.HasPrefix(digest, "sha256:") {
			return nil, fmt.Errorf("%q is no image with tag and digest", strings.TrimSpace(line))
		}
		if tag := image[at+1:]; tag != version {
			return nil, fmt.Errorf("image %s is of version %s instead of %s: run make images VERSION=%s", image, tag, version, version)
		}
		found[image[strings.LastIndex(image[:at], "/")+1:at]] = digest
	}
	for _, program := range programs {
		if found[program] == "" {
			return nil, fmt.Errorf("image %s is missing", program)
		}
	}
	return found, nil
}

// notes returns the section of a version in the changelog, or, of a version that has none yet, that of what is unreleased.
func notes(changelog, version string) (string, error) {
	for _, heading := range []string{"## " + version, "## Unreleased"} {
		_, rest, found := strings.Cut("\n"+changelog, "\n"+heading+"\n")
		if !found {
			continue
		}
		section, _, _ := strings.Cut(rest, "\n## ")
		if section = strings.TrimSpace(section); section != "" {
			return "# etcd-foreman " + version + "\n\n" + section + "\n", nil
		}
	}
	return "", fmt.Errorf("CHANGELOG.md says nothing of %s: add a section \"## %s\"", version, version)
}

func (r *release) imageSBOMs() error {
	found, err := filepath.Glob(filepath.Join(r.images, "sbom", "*.json"))
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("there are no SBOMs of images in %s", r.images)
	}
	for _, path := range found {
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading an SBOM: %w", err)
		}
		if err := r.file("image-"+filepath.Base(path), data); err != nil {
			return err
		}
	}
	return nil
}

// checksums writes those of all files, in the format of sha256sum.
func (r *release) checksums() error {
	var lines []string
	err := filepath.WalkDir(r.out, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		lines = append(lines, sum(data)+"  "+filepath.Base(path)+"\n")
		return nil
	})
	if err != nil {
		return fmt.Errorf("computing checksums: %w", err)
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[66:], b[66:]) })
	return r.file("SHA256SUMS", []byte(strings.Join(lines, "")))
}
