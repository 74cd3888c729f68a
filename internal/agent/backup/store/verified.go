// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
)

// verified is the object of a signed snapshot. It returns io.EOF only if the content is what was signed.
type verified struct {
	io.ReadCloser
	name string
	want string // SHA-256
	left int64  // how many bytes may follow
	hash hash.Hash
}

func newVerified(object io.ReadCloser, snapshot backup.Snapshot) io.ReadCloser {
	if snapshot.Proof == nil {
		return object
	}
	return &verified{ReadCloser: object, name: snapshot.Name(), want: snapshot.Proof.SHA256, left: snapshot.Size, hash: sha256.New()}
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	v.hash.Write(p[:n])
	v.left -= int64(n)
	if v.left < 0 || errors.Is(err, io.EOF) && hex.EncodeToString(v.hash.Sum(nil)) != v.want {
		return n, &backup.CorruptError{Name: v.name, Reason: "its content is not what was signed"}
	}
	return n, err
}
