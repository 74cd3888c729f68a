// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package signature signs snapshots, and verifies their signatures. A signature is a DSSE envelope (github.com/secure-systems-lab/dsse)
// with one Ed25519 signature over a Statement. It is pure, except that it reads keys from a folder.
package signature

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
)

// Statement is what is signed of a snapshot. The name of an object has its kind, revisions and time.
type Statement struct {
	// Prefix of the store. It keeps snapshots of clusters that share a key apart.
	Prefix string `json:"prefix"`
	// Name, size in bytes, and SHA-256 in hex of the object.
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// History that the snapshot belongs to. See backup.Proof.
	History string `json:"history"`
	// Predecessor of a delta; nil for a full snapshot.
	Predecessor *backup.Reference `json:"predecessor,omitempty"`
}

// Proof returns what a snapshot keeps of the statement.
func (s Statement) Proof() *backup.Proof {
	p := &backup.Proof{SHA256: s.SHA256, History: s.History}
	if s.Predecessor != nil {
		p.Predecessor = *s.Predecessor
	}
	return p
}

// payloadType has the version of the Statement. A reader refuses other types, so a field that an older reader must not ignore
// needs a new one.
const payloadType = "application/vnd.etcd-foreman.snapshot.v1+json"

// MaxSize bounds an envelope, in bytes.
const MaxSize = 8 << 10

// envelope is the JSON of DSSE.
type envelope struct {
	PayloadType string              `json:"payloadType"`
	Payload     string              `json:"payload"`
	Signatures  []envelopeSignature `json:"signatures"`
}

type envelopeSignature struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"`
}

// encoding is DSSE's pre-authentication encoding: what is signed.
func encoding(payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload)
}

// Sign returns the envelope of a statement.
func (k *Keys) Sign(s Statement) ([]byte, error) {
	if k.signer == nil {
		return nil, fmt.Errorf("the Secret of the signing keys has no %s, so snapshots can be verified but not written", SigningKey)
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("signing snapshot %s: %w", s.Name, err)
	}
	payload, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding the signature of snapshot %s: %w", s.Name, err)
	}
	data, err := json.Marshal(envelope{
		PayloadType: payloadType,
		Payload:     base64.StdEncoding.EncodeToString(payload),
		Signatures:  []envelopeSignature{{KeyID: k.signerID, Sig: base64.StdEncoding.EncodeToString(ed25519.Sign(k.signer, encoding(payload)))}},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the signature of snapshot %s: %w", s.Name, err)
	}
	return data, nil
}

// Verify returns the statement of an envelope that one of the keys has signed. The payload is parsed only then.
func (k *Keys) Verify(data []byte) (Statement, error) {
	if len(data) > MaxSize {
		return Statement{}, fmt.Errorf("its signature has more than %d bytes", MaxSize)
	}
	var e envelope
	if err := decode(data, &e); err != nil {
		return Statement{}, errors.New("its signature cannot be read")
	}
	if e.PayloadType != payloadType || len(e.Signatures) != 1 {
		return Statement{}, errors.New("its signature is of another version")
	}
	payload, err := base64.StdEncoding.Strict().DecodeString(e.Payload)
	if err != nil {
		return Statement{}, errors.New("its signature cannot be read")
	}
	sig, err := base64.StdEncoding.Strict().DecodeString(e.Signatures[0].Sig)
	if err != nil {
		return Statement{}, errors.New("its signature cannot be read")
	}
	key, ok := k.trusted[e.Signatures[0].KeyID]
	if !ok {
		return Statement{}, errors.New("it is signed with a key that the Secret of the signing keys does not have")
	}
	if !ed25519.Verify(key, encoding(payload), sig) {
		return Statement{}, errors.New("its signature is invalid")
	}
	var s Statement
	if err := decode(payload, &s); err != nil {
		return Statement{}, fmt.Errorf("its signature is malformed: %w", err)
	}
	if err := s.check(); err != nil {
		return Statement{}, fmt.Errorf("its signature is malformed: %w", err)
	}
	return s, nil
}

// decode decodes JSON without unknown fields, and nothing after it.
func decode(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows it")
	}
	return nil
}

// check returns an error unless a statement is complete and canonical.
func (s Statement) check() error {
	snapshot, err := backup.ParseName(s.Name)
	if err != nil {
		return err
	}
	err = errors.Join(backup.CheckPrefix(s.Prefix), backup.CheckDigest(s.SHA256), backup.CheckHistory(s.History))
	switch {
	case err != nil:
		return err
	case s.Size < 0:
		return errors.New("its size is negative")
	case (snapshot.Kind == backup.Delta) != (s.Predecessor != nil):
		return errors.New("a delta has a predecessor, and a full snapshot has none")
	case s.Predecessor == nil:
		return nil
	}
	if _, err := backup.ParseName(s.Predecessor.Name); err != nil {
		return fmt.Errorf("its predecessor: %w", err)
	}
	return backup.CheckDigest(s.Predecessor.SHA256)
}

// Folder of the signatures beneath the prefix of a store. etcd-backup-restore takes neither its name nor those in
// it for snapshots.
const Folder = "signatures"

// namePrefix begins the names of signatures: a name that began with "Full" or "Incr" could be taken for a snapshot.
const namePrefix = "sig."

// Name returns the name of the signature of an object with a given content. Two contents of one name have two signatures, so that writing one never replaces the other.
func Name(r backup.Reference) string { return namePrefix + r.Name + "." + r.SHA256 }

// NamesOf returns how the names of all signatures of an object begin.
func NamesOf(object string) string { return namePrefix + object + "." }

// ParseName parses the name of a signature.
func ParseName(name string) (backup.Reference, error) {
	rest, ok := strings.CutPrefix(name, namePrefix)
	i := strings.LastIndexByte(rest, '.')
	if !ok || i < 0 {
		return backup.Reference{}, fmt.Errorf("%.120q is not the name of a signature", name)
	}
	r := backup.Reference{Name: rest[:i], SHA256: rest[i+1:]}
	if _, err := backup.ParseName(r.Name); err != nil {
		return backup.Reference{}, err
	}
	return r, backup.CheckDigest(r.SHA256)
}
