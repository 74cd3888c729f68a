// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// A history has an identifier of its own, and what cannot be one is refused before it becomes a part of a name.
func TestIdentifiers(t *testing.T) {
	g := NewWithT(t)
	one, another := NewHistory(), NewHistory()
	g.Expect(one).NotTo(Equal(another))
	g.Expect(CheckHistory(one)).To(Succeed())
	g.Expect(CheckDigest(strings.Repeat("0f", 32))).To(Succeed())
	for _, text := range []string{"", one[2:], one + "00", strings.Repeat("AB", 16), strings.Repeat("zz", 16), "../" + one[3:]} {
		g.Expect(CheckHistory(text)).To(MatchError("the history is not 32 lowercase hexadecimal digits"), text)
	}
	g.Expect(CheckDigest(one)).To(MatchError("the SHA-256 is not 64 lowercase hexadecimal digits"))
}

// Errors name what is missing, or refused, and what to do.
func TestErrorsNameWhatIsMissing(t *testing.T) {
	g := NewWithT(t)
	g.Expect(&GapError{After: 10, Next: 20}).To(MatchError("revisions 11 to 19 are missing: a delta snapshot was lost"))
	g.Expect(&UntrustedError{Name: "x", Trust: TrustSigned, Reason: "it has no signature", Where: "a bucket"}).To(MatchError(And(
		HavePrefix("snapshot x in a bucket is refused: it has no signature."), HaveSuffix("Remove the object to use the signed snapshots without it"))))
	_, err := NewReader(Snapshot{Kind: Full, Created: noon, Compression: "rar"}, nil)
	g.Expect(err).To(MatchError(ContainSubstring(`there is no compression "rar"`)))
	g.Expect(Compression("rar").Valid()).To(BeFalse())
	g.Expect(Gzip.Valid()).To(BeTrue())
}

// A delta counts if it continues the full snapshot: it was taken no earlier, and reaches further.
func TestContinuedRecord(t *testing.T) {
	g := NewWithT(t)
	at := func(revision int64, after time.Duration) Record {
		return Record{Revision: revision, Created: noon.Add(after)}
	}
	for name, c := range map[string]struct {
		full, delta, want Record
	}{
		"a delta of the same second":      {at(5, 0), at(6, 0), at(6, 0)},
		"a later delta":                   {at(5, 0), at(6, time.Hour), at(6, time.Hour)},
		"a delta before the full one":     {at(5, time.Hour), at(5, 0), at(5, time.Hour)},
		"one before a state was restored": {at(5, time.Hour), at(6, 0), at(5, time.Hour)},
		"a Lease that is renewed without": {at(6, 0), at(5, time.Hour), at(6, 0)},
		"and of the same revision":        {at(6, 0), at(6, time.Hour), at(6, 0)},
		"no full one":                     {Record{}, at(6, 0), at(6, 0)},
		"no delta ever":                   {at(6, 0), at(0, time.Hour), at(6, 0)},
		"nothing at all":                  {Record{}, at(0, time.Hour), Record{}},
	} {
		g.Expect(c.full.Continued(c.delta)).To(Equal(c.want), name)
	}
	_, err := ParseRecord("12x", noon)
	g.Expect(err).To(MatchError(ContainSubstring("its holder is not the revision of a snapshot")))
}

// What a task says of a snapshot.
func TestFacts(t *testing.T) {
	g := NewWithT(t)
	s := Snapshot{Kind: Full, LastRevision: 42, Created: noon}
	g.Expect(s.Facts()).To(And(HaveKeyWithValue("revision", "42"), Not(HaveKey("bytes"))))
	s.Size = 1024
	g.Expect(s.Facts()).To(HaveKeyWithValue("bytes", "1024"))
}

// An object is read to its end, also beyond what is compressed, and an error anywhere is one.
func TestVerify(t *testing.T) {
	g := NewWithT(t)
	_, sent := stream(100)
	s := Snapshot{Kind: Full, LastRevision: 1, Created: noon, Compression: Gzip}
	var object bytes.Buffer
	g.Expect(WriteFull(&object, s, bytes.NewReader(sent))).To(Succeed())
	g.Expect(Verify(s, bytes.NewReader(object.Bytes()))).To(Succeed())
	g.Expect(Verify(s, bytes.NewReader(nil))).NotTo(Succeed())
	g.Expect(Verify(s, bytes.NewReader(object.Bytes()[:object.Len()-9]))).NotTo(Succeed())

	rest := bytes.NewReader(object.Bytes())
	g.Expect(Verify(s, rest)).To(Succeed())
	g.Expect(rest.Len()).To(BeZero())
	broken := errors.New("the connection is lost")
	plain := Snapshot{Kind: Full, LastRevision: 1, Created: noon, Compression: None}
	g.Expect(Verify(plain, io.MultiReader(bytes.NewReader(sent), failing{broken}))).To(MatchError(broken))

	g.Expect(WriteFull(fullDisk{}, s, bytes.NewReader(sent))).To(MatchError(ContainSubstring("no space")))
}

// failing is a reader that fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// fullDisk is a disk that is full.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space") }

// An empty list has a chain without deltas, which JSON shows as a list.
func TestNewestOfNothing(t *testing.T) {
	g := NewWithT(t)
	chain, err := Newest(nil)
	g.Expect(err).To(MatchError(ErrNoFull))
	g.Expect(chain.Deltas).To(And(BeEmpty(), Not(BeNil())))
}
