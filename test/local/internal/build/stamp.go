// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/mod/sumdb/dirhash"
)

// stamp returns everything that a pinned binary is built from.
func stamp(root string, binary Binary, linkerFlags string) (string, error) {
	module := filepath.Join(root, binary.Module)
	files := []string{"go.mod", "go.sum"}
	if strings.HasPrefix(binary.Package, "./") {
		sources, err := dirhash.DirFiles(filepath.Join(module, binary.Package), binary.Package)
		if err != nil {
			return "", fmt.Errorf("listing the sources of %s: %w", binary.Name, err)
		}
		files = append(files, sources...)
	}
	digest, err := dirhash.Hash1(files, func(name string) (io.ReadCloser, error) { return os.Open(filepath.Join(module, name)) })
	if err != nil {
		return "", fmt.Errorf("digesting the sources of %s: %w", binary.Name, err)
	}
	return strings.Join([]string{runtime.Version(), runtime.GOOS, runtime.GOARCH, binary.Package, linkerFlags, digest, ""}, "\n"), nil
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
