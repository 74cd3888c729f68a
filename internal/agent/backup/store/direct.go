// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// pieceSize is how much is written to a file at once: with O_DIRECT, large writes are faster. Go allocates memory of
	// this size page-aligned, which O_DIRECT needs.
	pieceSize = 8 << 20
	// pieces in memory: one is filled while the other is written.
	pieces = 2
)

// directWriter writes a big file with O_DIRECT, in a goroutine of its own: the disk works while the content is read,
// compressed and verified, and little is left for Sync at the end. A database on the same machine keeps its pages in
// memory, and its own syncs do not wait for this file. It also takes less CPU.
type directWriter struct {
	file  *os.File
	piece []byte // being filled
	// full goes to the goroutine, and written comes back. Both are nil while the file is small.
	full    chan []byte
	written chan written
}

// written is a piece that can be refilled, and the first error.
type written struct {
	piece []byte
	err   error
}

func newDirectWriter(file *os.File) *directWriter {
	return &directWriter{file: file, piece: newPiece()}
}

func newPiece() []byte { return make([]byte, 0, pieceSize) }

// Write may return the error of an earlier piece.
func (d *directWriter) Write(p []byte) (int, error) {
	for n := 0; ; {
		taken := copy(d.piece[len(d.piece):cap(d.piece)], p[n:])
		d.piece, n = d.piece[:len(d.piece)+taken], n+taken
		if n == len(p) {
			return n, nil
		}
		if err := d.pass(); err != nil {
			return n, err
		}
	}
}

// pass hands over a full piece, and gets one to fill.
func (d *directWriter) pass() error {
	if d.full == nil {
		d.full, d.written = make(chan []byte), make(chan written, pieces)
		for range pieces - 1 {
			d.written <- written{piece: newPiece()}
		}
		go d.run()
	}
	d.full <- d.piece
	next := <-d.written
	d.piece = next.piece
	return next.err
}

// Close writes the rest, and ends the goroutine. It leaves the file open; call it before closing the file.
func (d *directWriter) Close() error {
	var failed error
	if d.full != nil {
		close(d.full)
		for w := range d.written {
			failed = w.err
		}
	}
	if failed != nil {
		return failed
	}
	_, err := d.file.Write(d.piece)
	return err
}

func (d *directWriter) run() {
	defer close(d.written)
	// The rest after the last piece has any length.
	defer d.bypass(false)
	d.bypass(true)
	var failed error
	for piece := range d.full {
		if failed == nil {
			failed = d.write(piece)
		}
		d.written <- written{piece[:0], failed}
	}
}

func (d *directWriter) write(piece []byte) error {
	n, err := d.file.Write(piece)
	if errors.Is(err, unix.EINVAL) {
		// The filesystem does not support O_DIRECT, or needs another alignment.
		d.bypass(false)
		_, err = d.file.Write(piece[n:])
	}
	return err
}

// bypass switches O_DIRECT on or off. Filesystems without support ignore it.
func (d *directWriter) bypass(on bool) {
	flags, err := unix.FcntlInt(d.file.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return
	}
	if flags &^= unix.O_DIRECT; on {
		flags |= unix.O_DIRECT
	}
	_, _ = unix.FcntlInt(d.file.Fd(), unix.F_SETFL, flags)
}
