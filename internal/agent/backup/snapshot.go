// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package backup has the names and formats of snapshots, which of them a restore needs, and which may be removed. Names and
// formats are those of Gardener's etcd-backup-restore, so that each tool reads the backups of the other.
//
// The operator links it, so it imports neither drivers of stores nor etcd's server; packages below it do.
package backup

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
)

// Kind of a snapshot; names begin with it.
type Kind string

// The kinds.
const (
	// Full is the whole database.
	Full Kind = "Full"
	// Delta is the events since the snapshot before.
	Delta Kind = "Incr"
)

// LayoutVersion is the folder of the snapshots beneath a store's prefix.
const LayoutVersion = "v2"

// Snapshot is one snapshot in a store.
type Snapshot struct {
	Kind Kind
	// StartRevision is 0 for a full snapshot; for a delta, the revision of its first event.
	StartRevision int64
	// LastRevision of the snapshot. A full snapshot may have a few more revisions, written between reading the revision and
	// the copy.
	LastRevision int64
	// Created, in whole seconds. It orders the snapshots of a store.
	Created time.Time
	// Compression of the object.
	Compression Compression
	// Encrypted: the object is an age file, whose plaintext is what the object would otherwise be. See package encryption.
	Encrypted bool
	// Final: the last snapshot before the cluster is hibernated or moved.
	Final bool
	// Prefix of the object's name in the store, with the layout's version.
	Prefix string
	// Size of the object in bytes; 0 if unknown.
	Size int64
	// Kept: retention does not remove it, nor counts it, since it is marked, or a hold keeps it for a while. Marked: it is marked.
	Kept, Marked bool
	// Proof is what the snapshot's valid signature states; nil for an unsigned snapshot.
	Proof *Proof
}

// Name of the object, beneath its prefix.
func (s Snapshot) Name() string {
	name := fmt.Sprintf("%s-%08d-%08d-%d", s.Kind, s.StartRevision, s.LastRevision, s.Created.Unix())
	if s.Encrypted {
		name += encryptedSuffix
	}
	name += s.Compression.suffix()
	if s.Final {
		name += finalSuffix
	}
	return name
}

// BoundName is what the encryption binds a snapshot to: the name of its plaintext, which has kind, revisions, time and compression. A copy
// may drop the mark of a final snapshot.
func (s Snapshot) BoundName() string {
	s.Encrypted, s.Final = false, false
	return s.Name()
}

const (
	// encryptedSuffix comes before that of the compression, although it was compressed first: etcd-backup-restore takes the first suffix
	// for the compression, and refuses to restore one that it does not know.
	encryptedSuffix = ".age"
	finalSuffix     = ".final"
)

const (
	// maxName is the longest name, in bytes.
	maxName = 96
	// maxCreated is the end of the year 9999: later times cannot be written as a date.
	maxCreated = 253402300799
)

var namePattern = regexp.MustCompile(`^(Full|Incr)-(\d{8,})-(\d{8,})-(\d+)(\.age)?(\.gz|\.Z|\.zlib)?(\.final)?$`)

// ParseName parses the name of an object. Anything else is an error, such as chunks of another tool, or unfinished files.
func ParseName(name string) (Snapshot, error) {
	if len(name) > maxName {
		return Snapshot{}, fmt.Errorf("%q ... is not the name of a snapshot: it is too long", name[:maxName])
	}
	m := namePattern.FindStringSubmatch(name)
	if m == nil {
		return Snapshot{}, fmt.Errorf("%q is not the name of a snapshot", name)
	}
	var numbers [3]int64
	for i := range numbers {
		n, err := strconv.ParseInt(m[i+2], 10, 64)
		if err != nil {
			return Snapshot{}, fmt.Errorf("%q is not the name of a snapshot: %w", name, err)
		}
		numbers[i] = n
	}
	s := Snapshot{
		Kind: Kind(m[1]), StartRevision: numbers[0], LastRevision: numbers[1],
		Created: time.Unix(numbers[2], 0).UTC(), Encrypted: m[5] != "", Compression: compressionOf(m[6]), Final: m[7] != "",
	}
	switch {
	case s.StartRevision > s.LastRevision:
		return Snapshot{}, fmt.Errorf("%q is not the name of a snapshot: it ends before it starts", name)
	case numbers[2] > maxCreated:
		return Snapshot{}, fmt.Errorf("%q is not the name of a snapshot: its time is after the year 9999", name)
	case s.Name() != name:
		return Snapshot{}, fmt.Errorf("%q is not the name of a snapshot: that would be %q", name, s.Name())
	}
	return s, nil
}

// maxPrefix is the longest prefix of objects, in bytes: the stores take keys of 1,024 bytes, and a name follows.
const maxPrefix = 768

// CheckPrefix returns an error if the prefix of objects in a store is not canonical: a prefix must name the same place in
// every store, and only the one that it appears to name. It may be empty.
func CheckPrefix(prefix string) error {
	switch {
	case prefix == "":
		return nil
	case len(prefix) > maxPrefix:
		return fmt.Errorf("the prefix has %d bytes; %d are allowed", len(prefix), maxPrefix)
	case !utf8.ValidString(prefix) || strings.ContainsFunc(prefix, sanitize.Harmful):
		return errors.New("the prefix has unprintable characters")
	case strings.HasPrefix(prefix, "/") || strings.Contains(prefix, `\`) || path.Clean(prefix) != prefix || prefix == "." || prefix == ".." || strings.HasPrefix(prefix, "../"):
		return fmt.Errorf("the prefix %q is not canonical: it begins and ends without a slash, and has no empty part, no \".\", no \"..\" and no backslash", sanitize.Text(prefix, 100))
	}
	return nil
}

// compare orders snapshots as they were taken.
func compare(a, b Snapshot) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.StartRevision, b.StartRevision), cmp.Compare(a.LastRevision, b.LastRevision))
}

// Facts returns what the result of a task reports about a snapshot: the object, its last revision, when it was taken, and its size
// if that is known.
func (s Snapshot) Facts() map[string]string {
	facts := map[string]string{
		"snapshot":  path.Join(s.Prefix, s.Name()),
		"revision":  strconv.FormatInt(s.LastRevision, 10),
		"createdOn": s.Created.UTC().Format(time.RFC3339),
	}
	if s.Size > 0 {
		facts["bytes"] = strconv.FormatInt(s.Size, 10)
	}
	return facts
}
