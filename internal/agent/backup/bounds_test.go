// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// object is the object of a delta with some content, and its checksum.
func object(t testing.TB, c Compression, content io.Reader) *bytes.Buffer {
	var buffer bytes.Buffer
	hash, compressor := sha256.New(), c.compressor(&buffer)
	_, err := io.Copy(io.MultiWriter(hash, compressor), content)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	_, err = compressor.Write(hash.Sum(nil))
	NewWithT(t).Expect(errors.Join(err, compressor.Close())).To(Succeed())
	return &buffer
}

// A small object that grows to more than a delta has is corrupt, and is not read to its end.
func TestBombs(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Snapshot{Kind: Delta}.maxContent()).To(BeEquivalentTo(MaxDelta))
	const limit = 1 << 20
	for _, c := range []Compression{None, Gzip, Zlib, LZW} {
		for _, grows := range []int{0, 1, 5 * limit} {
			bomb := object(t, c, bytes.NewReader(make([]byte, limit+grows)))
			content, err := newReader(Snapshot{Kind: Delta, Compression: c}, bomb, limit)
			g.Expect(err).NotTo(HaveOccurred())
			n, err := io.Copy(io.Discard, content)
			g.Expect(n).To(BeNumerically("<=", limit))
			if grows == 0 {
				g.Expect(err).NotTo(HaveOccurred(), "%s: all that there may be", c)
				continue
			}
			var corrupt *CorruptError
			g.Expect(errors.As(err, &corrupt)).To(BeTrue(), "%s: %v", c, err)
			g.Expect(err).To(MatchError(ContainSubstring("more than 1048576 bytes")))
		}
	}
}

// One event is held in memory, and so it has a limit, too.
func TestBigEvents(t *testing.T) {
	const part, limit = 1 << 16, 1 << 18
	endless := func(begin, repeat string) io.Reader {
		return io.MultiReader(strings.NewReader(begin), &repeated{text: strings.Repeat(repeat, part/len(repeat))})
	}
	for name, content := range map[string]io.Reader{
		"a value":       endless(`[{"EtcdEvent":{"kv":{"value":"`, "A"),
		"a field":       endless(`[{"x":"`, "A"),
		"a list":        endless(`[{"x":[`, "0,"),
		"a number":      endless(`[{"x":`, "1"),
		"space":         endless(`[`, " "),
		"space between": endless(`[{}`, "\n"),
		"depth":         endless(`[`, "["),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := readDelta(content, limit, func(Event) error { return nil })
			runtime.ReadMemStats(&after)
			g.Expect(err).To(HaveOccurred())
			g.Expect(after.TotalAlloc - before.TotalAlloc).To(BeNumerically("<", 16*limit))
		})
	}
}

// repeated reads a text repeatedly.
type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

// What is written can be read: a buffer takes no more than a delta may have.
func TestBufferStaysWithinTheLimit(t *testing.T) {
	g := NewWithT(t)
	var b DeltaBuffer
	g.Expect(b.Add(Event{EtcdEvent: EtcdEvent{Kv: KeyValue{Key: []byte("k"), ModRevision: 1}}})).To(Succeed())
	before := b.Len()
	err := b.Add(Event{EtcdEvent: EtcdEvent{Kv: KeyValue{Key: []byte("k"), ModRevision: 2, Value: make([]byte, maxEvent)}}})
	g.Expect(err).To(MatchError(ErrDeltaTooBig))
	g.Expect(b.Len()).To(Equal(before))
}

// A name that is not canonical could name another object than it appears to.
func TestNamesAreCanonical(t *testing.T) {
	for _, name := range []string{
		"Full-000000000000-00000042-1700000000",
		"Full-00000000-000000042-1700000000",
		"Full-00000000-00000042-01700000000",
		"Full-00000000-00000042-1700000000.gz\n",
		"../Full-00000000-00000042-1700000000",
		"/Full-00000000-00000042-1700000000",
		"Full-00000000-00000042-9223372036854775807",
		"Full-00000000-00000042-253402300800",
		"Full-00000000-00000042-" + strings.Repeat("1", 1<<20),
	} {
		_, err := ParseName(name)
		NewWithT(t).Expect(err).To(HaveOccurred(), name[:min(len(name), 100)])
		if err != nil {
			NewWithT(t).Expect(len(err.Error())).To(BeNumerically("<", 300))
		}
	}
	for prefix, ok := range map[string]bool{
		"": true, "v2": true, "shoot--a--b/etcd-main/v2": true, "a b": true,
		"/a": false, "a/": false, "a//b": false, "a/../b": false, "..": false, "../a": false, ".": false, "./a": false,
		`a\b`: false, "a\x00": false, "a\nb": false, "a\u202eb": false, "\xff": false, strings.Repeat("a", 1000): false,
	} {
		NewWithT(t).Expect(CheckPrefix(prefix) == nil).To(Equal(ok), "%q", prefix[:min(len(prefix), 100)])
	}
}

func FuzzParseName(f *testing.F) {
	for _, seed := range []string{
		"Full-00000000-00001234-1700000000.gz", "Incr-00001235-00001300-1700000300.zlib.final", "Full-00000000-00000000-0",
		"../v2/Full-00000000-00000042-1700000000", "Full-00000000-99999999999999999999-1", "Incr-00000005-00000004-1.Z",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		s, err := ParseName(name)
		if err != nil {
			return
		}
		if s.Name() != name {
			t.Errorf("%q is read as %q", name, s.Name())
		}
		if _, err := s.MarshalJSON(); err != nil {
			t.Errorf("%q cannot be shown: %v", name, err)
		}
	})
}

// Whatever a delta has, it is events or an error.
func FuzzReadDelta(f *testing.F) {
	var b DeltaBuffer
	_ = b.Add(Event{EtcdEvent: EtcdEvent{Kv: KeyValue{Key: []byte("k"), ModRevision: 2, Value: []byte("v")}}})
	f.Add(append(b.json.Bytes(), ']'))
	for _, seed := range []string{"", "[]", "[null]", "[{}", `[{"EtcdEvent":{"kv":{"key":"!"}}}]`, `[{"Time":"never"}]`, "{}", "[[[["} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		events := 0
		err := ReadDelta(bytes.NewReader(content), func(Event) error { events++; return nil })
		if err == nil && events > len(content) {
			t.Errorf("%d events in %d bytes", events, len(content))
		}
	})
}

// Whatever an object has, it is what was written, or an error.
func FuzzReader(f *testing.F) {
	for _, c := range []Compression{None, Gzip, Zlib, LZW} {
		f.Add(object(f, c, strings.NewReader("[]")).Bytes(), string(c))
	}
	f.Add([]byte{}, "gzip")
	f.Fuzz(func(t *testing.T, data []byte, compression string) {
		content, err := NewReader(Snapshot{Kind: Delta, Compression: Compression(compression)}, bytes.NewReader(data))
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, io.LimitReader(content, 1<<20)); err != nil && err.Error() == "" {
			t.Error("an error without words")
		}
	})
}
