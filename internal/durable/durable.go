// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package durable gives folders names that survive a crash: a folder is under its name with all its content, or it
// is not there.
package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Publish moves a folder to its name once its content is on the disk, and then the name.
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

// Rename gives a folder another name, on the same volume.
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
