// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"compress/gzip"
	"compress/lzw"
	"compress/zlib"
	"fmt"
	"io"
)

// Compression of an object.
type Compression string

// The compressions.
const (
	None Compression = "none"
	Gzip Compression = "gzip"
	LZW  Compression = "lzw"
	Zlib Compression = "zlib"
)

var suffixes = map[Compression]string{None: "", Gzip: ".gz", LZW: ".Z", Zlib: ".zlib"}

// suffix of the names of objects with this compression.
func (c Compression) suffix() string { return suffixes[c] }

// Valid reports whether the compression is supported.
func (c Compression) Valid() bool {
	_, ok := suffixes[c]
	return ok
}

func compressionOf(suffix string) Compression {
	for c, s := range suffixes {
		if s == suffix {
			return c
		}
	}
	return None
}

// lzwWidth is the width of a literal, in bits.
const lzwWidth = 8

// compressor compresses into w. Closing it flushes it and leaves w open.
func (c Compression) compressor(w io.Writer) io.WriteCloser {
	switch c {
	case Gzip:
		return gzip.NewWriter(w)
	case LZW:
		return lzw.NewWriter(w, lzw.LSB, lzwWidth)
	case Zlib:
		return zlib.NewWriter(w)
	default:
		return uncompressed{w}
	}
}

// decompressor reads what was compressed.
func (c Compression) decompressor(r io.Reader) (io.Reader, error) {
	switch c {
	case Gzip:
		return gzip.NewReader(r)
	case LZW:
		return lzw.NewReader(r, lzw.LSB, lzwWidth), nil
	case Zlib:
		return zlib.NewReader(r)
	case None:
		return r, nil
	default:
		return nil, fmt.Errorf("there is no compression %q", c)
	}
}

type uncompressed struct{ io.Writer }

func (uncompressed) Close() error { return nil }
