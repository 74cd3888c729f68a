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
	// pieceSize is how much is written to a file at once: past the page cache, a disk is the faster the more it gets. Go
	// gives memory of this size an address that begins a page, as such writes want it, and they want whole pages.
	pieceSize = 8 << 20
	// pieces in memory: one is filled while the other is written.
	pieces = 2
)

// directWriter writes a big file past the page cache, in a goroutine of its own: the disk works from the beginning on,
// while the content is read, compressed and verified, and little is left to do for Sync at the end. A database that
// lives on the same machine keeps its pages in memory, and does not wait behind ours at its own Sync. It takes less of
// the processor, too.
type directWriter struct {
	file  *os.File
	piece []byte // being filled
	// full goes to the goroutine, and written comes back from there. They are nil as long as the file is small.
	full    chan []byte
	written chan written
}

// written is a piece that may be filled again, and the first error there was.
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

// pass passes a full piece on, and gets one to fill.
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

// Close writes what is left, and ends the goroutine. It leaves the file open, and has to be called before that is closed.
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
	// What follows the last piece has any length.
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
		// This filesystem cannot, or its disk wants more than whole pages.
		d.bypass(false)
		_, err = d.file.Write(piece[n:])
	}
	return err
}

// bypass has the next writes go past the page cache, or not. A filesystem that cannot do so goes on as it did.
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
