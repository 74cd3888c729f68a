// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// developers is the registry, with its prefix, that config/ and the chart name, and tag the tag of images there.
const (
	developers = "ghcr.io/etcd-foreman"
	tag        = "dev"
)

// kustomizations are the manifests of a release.
var kustomizations = map[string]string{
	"install.yaml":         "config/default",
	"executor.yaml":        "config/executor/webhook",
	"executor-policy.yaml": "config/executor/policy",
}

func (r *release) manifests() error {
	for name, folder := range kustomizations {
		resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
		if err != nil {
			return fmt.Errorf("rendering %s: %w", folder, err)
		}
		manifest, err := resources.AsYaml()
		if err != nil {
			return fmt.Errorf("rendering %s: %w", folder, err)
		}
		pinned, err := r.pinned(string(manifest))
		if err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
		if err := r.file(name, []byte(pinned)); err != nil {
			return err
		}
	}
	return nil
}

// floating finds images that are named without a version.
var floating = regexp.MustCompile(`:latest\b|:dev\b`)

// pinned returns a manifest in which the images of the project have tag and digest.
func (r *release) pinned(manifest string) (string, error) {
	for _, program := range programs {
		from := developers + "/" + program + ":" + tag
		if program == operator && !strings.Contains(manifest, from) {
			return "", fmt.Errorf("image %s is not named", from)
		}
		manifest = strings.ReplaceAll(manifest, from, r.registry+"/"+program+":"+r.version+"@"+r.digests[program])
	}
	if found := floating.FindString(manifest); found != "" {
		return "", fmt.Errorf("an image is named with tag %s", found)
	}
	return manifest, nil
}

const chartFolder = "charts/etcd-foreman"

// chart packages the chart. Helm does the same, with the time of day in it.
func (r *release) chart() error {
	var entries []entry
	err := filepath.WalkDir(chartFolder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		within, err := filepath.Rel(filepath.Dir(chartFolder), path)
		if err != nil {
			return err
		}
		if content, err = r.chartFile(d.Name(), content); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		entries = append(entries, entry{name: filepath.ToSlash(within), content: content, mode: 0o644})
		return nil
	})
	if err != nil {
		return fmt.Errorf("packaging the chart: %w", err)
	}
	archive, err := tarball(append(entries, r.digestFile()))
	if err != nil {
		return fmt.Errorf("packaging the chart: %w", err)
	}
	return r.file("etcd-foreman-"+strings.TrimPrefix(r.version, "v")+".tgz", archive)
}

// chartFile returns a file of the chart as it is in the release: with its version and registry.
func (r *release) chartFile(name string, content []byte) ([]byte, error) {
	var changes [][2]string
	switch name {
	case "Chart.yaml":
		changes = [][2]string{{"\nversion: 0.0.0-dev\n", "\nversion: " + strings.TrimPrefix(r.version, "v") + "\n"}, {"\nappVersion: " + tag + "\n", "\nappVersion: " + r.version + "\n"}}
	case "values.yaml":
		changes = [][2]string{{"\n  registry: " + developers + "\n", "\n  registry: " + r.registry + "\n"}}
	}
	for _, change := range changes {
		if bytes.Count(content, []byte(change[0])) != 1 {
			return nil, fmt.Errorf("%q is not in it once", change[0])
		}
		content = bytes.Replace(content, []byte(change[0]), []byte(change[1]), 1)
	}
	return content, nil
}

// digestFile has the digests of the images, for the chart.
func (r *release) digestFile() entry {
	var content strings.Builder
	for _, program := range programs {
		fmt.Fprintf(&content, "%s: %s\n", program, r.digests[program])
	}
	return entry{name: "etcd-foreman/files/digests.yaml", content: []byte(content.String()), mode: 0o644}
}
