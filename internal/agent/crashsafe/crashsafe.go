// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package crashsafe writes so that a crash loses nothing: after it, a folder is under its name with all of its content, or not
// at all, and a file that was written has its content.
package crashsafe

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
		return Sync(path)
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
	if err := Sync(filepath.Dir(to)); err != nil {
		return fmt.Errorf("writing the name %s to the disk: %w", to, err)
	}
	return nil
}

// WriteFile writes a file, and syncs its content and its name. After a crash before it returns, the file may have any part of the
// content.
func WriteFile(name string, content []byte) error {
	if err := os.WriteFile(name, content, 0o644); err != nil {
		return err
	}
	if err := errors.Join(Sync(name), Sync(filepath.Dir(name))); err != nil {
		return fmt.Errorf("writing %s to the disk: %w", name, err)
	}
	return nil
}

// Sync syncs a file, or a folder with the names in it.
func Sync(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
