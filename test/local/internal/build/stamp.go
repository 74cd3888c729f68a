// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// stamp digests everything that a pinned binary is built from.
func stamp(root string, binary Binary, linkerFlags string) (string, error) {
	digest := sha256.New()
	// NUL-terminated, so that no two lists of inputs look alike.
	add := func(parts ...string) {
		for _, part := range parts {
			_, _ = fmt.Fprintf(digest, "%d %s\x00", len(part), part)
		}
	}
	add(runtime.Version(), runtime.GOOS, runtime.GOARCH, binary.Package, linkerFlags)
	module := filepath.Join(root, binary.Module)
	files := []string{filepath.Join(module, "go.mod"), filepath.Join(module, "go.sum")}
	if strings.HasPrefix(binary.Package, "./") {
		sources, err := sourceFiles(filepath.Join(module, binary.Package))
		if err != nil {
			return "", err
		}
		files = append(files, sources...)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("reading an input of %s: %w", binary.Name, err)
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return "", fmt.Errorf("naming an input of %s: %w", binary.Name, err)
		}
		add(name, string(content))
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

// sourceFiles returns the files of a folder and below, in lexical order.
func sourceFiles(dir string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing sources: %w", err)
	}
	return files, nil
}

// current reports whether a binary exists and was built under the given stamp.
func current(binaryPath, stampPath, want string) (bool, error) {
	got, err := os.ReadFile(stampPath)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading stamp: %w", err)
	}
	if string(got) != want {
		return false, nil
	}
	info, err := os.Stat(binaryPath)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the binary: %w", err)
	}
	return info.Mode().IsRegular(), nil
}
