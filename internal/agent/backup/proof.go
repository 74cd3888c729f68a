// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Proof is what the signature of a snapshot states besides its name and size.
type Proof struct {
	// SHA256 of the object, in hex.
	SHA256 string
	// History identifies the sequence of states that the snapshot belongs to. A restore never combines two histories: after an
	// older state was restored, the same revisions exist in both.
	History string
	// Predecessor is the snapshot that a delta continues; its zero value for a full snapshot.
	Predecessor Reference
}

// Reference names an object and its content.
type Reference struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

// Reference returns the reference to a signed snapshot; the zero value for an unsigned one.
func (s Snapshot) Reference() Reference {
	if s.Proof == nil {
		return Reference{}
	}
	return Reference{Name: s.Name(), SHA256: s.Proof.SHA256}
}

// history returns the history of a snapshot; empty for an unsigned one.
func (s Snapshot) history() string {
	if s.Proof == nil {
		return ""
	}
	return s.Proof.History
}

// historySize is the size of a history's identifier, in bytes.
const historySize = 16

// NewHistory returns the identifier of a new history.
func NewHistory() string {
	id := make([]byte, historySize)
	// It never fails: crypto/rand ends the process instead.
	_, _ = rand.Read(id)
	return hex.EncodeToString(id)
}

// CheckHistory returns an error unless a text can be the identifier of a history.
func CheckHistory(id string) error { return checkHex("history", id, historySize) }

// CheckDigest returns an error unless a text can be a SHA-256 in hex.
func CheckDigest(digest string) error { return checkHex("SHA-256", digest, 32) }

func checkHex(what, text string, size int) error {
	if decoded, err := hex.DecodeString(text); err != nil || len(decoded) != size || strings.ToLower(text) != text {
		return fmt.Errorf("the %s is not %d lowercase hexadecimal digits", what, 2*size)
	}
	return nil
}

// Trust is which snapshots of a store may be used.
type Trust int

// The trusts.
const (
	// TrustAll snapshots.
	TrustAll Trust = iota
	// TrustSigned ones: those with a proof.
	TrustSigned
	// TrustEncrypted ones. The name says so; that one was encrypted for us shows when it is read.
	TrustEncrypted
)

func (t Trust) has(s Snapshot) bool {
	return t == TrustAll || t == TrustSigned && s.Proof != nil || t == TrustEncrypted && s.Encrypted
}

// Lacks returns what a snapshot lacks that a trust does not have.
func (t Trust) Lacks() string {
	if t == TrustEncrypted {
		return "it is not encrypted"
	}
	return "it has no valid signature"
}

// UntrustedError reports a snapshot that may not be used: snapshots must be signed or encrypted, and it is not.
type UntrustedError struct {
	// Name of the object.
	Name string
	// Trust that does not have it.
	Trust Trust
	// Reason, for people.
	Reason string
	// Where the object is, for people.
	Where string
}

func (e *UntrustedError) Error() string {
	others := "signed"
	if e.Trust == TrustEncrypted {
		others = "encrypted"
	}
	return fmt.Sprintf("snapshot %s in %s is refused: %s. If you do not know who wrote it, treat the bucket as compromised. Remove the object to use the %s snapshots without it", e.Name, e.Where, e.Reason, others)
}

// Trusted returns the snapshots of a list that may be used: those that a trust has, and others that were taken until a time; a zero
// time accepts none. Another one that is newer than the newest trusted full one would be part of what is restored: it makes Trusted
// return its name, together with the trusted ones. So does one in a store without any trusted full snapshot.
func Trusted(list []Snapshot, trust Trust, until time.Time) (trusted []Snapshot, refused string) {
	sorted := Sorted(list)
	for _, s := range sorted {
		accepted := trust.has(s) || !until.IsZero() && !s.Created.After(until)
		switch {
		case accepted && s.Kind == Full:
			trusted, refused = append(trusted, s), ""
		case accepted:
			trusted = append(trusted, s)
		case refused == "":
			refused = s.Name()
		}
	}
	return trusted, refused
}

// maxAhead is how far ahead of the clock an untrusted snapshot may be dated and still influence the times of later ones.
const maxAhead = 24 * time.Hour

// LastTaken returns the time of the newest snapshot of a list, which a new one must exceed. Ones that a trust does not have and that are
// dated far ahead do not count: they would leave no time for new ones.
func LastTaken(list []Snapshot, trust Trust, now time.Time) (last time.Time) {
	for _, s := range list {
		if s.Created.After(last) && (trust.has(s) || s.Created.Before(now.Add(maxAhead))) {
			last = s.Created
		}
	}
	return last
}

// Record is the newest snapshot that was recorded outside of the store. Its zero value is none.
type Record struct {
	Revision int64
	Created  time.Time
	// Accepted is the revision at which a person lets unsigned snapshots end nevertheless; 0 for none.
	Accepted int64
}

// Continued returns the record of the last snapshot, given that of the last full one and that of the last delta: the delta if it continues the full
// snapshot. A delta that was taken before it does not, nor does one that ends before it: etcd-backup-restore renews the Lease of deltas also without
// a new one.
func (r Record) Continued(by Record) Record {
	if by.Revision > r.Revision && !by.Created.Before(r.Created) {
		return by
	}
	return r
}

// ParseRecord returns what a lease records: the revision as its holder, and the time of the snapshot as its renew time. A lease
// that was never renewed records nothing.
func ParseRecord(holder string, renewed time.Time) (Record, error) {
	if holder == "" || renewed.IsZero() {
		return Record{}, nil
	}
	revision, err := strconv.ParseInt(holder, 10, 64)
	if err != nil {
		return Record{}, errors.New("its holder is not the revision of a snapshot: remove the holder (kubectl patch lease NAME --type merge --patch '{\"spec\":{\"holderIdentity\":null}}'), and the next snapshot records itself")
	}
	return Record{Revision: revision, Created: renewed.UTC().Truncate(time.Second)}, nil
}

// OlderError reports a store that ends before the recorded snapshot: newer snapshots were removed, older ones were put back, or it is another store.
type OlderError struct {
	// Reached is the newest snapshot of the store, Recorded the newest one that was recorded.
	Reached, Recorded Record
}

func (e *OlderError) Error() string {
	return fmt.Sprintf("the snapshots end at revision %d, taken at %s, but one of revision %d, taken at %s, is recorded: newer snapshots were removed from the store, older ones were put back, or it is another store than before",
		e.Reached.Revision, e.Reached.Created.UTC().Format(time.RFC3339), e.Recorded.Revision, e.Recorded.Created.UTC().Format(time.RFC3339))
}

// Check returns an *OlderError if a chain ends before the record.
func (r Record) Check(chain Chain) error {
	last := chain.Last()
	reached := Record{Revision: last.LastRevision, Created: last.Created}
	if reached.Created.Before(r.Created) || reached.Revision < r.Revision {
		return &OlderError{Reached: reached, Recorded: r}
	}
	return nil
}
