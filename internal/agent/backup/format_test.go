// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
	"time"

	. "github.com/onsi/gomega"
)

var compressions = []Compression{None, Gzip, LZW, Zlib}

// stream is what etcd sends: content, and its checksum.
func stream(size int) (content, sent []byte) {
	random := rand.New(rand.NewPCG(1, uint64(size)))
	content = make([]byte, size)
	for i := range content {
		content[i] = byte(random.IntN(8))
	}
	sum := sha256.Sum256(content)
	return content, append(bytes.Clone(content), sum[:]...)
}

func TestFullSnapshots(t *testing.T) {
	for _, c := range compressions {
		for _, size := range []int{0, 1, 31, 32, 33, 512, bufferSize - 32, bufferSize, bufferSize + 1} {
			g := NewWithT(t)
			content, sent := stream(size)
			s := Snapshot{Kind: Full, LastRevision: 1, Created: noon, Compression: c}
			var object bytes.Buffer
			g.Expect(WriteFull(&object, s, bytes.NewReader(sent))).To(Succeed())
			for _, slow := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.DataErrReader, iotest.HalfReader} {
				r, err := NewReader(s, slow(bytes.NewReader(object.Bytes())))
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(io.ReadAll(slow(r))).To(Equal(content), "%s, %d bytes", c, size)
			}
			r, err := NewReader(s, bytes.NewReader(object.Bytes()))
			g.Expect(err).NotTo(HaveOccurred())
			var copied bytes.Buffer
			g.Expect(io.Copy(&copied, r)).To(BeEquivalentTo(size))
			g.Expect(bytes.Equal(copied.Bytes(), content)).To(BeTrue())
		}
	}
}

// Any altered byte, and any early end of an object, is noticed, by a typed error.
func TestCorruptObjects(t *testing.T) {
	for _, c := range compressions {
		t.Run(string(c), func(t *testing.T) {
			content, sent := stream(100)
			s := Snapshot{Kind: Full, LastRevision: 1, Created: noon, Compression: c}
			var object bytes.Buffer
			if err := WriteFull(&object, s, bytes.NewReader(sent)); err != nil {
				t.Fatal(err)
			}
			for i := range object.Len() {
				expectCorrupt(t, s, object.Bytes()[:i], content)
				altered := bytes.Clone(object.Bytes())
				altered[i] ^= 0x10
				expectCorrupt(t, s, altered, content)
			}
		})
	}
}

// expectCorrupt allows for bytes that carry nothing, such as the time in gzip's header: then the content is right.
func expectCorrupt(t *testing.T, s Snapshot, object, content []byte) {
	t.Helper()
	var got []byte
	r, err := NewReader(s, bytes.NewReader(object))
	if err == nil {
		got, err = io.ReadAll(r)
	}
	if err == nil && bytes.Equal(got, content) {
		return
	}
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) || corrupt.Name != s.Name() {
		t.Errorf("got %v, want a *CorruptError that names the snapshot", err)
	}
}

// An object that cannot be read is not called corrupt: it may be whole.
func TestUnreachableIsNotCorrupt(t *testing.T) {
	for _, c := range compressions {
		_, sent := stream(3 * bufferSize)
		s := Snapshot{Kind: Full, LastRevision: 1, Created: noon, Compression: c}
		var object bytes.Buffer
		if err := WriteFull(&object, s, bytes.NewReader(sent)); err != nil {
			t.Fatal(err)
		}
		for _, at := range []int{0, 100, object.Len() - 40} {
			lost := errors.New("connection lost")
			r, err := NewReader(s, io.MultiReader(bytes.NewReader(object.Bytes()[:at]), iotest.ErrReader(lost)))
			if err == nil {
				_, err = io.ReadAll(r)
			}
			var corrupt *CorruptError
			if !errors.Is(err, lost) || errors.As(err, &corrupt) {
				t.Errorf("%s, lost after %d bytes: got %v", c, at, err)
			}
		}
	}
}

func TestWriteFullVerifiesWhatEtcdSends(t *testing.T) {
	g := NewWithT(t)
	_, sent := stream(1000)
	s := Snapshot{Kind: Full, LastRevision: 1, Created: noon, Compression: Gzip}
	var corrupt *CorruptError
	g.Expect(errors.As(WriteFull(io.Discard, s, bytes.NewReader(sent[:len(sent)-1])), &corrupt)).To(BeTrue())
	lost := errors.New("connection lost")
	g.Expect(WriteFull(io.Discard, s, io.MultiReader(bytes.NewReader(sent[:500]), iotest.ErrReader(lost)))).To(MatchError(lost))
	full := errors.New("no space left")
	g.Expect(WriteFull(failingWriter{full}, s, bytes.NewReader(sent))).To(MatchError(full))
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func events(first, last int64) []Event {
	var list []Event
	for rev := first; rev <= last; rev++ {
		e := Event{Time: noon, EtcdEvent: EtcdEvent{Kv: KeyValue{Key: []byte{byte(rev)}, ModRevision: rev}}}
		if rev%3 == 0 {
			e.EtcdEvent.Type = DeletedKey
		} else {
			e.EtcdEvent.Kv.Value, e.EtcdEvent.Kv.CreateRevision, e.EtcdEvent.Kv.Version, e.EtcdEvent.Kv.Lease = []byte("v\x00<>"), 1, 2, rev
		}
		list = append(list, e)
	}
	return list
}

func TestDeltas(t *testing.T) {
	for _, c := range compressions {
		t.Run(string(c), func(t *testing.T) {
			g := NewWithT(t)
			want := events(43, 50)
			var buffer DeltaBuffer
			for _, e := range want {
				g.Expect(buffer.Add(e)).To(Succeed())
			}
			first, last := buffer.Revisions()
			g.Expect([]int64{first, last}).To(Equal([]int64{43, 50}))
			s := Snapshot{Kind: Delta, StartRevision: first, LastRevision: last, Created: noon, Compression: c}
			for range 2 { // a write can be retried
				var object bytes.Buffer
				g.Expect(buffer.Write(&object, s)).To(Succeed())
				r, err := NewReader(s, &object)
				g.Expect(err).NotTo(HaveOccurred())
				content, err := io.ReadAll(r)
				g.Expect(err).NotTo(HaveOccurred())
				var got []Event
				g.Expect(ReadDelta(bytes.NewReader(content), func(e Event) error { got = append(got, e); return nil })).To(Succeed())
				g.Expect(got).To(Equal(want))
			}
		})
	}
}

// The JSON is what etcd-backup-restore reads and writes: that of the events of etcd's client before version 3.7.
func TestFormatOfDeltas(t *testing.T) {
	g := NewWithT(t)
	var buffer DeltaBuffer
	for _, e := range []Event{
		{Time: noon, EtcdEvent: EtcdEvent{Kv: KeyValue{Key: []byte("a"), Value: []byte("b"), CreateRevision: 2, ModRevision: 3, Version: 2, Lease: 9}}},
		{Time: noon, EtcdEvent: EtcdEvent{Type: DeletedKey, Kv: KeyValue{Key: []byte("a"), ModRevision: 4}}},
	} {
		g.Expect(buffer.Add(e)).To(Succeed())
	}
	var object bytes.Buffer
	g.Expect(buffer.Write(&object, Snapshot{Kind: Delta, Compression: None})).To(Succeed())
	want := `[{"EtcdEvent":{"kv":{"key":"YQ==","create_revision":2,"mod_revision":3,"version":2,"value":"Yg==","lease":9}},"Time":"2023-11-14T22:13:20Z"},` +
		`{"EtcdEvent":{"type":1,"kv":{"key":"YQ==","mod_revision":4}},"Time":"2023-11-14T22:13:20Z"}]`
	sum := sha256.Sum256([]byte(want))
	g.Expect(object.String()).To(Equal(want + string(sum[:])))

	leased, err := json.Marshal(Event{Time: noon, LeaseTTL: 60, EtcdEvent: EtcdEvent{Kv: KeyValue{Key: []byte("a"), Lease: 9}}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(leased)).To(HaveSuffix(`"Time":"2023-11-14T22:13:20Z","LeaseTTL":60}`), "beside what others read")

	other := `[{"etcdEvent":{"kv":{"key":"YQ==","mod_revision":3}},"time":"2023-11-14T22:13:20.5+01:00"}]`
	var got []Event
	g.Expect(ReadDelta(bytes.NewReader([]byte(other)), func(e Event) error { got = append(got, e); return nil })).To(Succeed())
	g.Expect(got).To(HaveLen(1))
	g.Expect(got[0].EtcdEvent.Kv.ModRevision).To(BeEquivalentTo(3))
	g.Expect(got[0].Time.Sub(noon)).To(Equal(500*time.Millisecond - time.Hour))

	for _, bad := range []string{"", "{}", "[", `[{"EtcdEvent":1}]`, `[{}`} {
		g.Expect(ReadDelta(bytes.NewReader([]byte(bad)), func(Event) error { return nil })).NotTo(Succeed(), bad)
	}
}
