// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package docs_test checks the documentation.
package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced  = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	// dropped is what a forge leaves out of an anchor.
	dropped = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// TestLinks checks that every link within the tree leads to a file, and to a heading if it names one.
func TestLinks(t *testing.T) {
	const root = "../.."
	links := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != root {
			return filepath.SkipDir
		}
		// api.md is generated, and has patterns that look like links.
		if entry.IsDir() || filepath.Ext(path) != ".md" || entry.Name() == "api.md" {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, match := range link.FindAllStringSubmatch(fenced.ReplaceAllString(string(content), ""), -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			links++
			if err := resolve(path, match[1]); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if links < 300 {
		t.Errorf("found %d links", links)
	}
}

func resolve(from, target string) error {
	file, anchor, _ := strings.Cut(target, "#")
	path := from
	if file != "" {
		path = filepath.Join(filepath.Dir(from), file)
	}
	content, err := os.ReadFile(path)
	if info, statErr := os.Stat(path); statErr == nil && info.IsDir() && anchor == "" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("link %s: %w", target, err)
	}
	if anchor == "" || filepath.Ext(path) != ".md" {
		return nil
	}
	for _, match := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(string(content), ""), -1) {
		if slug(match[1]) == anchor {
			return nil
		}
	}
	return fmt.Errorf("link %s: no such heading", target)
}

func slug(heading string) string {
	return strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

func TestSlug(t *testing.T) {
	for heading, want := range map[string]string{"When `prepare` waits": "when-prepare-waits", "Install, upgrade, uninstall": "install-upgrade-uninstall"} {
		if got := slug(heading); got != want {
			t.Errorf("slug(%q) = %q, want %q", heading, got, want)
		}
	}
}

// The taint lets Kubernetes start a second process on the volumes of a node, so the first one must be gone for sure.
func TestNodesArePoweredOffBeforeTheyAreTainted(t *testing.T) {
	const root, taint = "../..", "node.kubernetes.io/out-of-service"
	found := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && path != root || entry.Name() == "adr") {
			return filepath.SkipDir
		}
		if ext := filepath.Ext(path); entry.IsDir() || ext != ".md" && ext != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for n, line := range strings.Split(string(content), "\n") {
			before, _, advised := strings.Cut(line, taint)
			if !advised {
				continue
			}
			found++
			if !strings.Contains(strings.ToLower(before), "power off") {
				t.Errorf("%s:%d advises the taint before the machine is powered off: %s", path, n+1, strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 5 {
		t.Errorf("found %d lines", found)
	}
}
