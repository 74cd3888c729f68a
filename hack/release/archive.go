// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// entry is a file in an archive.
type entry struct {
	name    string
	content []byte
	mode    int64
}

// epoch is the time of everything in an archive. A zip archive knows none before 1980.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

func tarball(entries []entry) ([]byte, error) {
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	archive := tar.NewWriter(compressed)
	for _, e := range entries {
		header := tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: int64(len(e.content)), ModTime: epoch}
		if err := archive.WriteHeader(&header); err != nil {
			return nil, fmt.Errorf("adding %s: %w", e.name, err)
		}
		if _, err := archive.Write(e.content); err != nil {
			return nil, fmt.Errorf("adding %s: %w", e.name, err)
		}
	}
	err := errors.Join(archive.Close(), compressed.Close())
	return out.Bytes(), err
}

func zipped(entries []entry) ([]byte, error) {
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for _, e := range entries {
		header := zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: epoch}
		header.SetMode(fs.FileMode(e.mode))
		file, err := archive.CreateHeader(&header)
		if err != nil {
			return nil, fmt.Errorf("adding %s: %w", e.name, err)
		}
		if _, err := file.Write(e.content); err != nil {
			return nil, fmt.Errorf("adding %s: %w", e.name, err)
		}
	}
	err := archive.Close()
	return out.Bytes(), err
}
