// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package durable renames folders so that a crash loses nothing: after it, a folder is under its name with all of its
// content, or not at all.
package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Publish syncs the content of a folder, renames the folder, and syncs the name.
func Publish(from, to string) error {
	err := filepath.WalkDir(from, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return sync(path)
	})
	if err != nil {
		return fmt.Errorf("writing %s to the disk: %w", from, err)
	}
	return Rename(from, to)
}

// Rename renames a folder within a volume, and syncs the name.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if err := sync(filepath.Dir(to)); err != nil {
		return fmt.Errorf("writing the name %s to the disk: %w", to, err)
	}
	return nil
}

func sync(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
