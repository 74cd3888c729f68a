// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	module    = "github.com/etcd-foreman/etcd-foreman"
	plugin    = "kubectl-etcdtask"
	helper    = "kubectl_complete-etcdtask"
	downloads = "https://" + module + "/releases/download"
)

// platforms are those that the plugin is built for, as GOOS/GOARCH.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

// plugin writes an archive of the plugin for each platform, with its SBOM, and the manifest for Krew.
func (r *release) plugin(ctx context.Context) error {
	manifest, err := os.ReadFile("config/krew/etcdtask.yaml")
	if err != nil {
		return fmt.Errorf("reading the manifest for Krew: %w", err)
	}
	krew := strings.Replace(string(manifest), "VERSION", r.version, 1)
	for _, platform := range r.platforms {
		binary, err := r.build(ctx, platform)
		if err != nil {
			return err
		}
		sbom, err := spdx(binary, r.version, platform)
		if err != nil {
			return err
		}
		name, archive, err := pack(platform, binary)
		if err != nil {
			return err
		}
		if err := r.file(name, archive); err != nil {
			return err
		}
		if err := r.file(strings.TrimSuffix(strings.TrimSuffix(name, ".tar.gz"), ".zip")+".spdx.json", sbom); err != nil {
			return err
		}
		krew += krewPlatform(platform, downloads+"/"+r.version+"/"+name, sum(archive))
	}
	return r.file("etcdtask.yaml", []byte(krew))
}

func (r *release) build(ctx context.Context, platform string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "plugin-")
	if err != nil {
		return nil, fmt.Errorf("building the plugin: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	at := filepath.Join(dir, plugin)
	system, architecture, _ := strings.Cut(platform, "/")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w -X "+module+"/internal/base/version.release="+r.version, "-o", at, "./cmd/"+plugin)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+architecture)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the plugin for %s: %w\n%s", platform, err, out)
	}
	return os.ReadFile(at)
}

// executable is the name of the plugin on a platform.
func executable(platform string) string {
	if strings.HasPrefix(platform, "windows/") {
		return plugin + ".exe"
	}
	return plugin
}

// script is the name of the helper for completion on a platform. kubectl on Windows finds it by the extension.
func script(platform string) string {
	if strings.HasPrefix(platform, "windows/") {
		return helper + ".cmd"
	}
	return helper
}

// pack returns an archive with the plugin and the helper for completion, and its name.
func pack(platform string, binary []byte) (string, []byte, error) {
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return "", nil, fmt.Errorf("packing the plugin: %w", err)
	}
	completion, err := os.ReadFile(filepath.Join("cmd", plugin, script(platform)))
	if err != nil {
		return "", nil, fmt.Errorf("packing the plugin: %w", err)
	}
	name := "etcdtask_" + strings.ReplaceAll(platform, "/", "_")
	entries := []entry{{executable(platform), binary, 0o755}, {script(platform), completion, 0o755}, {"LICENSE", license, 0o644}}
	if strings.HasPrefix(platform, "windows/") {
		archive, err := zipped(entries)
		return name + ".zip", archive, err
	}
	archive, err := tarball(entries)
	return name + ".tar.gz", archive, err
}

func krewPlatform(platform, uri, checksum string) string {
	system, architecture, _ := strings.Cut(platform, "/")
	return fmt.Sprintf("  - selector:\n      matchLabels: {os: %s, arch: %s}\n    uri: %s\n    sha256: %s\n    bin: %s\n",
		system, architecture, uri, checksum, executable(platform))
}

// What an SPDX document contains of a Go program: https://spdx.github.io/spdx-spec/v2.3/.
type (
	document struct {
		Version       string         `json:"spdxVersion"`
		License       string         `json:"dataLicense"`
		ID            string         `json:"SPDXID"`
		Name          string         `json:"name"`
		Namespace     string         `json:"documentNamespace"`
		Creation      creation       `json:"creationInfo"`
		Packages      []software     `json:"packages"`
		Relationships []relationship `json:"relationships"`
	}
	creation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	software struct {
		ID               string      `json:"SPDXID"`
		Name             string      `json:"name"`
		Version          string      `json:"versionInfo,omitempty"`
		DownloadLocation string      `json:"downloadLocation"`
		FilesAnalyzed    bool        `json:"filesAnalyzed"`
		LicenseConcluded string      `json:"licenseConcluded"`
		LicenseDeclared  string      `json:"licenseDeclared"`
		Copyright        string      `json:"copyrightText"`
		Checksums        []checksum  `json:"checksums,omitempty"`
		References       []reference `json:"externalRefs,omitempty"`
	}
	checksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	reference struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	relationship struct {
		Element string `json:"spdxElementId"`
		Type    string `json:"relationshipType"`
		Related string `json:"relatedSpdxElement"`
	}
)

// spdx returns an SBOM of a Go program: the modules that the linker recorded in it.
func spdx(binary []byte, version, platform string) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return nil, fmt.Errorf("reading what the plugin consists of: %w", err)
	}
	const none, main = "NOASSERTION", "SPDXRef-" + plugin
	d := document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: plugin + "-" + version + "-" + platform,
		Namespace: "https://" + module + "/spdx/" + plugin + "-" + sum(binary),
		Creation:  creation{Created: epoch.Format("2006-01-02T15:04:05Z"), Creators: []string{"Tool: etcd-foreman-release"}},
		Packages: []software{{
			ID: main, Name: plugin, Version: version, DownloadLocation: downloads + "/" + version, LicenseConcluded: none, LicenseDeclared: "Apache-2.0", Copyright: none,
			Checksums: []checksum{{"SHA256", sum(binary)}},
		}},
		Relationships: []relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", main}},
	}
	add := func(path, version string) {
		id := fmt.Sprintf("SPDXRef-Module-%d", len(d.Packages))
		d.Packages = append(d.Packages, software{
			ID: id, Name: path, Version: version, DownloadLocation: none, LicenseConcluded: none, LicenseDeclared: none, Copyright: none,
			References: []reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + url.PathEscape(version)}},
		})
		d.Relationships = append(d.Relationships, relationship{main, "DEPENDS_ON", id})
	}
	add("stdlib", strings.TrimPrefix(info.GoVersion, "go"))
	for _, dependency := range info.Deps {
		if dependency.Replace != nil {
			dependency = dependency.Replace
		}
		add(dependency.Path, dependency.Version)
	}
	return json.MarshalIndent(d, "", "  ")
}
