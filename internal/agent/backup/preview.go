// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
)

// Preview is what a restore to a target would bring: the result of the agent's command restore-preview, as JSON.
type Preview struct {
	// Base is the full snapshot that it begins with, and Deltas the number of deltas that follow.
	Base   string `json:"base,omitempty"`
	Deltas int    `json:"deltas,omitempty"`
	// Revision of the state, and when its last event was seen; for a full snapshot, when that was taken.
	Revision int64     `json:"revision,omitempty"`
	Time     time.Time `json:"time,omitzero"`
	// Hash is etcd's HashKV at the revision.
	Hash uint32 `json:"hash,omitempty"`
	// Keys, and Bytes of the database.
	Keys  int64 `json:"keys,omitempty"`
	Bytes int64 `json:"bytes,omitempty"`
	// Alarms of then; a restore clears them.
	Alarms []string `json:"alarms,omitempty"`
	// Auth: clients had to log in; Users is how many there were.
	Auth  bool `json:"auth,omitempty"`
	Users int  `json:"users,omitempty"`
	// Version of the cluster of then, as major.minor.patch; empty if the data does not say.
	Version string `json:"version,omitempty"`
	// End of the store: its newest state, with EndBytes of the database; nil if NotCompared says why it is not known.
	End      *Point `json:"end,omitempty"`
	EndBytes int64  `json:"endBytes,omitempty"`
	// Lost is how many revisions follow until the end of the store, without those by which a recovery or a restore has raised them. 0 if that has another history, or if the state is of another store.
	Lost int64 `json:"lost,omitempty"`
	// Changes is what a restore changes from the end of the store, in total and by prefix.
	Changes  Changes         `json:"changes,omitzero"`
	Prefixes []PrefixChanges `json:"prefixes,omitempty"`
	// NotCompared is why there are no Changes; empty if there are.
	NotCompared string `json:"notCompared,omitempty"`
	// FromTaken is when the newest snapshot was taken of the other store that the state is of: if that is recent, something may take
	// snapshots there, and remove them.
	FromTaken time.Time `json:"fromTaken,omitzero"`
	// Digest binds a restore to exactly this: see DigestOf.
	Digest string `json:"digest,omitempty"`
	// Refused is why there is no such restore; nil if there may be one. With facts about the state, a person may accept it by a flag.
	Refused *Refusal `json:"refused,omitempty"`
}

// digestPattern is what DigestOf returns.
var digestPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Validate returns an error unless a preview is one that the agent makes. Its image may be a tenant's choice, and people paste commands with
// the base and the digest into a shell.
func (p Preview) Validate() error {
	names := []string{p.Base}
	switch {
	case p.Refused != nil:
		names = append(names, p.Refused.Older)
	case p.Base == "":
		return errors.New("it names no full snapshot to begin with")
	case p.Revision < 1:
		return fmt.Errorf("it is of revision %d", p.Revision)
	case p.Digest == "":
		return errors.New("it has no digest")
	}
	for _, name := range names {
		if name == "" {
			continue
		}
		if s, err := ParseName(name); err != nil {
			return err
		} else if s.Kind != Full {
			return fmt.Errorf("%q is not the name of a full snapshot", name)
		}
	}
	if p.Digest != "" && !digestPattern.MatchString(p.Digest) {
		return fmt.Errorf("%q is not a SHA-256 in hex", sanitize.Text(p.Digest, 2*sha256.Size))
	}
	if p.Deltas < 0 || p.Bytes < 0 || p.EndBytes < 0 || p.End != nil && p.End.Revision < 0 {
		return errors.New("it has negative numbers")
	}
	return nil
}

// Changes is what a restore changes, in keys.
type Changes struct {
	// Back are keys that come back, Changed those that get another value, Gone those that vanish.
	Back    int64 `json:"back,omitempty"`
	Changed int64 `json:"changed,omitempty"`
	Gone    int64 `json:"gone,omitempty"`
}

// PrefixChanges is what a restore changes below a prefix of keys, such as "/registry/pods/…".
type PrefixChanges struct {
	Prefix string `json:"prefix"`
	Changes
}

// Refusal is why a target is not restored.
type Refusal struct {
	Code RefusalCode `json:"code"`
	// Message is for people.
	Message string `json:"message"`
	// Before and After are the nearest states that can be restored, for TargetOutside.
	Before *Point `json:"before,omitempty"`
	After  *Point `json:"after,omitempty"`
	// Older is the next older full snapshot that leads to the target, for SnapshotCorrupt; empty if there is none.
	Older string `json:"older,omitempty"`
}

// RefusalCode is the kind of a Refusal.
type RefusalCode string

// The codes.
const (
	// TargetOutside: the snapshots do not lead to the target.
	TargetOutside RefusalCode = "TargetOutside"
	// SnapshotCorrupt: a snapshot on the way to the target cannot be used. An older full snapshot is not taken silently.
	SnapshotCorrupt RefusalCode = "SnapshotCorrupt"
	// NoBackup: there is no full snapshot.
	NoBackup RefusalCode = "NoBackup"
	// Locked: a snapshot on the way to the target is encrypted, and there is no identity here that decrypts it.
	Locked RefusalCode = "Locked"
	// NotTrusted: snapshots must be signed or encrypted, and one is not, or the store ends before what is recorded.
	NotTrusted RefusalCode = "NotTrusted"
	// NewerVersion: the data is of a newer minor version of etcd than the members have.
	NewerVersion RefusalCode = "NewerVersion"
	// AuthEnabled: clients of then had to log in, which may lock out the operator and the clients of now.
	AuthEnabled RefusalCode = "AuthEnabled"
	// OverQuota: the database is larger than the quota of the members.
	OverQuota RefusalCode = "OverQuota"
)

// Members is what a restored state has to fit.
type Members struct {
	// Version of etcd, as major.minor.patch; empty if it is unknown.
	Version string
	// Quota of the database, in bytes; 0 if it is unknown.
	Quota int64
	// AcceptAuth: a person has accepted that clients have to log in.
	AcceptAuth bool
}

// Fits returns why members could not serve with the previewed state; nil if they could.
func (p Preview) Fits(m Members) *Refusal {
	switch {
	case newerMinor(p.Version, m.Version):
		return &Refusal{Code: NewerVersion, Message: fmt.Sprintf("the data is of etcd %s, and the members run %s, which cannot read it: update the members first", p.Version, m.Version)}
	case m.Quota > 0 && p.Bytes >= m.Quota:
		return &Refusal{Code: OverQuota, Message: fmt.Sprintf("the database has %d bytes, and the quota is %d: the members would accept no writes. Raise spec.etcd.quota first", p.Bytes, m.Quota)}
	case p.Auth && !m.AcceptAuth:
		return &Refusal{Code: AuthEnabled, Message: fmt.Sprintf("at that time, clients had to log in (%d users): those of now, and the operator, may be locked out. If you know a login of that time, preview again with --accept-auth (acceptAuth)", p.Users)}
	}
	return nil
}

// newerMinor reports whether a version is of a newer minor version than another; false if one of them is not known.
func newerMinor(version, than string) bool {
	var major, minor, thanMajor, thanMinor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return false
	}
	if _, err := fmt.Sscanf(than, "%d.%d", &thanMajor, &thanMinor); err != nil {
		return false
	}
	return major > thanMajor || major == thanMajor && minor > thanMinor
}

// DigestOf returns the digest, in hex, of a restore of an Etcd, by its UID, and of its cluster, by its ID in hex: of the snapshots that it
// uses, the revision where it ends, and HashKV there.
func DigestOf(etcdUID, clusterID string, chain Chain, revision int64, hash uint32) string {
	sum := sha256.New()
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(sum, format+"\n", args...) } // a hash never fails to write
	line("restore of %q, cluster %q, to revision %d with hash %d", etcdUID, clusterID, revision, hash)
	for _, s := range append([]Snapshot{*chain.Full}, chain.Deltas...) {
		line("%s %d", s.Name(), s.Size)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
