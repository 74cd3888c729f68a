// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// freelist checks the list of free pages, if there is one, and marks them: nothing may refer to them.
func (c *checker) freelist() error {
	if c.meta.freelist == noFreelist {
		return nil
	}
	p, err := c.read(c.meta.freelist)
	if err != nil {
		return fmt.Errorf("the free pages: %w", err)
	}
	count, ids := uint64(p.count), p.data
	if p.count == 0xFFFF { // the count overflowed into the data
		if len(ids) < 8 {
			return errors.New("the free pages: their number is missing")
		}
		count, ids = binary.LittleEndian.Uint64(ids), ids[8:]
	}
	if p.flags != freelistPage || count > uint64(len(ids))/8 {
		return fmt.Errorf("the free pages: page %d is not a list of %d pages", p.id, count)
	}
	for last := uint64(1); count > 0; count, ids = count-1, ids[8:] {
		id := binary.LittleEndian.Uint64(ids)
		if id <= last || id >= c.end || !c.mark(id) {
			return fmt.Errorf("the free pages: page %d is out of order, or in use", id)
		}
		last = id
	}
	return nil
}

// visit is a page to check.
type visit struct {
	page uint64
	// depth is the number of enclosing buckets, level the number of branches above it in its bucket.
	depth, level int
	// from (inclusive) and to (exclusive) bound its keys; nil for no bound.
	from, to []byte
}

// holds reports whether a key is where it belongs.
func (v visit) holds(key []byte) bool {
	return (v.from == nil || bytes.Compare(key, v.from) >= 0) && (v.to == nil || bytes.Compare(key, v.to) < 0)
}

// errOrder is returned if a search would miss keys.
var errOrder = errors.New("its keys are out of order")

// tree checks all pages of a bucket and of the buckets in it. Pages to visit are kept in a list, which is bounded because a
// page that was marked is not read again.
func (c *checker) tree(root uint64) error {
	next := []visit{{page: root, depth: 1}}
	for len(next) > 0 {
		v := next[len(next)-1]
		next = next[:len(next)-1]
		p, err := c.read(v.page)
		if err != nil {
			return err
		}
		switch p.flags {
		case branchPage:
			next, err = c.branch(p, v, next)
		case leafPage:
			next, err = c.leaf(p.data, int(p.count), v, next)
		default:
			err = errors.New("it is neither a branch nor a leaf")
		}
		if err != nil {
			return fmt.Errorf("page %d: %w", p.id, err)
		}
		if uint64(len(next)) > c.end {
			return errors.New("a page is referenced more than once")
		}
	}
	return nil
}

// branch checks a branch page, and adds its children to the list.
func (c *checker) branch(p page, v visit, next []visit) ([]visit, error) {
	if p.count == 0 || len(p.data) > maxBranch || v.level >= maxLevels {
		return nil, errors.New("a branch is empty, too large or too deep")
	}
	var last []byte
	for i := range int(p.count) {
		e, err := element(p.data, i, int(p.count))
		if err != nil {
			return nil, err
		}
		key, _, err := slices(p.data, i, binary.LittleEndian.Uint32(e), binary.LittleEndian.Uint32(e[4:]), 0)
		if err != nil {
			return nil, err
		}
		if i > 0 && bytes.Compare(last, key) >= 0 || !v.holds(key) {
			return nil, errOrder
		}
		if last = key; i > 0 {
			next[len(next)-1].to = key
		}
		next = append(next, visit{binary.LittleEndian.Uint64(e[8:]), v.depth, v.level + 1, key, v.to})
	}
	return next, nil
}

// leaf checks a page of keys and values, some of which may be buckets.
func (c *checker) leaf(data []byte, count int, v visit, next []visit) ([]visit, error) {
	var last []byte
	for i := range count {
		e, err := element(data, i, count)
		if err != nil {
			return nil, err
		}
		u32 := binary.LittleEndian.Uint32
		key, value, err := slices(data, i, u32(e[4:]), u32(e[8:]), u32(e[12:]))
		if err != nil {
			return nil, err
		}
		if i > 0 && bytes.Compare(last, key) >= 0 || !v.holds(key) {
			return nil, errOrder
		}
		last = key
		if u32(e)&bucketFlag == 0 {
			continue
		}
		if next, err = c.bucket(value, v.depth+1, next); err != nil {
			return nil, fmt.Errorf("a bucket: %w", err)
		}
	}
	return next, nil
}

// bucket checks the header of a bucket, which has the number of its root page or, if the bucket is small, the page itself.
func (c *checker) bucket(value []byte, depth int, next []visit) ([]visit, error) {
	switch {
	case depth > maxDepth:
		return nil, fmt.Errorf("buckets are nested more than %d deep", maxDepth)
	case len(value) < bucketHeader:
		return nil, errors.New("it has no header")
	}
	if root := binary.LittleEndian.Uint64(value); root != 0 {
		return append(next, visit{page: root, depth: depth}), nil
	}
	inline := value[bucketHeader:]
	if len(inline) < pageHeader || binary.LittleEndian.Uint16(inline[8:]) != leafPage {
		return nil, errors.New("it is not a page")
	}
	return c.leaf(inline[pageHeader:], int(binary.LittleEndian.Uint16(inline[10:])), visit{depth: depth}, next)
}

// element returns one of the elements at the beginning of a page.
func element(data []byte, i, count int) ([]byte, error) {
	if count*elementSize > len(data) {
		return nil, fmt.Errorf("%d elements do not fit", count)
	}
	return data[i*elementSize : (i+1)*elementSize], nil
}

// slices returns the key and the value of an element. Their offset is relative to the element.
func slices(data []byte, i int, offset, keySize, valueSize uint32) (key, value []byte, err error) {
	from := uint64(i*elementSize) + uint64(offset)
	middle := from + uint64(keySize)
	to := middle + uint64(valueSize)
	if to > uint64(len(data)) {
		return nil, nil, errors.New("an element points outside of it")
	}
	return data[from:middle], data[middle:to], nil
}
