// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"path"
	"strings"
	"sync"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/signature"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"gocloud.dev/blob"
	"golang.org/x/sync/errgroup"
)

const (
	// maxSignatures bounds the signatures of one object that are read: a writer of the bucket may put any number there.
	maxSignatures = 4
	// parallelReads of signatures.
	parallelReads = 8
)

// unsigned is why an object has no proof if it has no signature at all.
const unsigned = "it is not signed"

// signatures verifies the signatures of the objects of a store, each once: the name of a signature has the digest of the content, so a
// valid one stays valid until the keys change. It is safe for concurrent use.
type signatures struct {
	objects *objects

	mu sync.Mutex
	// state of the keys that the proofs were verified with.
	state  string
	keys   *signature.Keys
	proofs map[string]proven // by name of the signature, of those that were last listed
}

type proven struct {
	proof *backup.Proof
	size  int64
}

// trustedKeys returns the keys, and reads them again after a change.
func (s *signatures) trustedKeys() (*signature.Keys, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, err := state(s.objects.config.SigningKeys)
	if err != nil {
		return nil, fmt.Errorf("reading the signing keys: %w", err)
	}
	if s.keys != nil && s.state == now {
		return s.keys, nil
	}
	keys, err := signature.ReadKeys(s.objects.config.SigningKeys)
	if err != nil {
		return nil, err
	}
	s.state, s.keys, s.proofs = now, keys, map[string]proven{}
	return keys, nil
}

// prove sets the proofs of snapshots, and returns why the others have none.
func (s *signatures) prove(ctx context.Context, snapshots []backup.Snapshot) (reasons map[string]string, err error) {
	keys, err := s.trustedKeys()
	if err != nil {
		return nil, err
	}
	candidates, listed := map[string][]string{}, map[string]bool{}
	err = s.objects.in(ctx, s.folder(), func(name string, _ *blob.ListObject) {
		if r, err := signature.ParseName(name); err == nil {
			candidates[r.Name], listed[name] = append(candidates[r.Name], name), true
		}
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	maps.DeleteFunc(s.proofs, func(name string, _ proven) bool { return !listed[name] })
	s.mu.Unlock()
	reasons = map[string]string{}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelReads)
	for i := range snapshots {
		group.Go(func() error {
			reason, err := s.proveOne(ctx, keys, &snapshots[i], candidates[snapshots[i].Name()])
			mu.Lock()
			defer mu.Unlock()
			if reason != "" {
				reasons[snapshots[i].Name()] = reason
			}
			return err
		})
	}
	return reasons, group.Wait()
}

// proveOne sets the proof of a snapshot, or returns why it has none.
func (s *signatures) proveOne(ctx context.Context, keys *signature.Keys, snapshot *backup.Snapshot, names []string) (reason string, err error) {
	reason = unsigned
	var proofs []*backup.Proof
	for _, name := range names[:min(len(names), maxSignatures)] {
		p, why, err := s.verify(ctx, keys, name)
		switch {
		case err != nil:
			return "", err
		case why != "":
			reason = why
		case p.size != snapshot.Size:
			reason = fmt.Sprintf("it has %d bytes, and %d were signed", snapshot.Size, p.size)
		default:
			proofs = append(proofs, p.proof)
		}
	}
	if len(proofs) == 0 {
		return reason, nil
	}
	snapshot.Proof = proofs[0]
	if len(proofs) > 1 {
		return "", s.choose(ctx, snapshot, proofs)
	}
	return "", nil
}

// choose sets the proof of a snapshot whose name was signed for several contents of its size: a writer that died before the object got its
// name was followed by another within the same second. Only the content shows which is its own.
func (s *signatures) choose(ctx context.Context, snapshot *backup.Snapshot, proofs []*backup.Proof) error {
	bucket, err := s.objects.open(ctx)
	if err != nil {
		return err
	}
	hash := sha256.New()
	switch err := bucket.Download(ctx, path.Join(snapshot.Prefix, snapshot.Name()), hash, nil); {
	case isMissing(err):
		return nil // it has been removed
	case err != nil:
		return fmt.Errorf("reading snapshot %s, whose name was signed for %d contents: %w", snapshot.Name(), len(proofs), err)
	}
	digest := hex.EncodeToString(hash.Sum(nil))
	for _, proof := range proofs {
		if proof.SHA256 == digest {
			snapshot.Proof = proof
		}
	}
	return nil
}

// verify reads a signature, and returns why it is not valid.
func (s *signatures) verify(ctx context.Context, keys *signature.Keys, name string) (p proven, why string, err error) {
	s.mu.Lock()
	p, known := s.proofs[name]
	s.mu.Unlock()
	if known {
		return p, "", nil
	}
	// One byte more shows that it is too large.
	data, err := s.objects.readSmall(ctx, s.key(name), signature.MaxSize+1)
	if isMissing(err) {
		return proven{}, unsigned, nil
	}
	if err != nil {
		return proven{}, "", fmt.Errorf("reading the signature %s: %w", name, err)
	}
	statement, err := keys.Verify(data)
	if err != nil {
		return proven{}, sanitize.Text(err.Error(), 200), nil
	}
	switch {
	case statement.Prefix != s.prefix():
		return proven{}, fmt.Sprintf("it was signed for prefix %q", statement.Prefix), nil
	case signature.Name(backup.Reference{Name: statement.Name, SHA256: statement.SHA256}) != name:
		return proven{}, "its signature is that of " + statement.Name, nil
	}
	p = proven{statement.Proof(), statement.Size}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == keys {
		s.proofs[name] = p
	}
	return p, "", nil
}

// sign writes the signature of an object whose content is complete, before the object gets its name. So an agent's object is never
// unsigned, even after a crash, and nothing has to be signed later: an unsigned object has another author. A signature
// without an object is swept.
func (s *signatures) sign(ctx context.Context, snapshot backup.Snapshot, size int64, digest hash.Hash) (*backup.Proof, error) {
	keys, err := s.trustedKeys()
	if err != nil {
		return nil, err
	}
	statement := signature.Statement{
		Prefix: s.prefix(), Name: snapshot.Name(), Size: size, SHA256: hex.EncodeToString(digest.Sum(nil)),
	}
	if p := snapshot.Proof; p != nil {
		statement.History = p.History
		if p.Predecessor != (backup.Reference{}) {
			statement.Predecessor = &p.Predecessor
		}
	}
	if statement.History == "" {
		statement.History = backup.NewHistory()
	}
	data, err := keys.Sign(statement)
	if err != nil {
		return nil, err
	}
	name := signature.Name(backup.Reference{Name: statement.Name, SHA256: statement.SHA256})
	if err := s.objects.writeSmall(ctx, s.key(name), "application/json", data); err != nil {
		return nil, fmt.Errorf("writing the signature of snapshot %s: %w", snapshot.Name(), err)
	}
	return statement.Proof(), nil
}

// of returns the keys of all signatures of a snapshot. The name of another snapshot may begin with that of this one.
func (s *signatures) of(ctx context.Context, snapshot backup.Snapshot) (keys []string, err error) {
	err = s.objects.each(ctx, s.key(signature.NamesOf(snapshot.Name())), func(o *blob.ListObject) {
		if r, err := signature.ParseName(path.Base(o.Key)); err == nil && r.Name == snapshot.Name() {
			keys = append(keys, o.Key)
		}
	})
	return keys, err
}

// folder of the signatures.
func (s *signatures) folder() string { return path.Join(s.objects.config.Prefix, signature.Folder) }

// key of a signature.
func (s *signatures) key(name string) string { return path.Join(s.folder(), name) }

// prefix of the store, as it is signed.
func (s *signatures) prefix() string { return strings.TrimSuffix(s.objects.config.Prefix, "/") }
