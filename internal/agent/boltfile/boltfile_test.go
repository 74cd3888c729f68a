// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package boltfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	bolt "go.etcd.io/bbolt"
)

const pageSize = 4096

// build creates a database with branches, leaves over several pages, small and big buckets, and free pages.
func build(t testing.TB, options bolt.Options) []byte {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "db")
	options.PageSize = pageSize
	db, err := bolt.Open(path, 0o600, &options)
	g.Expect(err).NotTo(HaveOccurred())
	for round := range 3 {
		g.Expect(db.Update(func(tx *bolt.Tx) error {
			for _, name := range []string{"key", "meta", "lease"} {
				b, err := tx.CreateBucketIfNotExists([]byte(name))
				g.Expect(err).NotTo(HaveOccurred())
				for i := range map[string]int{"key": 200, "meta": 2, "lease": 0}[name] {
					g.Expect(b.Put(fmt.Appendf(nil, "%06d", i*(round+1)), make([]byte, 60+i%7*1500))).To(Succeed())
				}
			}
			return nil
		})).To(Succeed())
	}
	g.Expect(db.Close()).To(Succeed())
	data, err := os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	return data
}

func checkBytes(data []byte) error { return check(bytes.NewReader(data), int64(len(data))) }

func TestGoodDatabases(t *testing.T) {
	for name, options := range map[string]bolt.Options{
		"bbolt's defaults": {}, "etcd's options": {NoFreelistSync: true, FreelistType: bolt.FreelistMapType},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(checkBytes(build(t, options))).To(Succeed()) })
	}
}

// pageOf returns the first used page of a kind.
func pageOf(data []byte, flags uint16) []byte {
	m, _ := readMeta(bytes.NewReader(data), int64(len(data)))
	c := &checker{file: bytes.NewReader(data), meta: m, seen: make([]uint64, m.end/64+1)}
	_ = c.tree(m.root)
	for at := 2 * pageSize; at < len(data); at += pageSize {
		p := data[at : at+pageSize]
		if id := uint64(at / pageSize); binary.LittleEndian.Uint16(p[8:]) == flags && binary.LittleEndian.Uint64(p) == id && !c.mark(id) {
			return p
		}
	}
	return nil
}

// A malicious database is an error, found in time and memory proportional to its size.
func TestHostileDatabases(t *testing.T) {
	good := build(t, bolt.Options{})
	put16, put32, put64 := binary.LittleEndian.PutUint16, binary.LittleEndian.PutUint32, binary.LittleEndian.PutUint64
	for name, change := range map[string]func([]byte) []byte{
		"nothing":                        func([]byte) []byte { return nil },
		"zeros":                          func(d []byte) []byte { return make([]byte, len(d)) },
		"cut":                            func(d []byte) []byte { return d[:len(d)/2] },
		"cut in the header":              func(d []byte) []byte { return d[:40] },
		"a branch that points to itself": func(d []byte) []byte { p := pageOf(d, branchPage); copy(p[pageHeader+8:][:8], p[:8]); return d },
		"a branch that points twice to one page": func(d []byte) []byte {
			p := pageOf(d, branchPage)
			copy(p[pageHeader+8:][:8], p[pageHeader+elementSize+8:][:8])
			return d
		},
		"a branch that points to the wrong page": func(d []byte) []byte {
			first, second := pageOf(d, branchPage)[pageHeader+8:][:8], pageOf(d, branchPage)[pageHeader+elementSize+8:][:8]
			was := bytes.Clone(first)
			copy(first, second)
			copy(second, was)
			return d
		},
		"a branch that points out of the file": func(d []byte) []byte { put64(pageOf(d, branchPage)[pageHeader+8:], 1<<40); return d },
		"a branch that points to a meta page":  func(d []byte) []byte { put64(pageOf(d, branchPage)[pageHeader+8:], 0); return d },
		"a branch without elements":            func(d []byte) []byte { put16(pageOf(d, branchPage)[10:], 0); return d },
		"more elements than fit":               func(d []byte) []byte { put16(pageOf(d, leafPage)[10:], 0xFFFF); return d },
		"a key out of its page":                func(d []byte) []byte { put32(pageOf(d, leafPage)[pageHeader+4:], 1<<31); return d },
		"a value out of its page":              func(d []byte) []byte { put32(pageOf(d, leafPage)[pageHeader+12:], 1<<31); return d },
		"endless overflow pages":               func(d []byte) []byte { put32(pageOf(d, leafPage)[12:], 1<<31); return d },
		"a page of unknown kind":               func(d []byte) []byte { put16(pageOf(d, leafPage)[8:], 0x40); return d },
		"a page of another number":             func(d []byte) []byte { put64(pageOf(d, leafPage), 3); return d },
		"a bucket that is a value":             func(d []byte) []byte { put32(pageOf(d, leafPage)[pageHeader:], bucketFlag); return d },
		"too many free pages":                  func(d []byte) []byte { put16(freePages(d)[10:], 0xFFFE); return d },
		"a free page in use":                   freeTheRoot,
		"a decoy at another page size":         func([]byte) []byte { return decoy() },
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(checkBytes(change(bytes.Clone(good)))).NotTo(Succeed())
		})
	}
}

// freeTheRoot marks the root page as free.
func freeTheRoot(data []byte) []byte {
	m, _ := readMeta(bytes.NewReader(data), int64(len(data)))
	binary.LittleEndian.PutUint64(freePages(data)[pageHeader:], m.root)
	binary.LittleEndian.PutUint16(freePages(data)[10:], 1)
	return data
}

// putMeta writes a valid meta page at an offset.
func putMeta(data []byte, at int, m meta) {
	put32, put64 := binary.LittleEndian.PutUint32, binary.LittleEndian.PutUint64
	page := data[at+pageHeader:][:metaSize]
	put32(page, magic)
	put32(page[4:], version)
	put32(page[8:], uint32(m.pageSize))
	put64(page[16:], m.root)
	put64(page[32:], m.freelist)
	put64(page[40:], m.end)
	put64(page[48:], m.txid)
	hash := fnv.New64a()
	_, _ = hash.Write(page[:metaSize-8])
	put64(page[56:], hash.Sum64())
}

// decoy returns a database with a branch that refers to itself, which bbolt follows until its stack is full; and behind it a
// meta page with a newer transaction and larger pages, which leads to a harmless one.
func decoy() []byte {
	const large = maxPageSize
	data := make([]byte, 3*large)
	for i := range 2 {
		putMeta(data, i*pageSize, meta{pageSize: pageSize, root: 2, freelist: noFreelist, end: 3, txid: uint64(i)})
	}
	branch := data[2*pageSize:]
	binary.LittleEndian.PutUint64(branch, 2)
	binary.LittleEndian.PutUint16(branch[8:], branchPage)
	binary.LittleEndian.PutUint16(branch[10:], 1)
	binary.LittleEndian.PutUint32(branch[pageHeader:], elementSize)
	binary.LittleEndian.PutUint64(branch[pageHeader+8:], 2)
	putMeta(data, large, meta{pageSize: large, root: 2, freelist: noFreelist, end: 3, txid: 9})
	binary.LittleEndian.PutUint64(data[2*large:], 2)
	binary.LittleEndian.PutUint16(data[2*large+8:], leafPage)
	return data
}

// The meta page that is checked is the one that bbolt uses, wherever others are.
func TestTheMetaPageIsThatOfBbolt(t *testing.T) {
	g := NewWithT(t)
	random, path, found := rand.New(rand.NewPCG(3, 4)), filepath.Join(t.TempDir(), "db"), 0
	for range 3000 {
		data := make([]byte, 16<<10)
		for _, at := range []int{0, 1 << 10, 2 << 10, 4 << 10, 8 << 10} {
			if random.IntN(2) == 0 {
				size := uint64(1) << (10 + random.IntN(4))
				putMeta(data, at, meta{pageSize: size, root: 2, freelist: noFreelist, end: 3, txid: uint64(random.IntN(4))})
			}
		}
		m, err := readMeta(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			continue
		}
		found++
		g.Expect(os.WriteFile(path, data, 0o600)).To(Succeed())
		db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(db.Info().PageSize).To(BeEquivalentTo(m.pageSize))
		g.Expect(db.View(func(tx *bolt.Tx) error {
			g.Expect(tx.ID()).To(BeEquivalentTo(m.txid))
			return nil
		})).To(Succeed())
		g.Expect(db.Close()).To(Succeed())
	}
	g.Expect(found).To(BeNumerically(">", 100))
}

func freePages(data []byte) []byte {
	var p []byte
	for at := 2 * pageSize; at < len(data); at += pageSize {
		if binary.LittleEndian.Uint16(data[at+8:]) == freelistPage && binary.LittleEndian.Uint64(data[at:]) == uint64(at/pageSize) {
			p = data[at : at+pageSize]
			m, _ := readMeta(bytes.NewReader(data), int64(len(data)))
			if m.freelist == uint64(at/pageSize) {
				return p
			}
		}
	}
	return p
}

// A database that passes the check can be opened and read, whatever was changed.
func TestWhatPassesCanBeRead(t *testing.T) {
	g := NewWithT(t)
	good, random := build(t, bolt.Options{NoFreelistSync: true}), rand.New(rand.NewPCG(1, 2))
	path, passed := filepath.Join(t.TempDir(), "db"), 0
	for range 150 {
		data := bytes.Clone(good)
		for range 1 + random.IntN(3) {
			// Most of a page is values: changes of its header and elements do the damage.
			data[random.IntN(len(data)/pageSize)*pageSize+random.IntN(200)] = byte(random.Uint32())
		}
		if checkBytes(data) != nil {
			continue
		}
		passed++
		g.Expect(os.WriteFile(path, data, 0o600)).To(Succeed())
		db, err := bolt.Open(path, 0o600, &bolt.Options{NoFreelistSync: true, NoSync: true})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(db.View(func(tx *bolt.Tx) error {
			return tx.ForEach(func(_ []byte, b *bolt.Bucket) error { return b.ForEach(func(_, _ []byte) error { return nil }) })
		})).To(Succeed())
		g.Expect(db.Close()).To(Succeed())
	}
	g.Expect(passed).To(BeNumerically(">", 10), "enough databases passed")
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte{})
	f.Add(build(f, bolt.Options{})[:4*pageSize])
	f.Add(decoy())
	f.Fuzz(func(_ *testing.T, data []byte) { _ = checkBytes(data) })
}
