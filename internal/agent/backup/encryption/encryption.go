// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package encryption encrypts snapshots for recipients, and decrypts them with identities. An encrypted object is an age file
// (age-encryption.org/v1): a key of its own, wrapped for each recipient, and the plaintext in chunks, none of which can be altered,
// moved, left out or added. Its header names the snapshot, under the same authentication, so an object does not pass for another one.
// The age command decrypts it to what the object would be without encryption.
package encryption

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"filippo.io/age"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
)

// nameStanza is the type of the stanza in the header that has the name of the snapshot. Readers of age ignore stanzas that they do not
// know, and the header's MAC covers all.
const nameStanza = "etcd-foreman-snapshot"

const (
	// maxHeader bounds the header of an object, in bytes: it is held in memory. A recipient takes about 150.
	maxHeader = 64 << 10
	// Beginning is how much of an object Decrypt needs to return at all, in bytes.
	Beginning = maxHeader
)

// Recipients can decrypt what is encrypted for them.
type Recipients []age.Recipient

// ParseRecipients parses public keys.
func ParseRecipients(texts []string) (Recipients, error) {
	var all Recipients
	for _, text := range texts {
		recipient, err := backup.ParseRecipient(text)
		if err != nil {
			return nil, err
		}
		all = append(all, recipient)
	}
	return all, nil
}

// Encrypt returns a writer that encrypts a snapshot into its object. Closing it completes the object, and leaves it open.
func (r Recipients) Encrypt(s backup.Snapshot, object io.Writer) (io.WriteCloser, error) {
	w, err := age.Encrypt(object, append(slices.Clone(r), named(s.BoundName()))...)
	if err != nil {
		return nil, fmt.Errorf("encrypting snapshot %s: %w", s.Name(), err)
	}
	return w, nil
}

// named adds the name to the header. It wraps no key.
type named string

// Wrap implements age.Recipient.
func (n named) Wrap([]byte) ([]*age.Stanza, error) {
	return []*age.Stanza{{Type: nameStanza, Args: []string{string(n)}}}, nil
}

// Decrypt returns the plaintext of an encrypted snapshot. Only io.EOF confirms that it is complete. It returns a *backup.LockedError if
// no identity decrypts it, and a *backup.CorruptError if the object is altered, or that of another snapshot; errors of the object's own
// reader are returned as they are.
func (i Identities) Decrypt(s backup.Snapshot, object io.Reader) (io.Reader, error) {
	source := &source{r: object, left: maxHeader}
	opener := &opener{identities: i}
	content, err := age.Decrypt(source, opener)
	if _, none := errors.AsType[*age.NoIdentityMatchError](err); none {
		reason := "the Secret of spec.backup.encryption.identitySecretRef does not exist, or has no identity"
		if len(i) > 0 {
			reason = fmt.Sprintf("it was encrypted for others than the %d identities in the Secret of spec.backup.encryption.identitySecretRef: add that of one of its recipients", len(i))
		}
		return nil, &backup.LockedError{Name: s.Name(), Reason: reason, NoneFits: true}
	}
	if err != nil {
		return nil, source.blame(s, err)
	}
	if want := []string{s.BoundName()}; !slices.Equal(opener.names, want) {
		return nil, &backup.CorruptError{Name: s.Name(), Reason: fmt.Sprintf("its encrypted header names %.200q", opener.names)}
	}
	source.left = unlimited
	return &plaintext{snapshot: s, source: source, r: content}, nil
}

// opener opens the header of an object, and notes what it names. Only once age has verified the header's MAC are the names true.
type opener struct {
	identities Identities
	names      []string
}

// Unwrap implements age.Identity.
func (o *opener) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	for _, s := range stanzas {
		if s.Type == nameStanza {
			o.names = append(o.names, s.Args...)
		}
	}
	for _, identity := range o.identities {
		if key, err := identity.Unwrap(stanzas); !errors.Is(err, age.ErrIncorrectIdentity) {
			return key, err
		}
	}
	return nil, age.ErrIncorrectIdentity
}

// plaintext blames the object for what age does not accept.
type plaintext struct {
	snapshot backup.Snapshot
	source   *source
	r        io.Reader
}

func (p *plaintext) Read(into []byte) (int, error) {
	n, err := p.r.Read(into)
	if err != nil && !errors.Is(err, io.EOF) {
		err = p.source.blame(p.snapshot, err)
	}
	return n, err
}

// unlimited is how much is left once the header has been read.
const unlimited = -1

// source reads an object, no more than a number of bytes of its header, and remembers why reading failed.
type source struct {
	r      io.Reader
	left   int
	failed error
}

func (s *source) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, fmt.Errorf("its header has more than %d bytes", maxHeader)
	}
	if s.left > 0 {
		p = p[:min(len(p), s.left)]
	}
	n, err := s.r.Read(p)
	if s.left > 0 {
		s.left -= n
	}
	if err != nil && !errors.Is(err, io.EOF) {
		s.failed = err
	}
	return n, err
}

func (s *source) blame(snapshot backup.Snapshot, err error) error {
	if s.failed != nil {
		return fmt.Errorf("reading snapshot %s: %w", snapshot.Name(), s.failed)
	}
	return &backup.CorruptError{Name: snapshot.Name(), Reason: "it cannot be decrypted: " + sanitize.Text(err.Error(), 200)}
}
