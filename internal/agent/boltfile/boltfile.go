// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package boltfile checks that the pages of a bbolt database are consistent, before bbolt maps the file into memory and
// trusts it. bbolt expects files that it has written itself: on others it panics in goroutines whose panics cannot be recovered,
// reads beyond the end of the file, or follows a page that refers to itself until memory runs out.
//
// The check compares every offset in a page with the size of the page, and visits each page once, so its time and memory
// depend only on the size of the file: one bit for each page. It imports the standard library only.
package boltfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// What bbolt writes: see its internal/common.
const (
	magic, version = 0xED0CDAED, 2
	pageHeader     = 16
	elementSize    = 16
	metaSize       = 64
	bucketHeader   = 16
	bucketFlag     = 1
	noFreelist     = ^uint64(0)

	branchPage, leafPage, freelistPage = 0x01, 0x02, 0x10

	minPageSize, maxPageSize = 1 << 10, 1 << 16
	// bufferSize is what bbolt reads of the first page, and maxSecondMeta where it looks last for the second.
	bufferSize, maxSecondMeta = 1 << 12, 1 << 24
	// maxSpan bounds a page in memory, with its overflow pages.
	maxSpan = 128 << 20
	// maxBranch bounds a branch page, which is held while its children are checked; maxLevels is how many there may be
	// above a leaf.
	maxBranch, maxLevels = 4 << 20, 32
	// maxDepth bounds how deep buckets are nested. etcd has one level.
	maxDepth = 8
)

// Check returns an error if the pages of a database are inconsistent; nil if bbolt can open it.
func Check(path string) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return check(file, info.Size())
}

func check(file io.ReaderAt, size int64) error {
	m, err := readMeta(file, size)
	if err != nil {
		return err
	}
	c := &checker{file: file, meta: m, seen: make([]uint64, m.end/64+1)}
	c.mark(0)
	c.mark(1)
	if err := c.freelist(); err != nil {
		return err
	}
	return c.tree(m.root)
}

// meta is the newest meta page, from which everything else is found.
type meta struct {
	pageSize       uint64
	root, freelist uint64
	end, txid      uint64
}

// readMeta returns the meta page that bbolt uses. It must be the same one: a page that only this check considers a meta page
// would show it another database than the one that bbolt opens.
func readMeta(file io.ReaderAt, size int64) (meta, error) {
	pageSize, err := pageSizeOf(file, size)
	if err != nil {
		return meta{}, err
	}
	var best meta
	for _, at := range []int64{0, int64(pageSize)} {
		m, ok, err := metaAt(file, size, at)
		switch {
		case err != nil:
			return meta{}, err
		case !ok:
			continue
		case m.pageSize != pageSize:
			return meta{}, fmt.Errorf("invalid database: its meta pages say that a page has %d and %d bytes", pageSize, m.pageSize)
		case best.pageSize == 0 || m.txid > best.txid:
			best = m
		}
	}
	switch {
	case best.pageSize == 0:
		return meta{}, errNoMeta
	case best.end < 3 || best.end > uint64(size)/best.pageSize:
		return meta{}, fmt.Errorf("it ends at page %d, and the file has %d", best.end, uint64(size)/best.pageSize)
	}
	return best, nil
}

var errNoMeta = errors.New("invalid database: it has no valid meta page")

// pageSizeOf returns the page size as bbolt finds it (getPageSize in its db.go): from the page at the beginning if that is a
// valid meta page, and otherwise from the first valid one where a second page may be.
func pageSizeOf(file io.ReaderAt, size int64) (uint64, error) {
	if size < bufferSize {
		return 0, errNoMeta
	}
	for at := int64(0); at == 0 || at <= maxSecondMeta && at < size-minPageSize; at = max(2*at, minPageSize) {
		m, ok, err := metaAt(file, size, at)
		switch {
		case err != nil:
			return 0, err
		case !ok:
			continue
		case m.pageSize < minPageSize || m.pageSize > maxPageSize || m.pageSize&(m.pageSize-1) != 0:
			return 0, fmt.Errorf("invalid database: its meta page says that a page has %d bytes", m.pageSize)
		}
		return m.pageSize, nil
	}
	return 0, errNoMeta
}

// metaAt reads the page at an offset, and reports whether it is a valid meta page.
func metaAt(file io.ReaderAt, size, at int64) (meta, bool, error) {
	if at+pageHeader+metaSize > size {
		return meta{}, false, nil
	}
	data := make([]byte, metaSize)
	if _, err := file.ReadAt(data, at+pageHeader); err != nil {
		return meta{}, false, fmt.Errorf("reading a meta page: %w", err)
	}
	m, ok := parseMeta(data)
	return m, ok, nil
}

func parseMeta(data []byte) (meta, bool) {
	u32, u64 := binary.LittleEndian.Uint32, binary.LittleEndian.Uint64
	hash := fnv.New64a()
	// A hash never fails to write.
	_, _ = hash.Write(data[:metaSize-8])
	m := meta{pageSize: uint64(u32(data[8:])), root: u64(data[16:]), freelist: u64(data[32:]), end: u64(data[40:]), txid: u64(data[48:])}
	return m, u32(data) == magic && u32(data[4:]) == version && u64(data[56:]) == hash.Sum64()
}

// checker checks the pages of a database.
type checker struct {
	meta
	file io.ReaderAt
	// seen has a bit for each page that was visited or is free.
	seen []uint64
}

// mark marks a page as seen, and reports whether it was not seen before.
func (c *checker) mark(page uint64) bool {
	bit := uint64(1) << (page % 64)
	was := c.seen[page/64] & bit
	c.seen[page/64] |= bit
	return was == 0
}

// page is a page with its overflow pages.
type page struct {
	id           uint64
	flags, count uint16
	// data follows the header.
	data []byte
}

// read reads a page that has not been seen before.
func (c *checker) read(id uint64) (page, error) {
	if id < 2 || id >= c.end {
		return page{}, fmt.Errorf("page %d is beyond its %d pages", id, c.end)
	}
	head := make([]byte, pageHeader)
	at := int64(id * c.pageSize)
	if _, err := c.file.ReadAt(head, at); err != nil {
		return page{}, fmt.Errorf("reading page %d: %w", id, err)
	}
	pages := 1 + uint64(binary.LittleEndian.Uint32(head[12:]))
	if said := binary.LittleEndian.Uint64(head); said != id {
		return page{}, fmt.Errorf("page %d claims to be page %d", id, said)
	}
	// A list of free pages has at most one number for each page: its size is bounded by that of the file.
	if pages > c.end-id || pages*c.pageSize > max(maxSpan, 8*c.end+c.pageSize) {
		return page{}, fmt.Errorf("page %d spans %d pages", id, pages)
	}
	for p := id; p < id+pages; p++ {
		if !c.mark(p) {
			return page{}, fmt.Errorf("page %d is used twice or is free", p)
		}
	}
	data := make([]byte, pages*c.pageSize-pageHeader)
	if _, err := c.file.ReadAt(data, at+pageHeader); err != nil {
		return page{}, fmt.Errorf("reading page %d: %w", id, err)
	}
	return page{id: id, flags: binary.LittleEndian.Uint16(head[8:]), count: binary.LittleEndian.Uint16(head[10:]), data: data}, nil
}
