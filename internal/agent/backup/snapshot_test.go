// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

var noon = time.Unix(1_700_000_000, 0).UTC() // 2023-11-14 22:13:20, a Tuesday

func TestNames(t *testing.T) {
	for name, s := range map[string]Snapshot{
		"Full-00000000-00000042-1700000000":                 {Kind: Full, LastRevision: 42, Compression: None},
		"Full-00000000-00000042-1700000000.gz":              {Kind: Full, LastRevision: 42, Compression: Gzip},
		"Full-00000000-00000042-1700000000.final":           {Kind: Full, LastRevision: 42, Compression: None, Final: true},
		"Full-00000000-00000042-1700000000.Z.final":         {Kind: Full, LastRevision: 42, Compression: LZW, Final: true},
		"Full-00000000-00000042-1700000000.age":             {Kind: Full, LastRevision: 42, Compression: None, Encrypted: true},
		"Full-00000000-00000042-1700000000.age.gz.final":    {Kind: Full, LastRevision: 42, Compression: Gzip, Encrypted: true, Final: true},
		"Incr-00000043-123456789012-1700000000.zlib":        {Kind: Delta, StartRevision: 43, LastRevision: 123456789012, Compression: Zlib},
		"Incr-00000043-9223372036854775807-1700000000.zlib": {Kind: Delta, StartRevision: 43, LastRevision: 1<<63 - 1, Compression: Zlib},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s.Created = noon
			g.Expect(s.Name()).To(Equal(name))
			g.Expect(ParseName(name)).To(Equal(s))
			bound, err := ParseName(s.BoundName())
			g.Expect(err).NotTo(HaveOccurred())
			s.Encrypted, s.Final = false, false
			g.Expect(bound).To(Equal(s))
		})
	}
}

func TestNamesOfOtherThings(t *testing.T) {
	for _, name := range []string{
		"", "Full", "backup.db", "Full-0-1-1700000000", "Full-00000000-00000042-1700000000.xz", "Full-00000000-00000042-",
		"Full-00000000-00000042-1700000000.gz/0000000001",   // a chunk
		"Full-00000000-00000042-1700000000.gz.18a1f3.tmp",   // an upload
		".Full-00000000-00000042-1700000000.gz",             // an upload of ours
		"Incr-00000043-00000042-1700000000.gz",              // ends before it starts
		"Incr-00000043-99999999999999999999-1700000000.gz",  // no such number
		"Chunk-00000000-00000042-1700000000",                // no such kind
		"Full-00000000-00000042-1700000000.final.gz",        // wrong order
		"Full-00000000-00000042-1700000000.gz.age",          // etcd-backup-restore would take it for gzip
		"Full-00000000-00000042-1700000000.gz\n",            // a line end
		"x/Full-00000000-00000042-1700000000.gz",            // a path
		"Full--0000042-00000042-1700000000.gz",              // a sign
		"Full-00000000-00000042-99999999999999999999.final", // no such time
	} {
		if s, err := ParseName(name); err == nil {
			t.Errorf("%q was read as %+v", name, s)
		}
	}
}

// The body is what Gardener's clients read, so its keys and their spelling are fixed.
func TestJSON(t *testing.T) {
	g := NewWithT(t)
	s := Snapshot{Kind: Delta, StartRevision: 43, LastRevision: 50, Created: noon, Compression: Gzip, Prefix: "shoot-a/etcd-main/v2", Size: 7}
	data, err := json.Marshal(s)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(data)).To(MatchJSON(`{
		"kind": "Incr", "startRevision": 43, "lastRevision": 50, "createdOn": "2023-11-14T22:13:20Z", "snapDir": "",
		"snapName": "Incr-00000043-00000050-1700000000.gz", "isChunk": false, "prefix": "shoot-a/etcd-main/v2",
		"compressionSuffix": ".gz", "isFinal": false, "versionID": null, "immutabilityExpriyTime": "0001-01-01T00:00:00Z",
		"size": 7
	}`))
	var back Snapshot
	g.Expect(json.Unmarshal(data, &back)).To(Succeed())
	g.Expect(back).To(Equal(s))
	g.Expect(json.Unmarshal([]byte(`{"snapName": "x"}`), &back)).NotTo(Succeed())
}
