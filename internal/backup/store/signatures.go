// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/backup/signature"
	"github.com/etcd-foreman/etcd-foreman/internal/plain"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
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

// signatures verifies signatures once. The name of a signature has the digest of the content, so one that was valid stays valid
// until the keys change.
type signatures struct {
	mu sync.Mutex
	// state of the keys that the proofs were verified with.
	state  string
	keys   *signature.Keys
	proofs map[string]proven // by name of the signature
}

type proven struct {
	proof *backup.Proof
	size  int64
}

// Signed reports whether snapshots must be signed.
func (s *Store) Signed() bool { return s.config.SigningKeys != "" }

// keys returns the keys, and reads them again after a change.
func (s *Store) keys() (*signature.Keys, error) {
	s.signatures.mu.Lock()
	defer s.signatures.mu.Unlock()
	now, err := state(s.config.SigningKeys)
	if err != nil {
		return nil, fmt.Errorf("reading the signing keys: %w", err)
	}
	if s.signatures.keys != nil && s.signatures.state == now {
		return s.signatures.keys, nil
	}
	keys, err := signature.ReadKeys(s.config.SigningKeys)
	if err != nil {
		return nil, err
	}
	s.signatures.state, s.signatures.keys, s.signatures.proofs = now, keys, map[string]proven{}
	return keys, nil
}

// Trusted returns the snapshots that may be used, in the order in which they were taken: without signing keys, all. With keys, it
// returns those with a valid signature, and unsigned ones until a time, which is zero for none; a *backup.UnsignedError comes with
// them if an unsigned one would otherwise be restored. A signature is of a name and a size: the content is verified when it is
// read to its end.
func (s *Store) Trusted(ctx context.Context, until time.Time) ([]backup.Snapshot, error) {
	list, reasons, err := s.list(ctx)
	if err != nil || !s.Signed() {
		return list, err
	}
	trusted, refused := backup.Trusted(list, until)
	if refused != "" {
		return trusted, &backup.UnsignedError{Name: refused, Reason: reasons[refused], Where: s.String()}
	}
	return trusted, nil
}

// prove sets the proofs of snapshots, and returns why the others have none.
func (s *Store) prove(ctx context.Context, snapshots []backup.Snapshot) (reasons map[string]string, err error) {
	keys, err := s.keys()
	if err != nil {
		return nil, err
	}
	candidates := map[string][]string{}
	err = s.each(ctx, s.signatureFolder()+"/", func(o *blob.ListObject) {
		name := strings.TrimPrefix(o.Key, s.signatureFolder()+"/")
		if r, err := signature.ParseName(name); err == nil {
			candidates[r.Name] = append(candidates[r.Name], name)
		}
	})
	if err != nil {
		return nil, err
	}
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
func (s *Store) proveOne(ctx context.Context, keys *signature.Keys, snapshot *backup.Snapshot, names []string) (reason string, err error) {
	reason = unsigned
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
			snapshot.Proof = p.proof
			return "", nil
		}
	}
	return reason, nil
}

// verify reads a signature, and returns why it is not valid.
func (s *Store) verify(ctx context.Context, keys *signature.Keys, name string) (p proven, why string, err error) {
	s.signatures.mu.Lock()
	p, known := s.signatures.proofs[name]
	s.signatures.mu.Unlock()
	if known {
		return p, "", nil
	}
	data, err := s.readSignature(ctx, name)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return proven{}, unsigned, nil
	}
	if err != nil {
		return proven{}, "", fmt.Errorf("reading the signature %s: %w", name, err)
	}
	statement, err := keys.Verify(data)
	if err != nil {
		return proven{}, plain.Text(err.Error(), 200), nil
	}
	switch {
	case statement.Prefix != s.prefix():
		return proven{}, fmt.Sprintf("it was signed for prefix %q", statement.Prefix), nil
	case signature.Name(backup.Reference{Name: statement.Name, SHA256: statement.SHA256}) != name:
		return proven{}, "its signature is that of " + statement.Name, nil
	}
	p = proven{statement.Proof(), statement.Size}
	s.signatures.mu.Lock()
	defer s.signatures.mu.Unlock()
	if s.signatures.keys == keys {
		s.signatures.proofs[name] = p
	}
	return p, "", nil
}

func (s *Store) readSignature(ctx context.Context, name string) (data []byte, err error) {
	bucket, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	r, err := bucket.NewReader(ctx, path.Join(s.signatureFolder(), name), nil)
	if err != nil {
		return nil, err
	}
	// It was only read.
	defer func() { _ = r.Close() }()
	// One byte more tells that it is too large.
	return io.ReadAll(io.LimitReader(r, signature.MaxSize+1))
}

// sign writes the signature of an object whose content is complete, before the object gets its name. So an object of ours is never
// unsigned, however the agent ends, and nothing has to be signed later: what is unsigned was written by somebody else. A signature
// without an object is swept.
func (s *Store) sign(ctx context.Context, snapshot backup.Snapshot, size int64, digest hash.Hash) (*backup.Proof, error) {
	keys, err := s.keys()
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
	if err := s.writeSignature(ctx, name, data); err != nil {
		return nil, fmt.Errorf("writing the signature of snapshot %s: %w", snapshot.Name(), err)
	}
	return statement.Proof(), nil
}

func (s *Store) writeSignature(ctx context.Context, name string, data []byte) error {
	if s.config.Provider != Local {
		bucket, err := s.open(ctx)
		if err != nil {
			return err
		}
		return bucket.WriteAll(ctx, path.Join(s.signatureFolder(), name), data, &blob.WriterOptions{ContentType: "application/json"})
	}
	folder := filepath.Join(s.config.Container, filepath.FromSlash(s.signatureFolder()))
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	file, err := os.CreateTemp(folder, unfinished+"*")
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Chmod(0o640), file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), filepath.Join(folder, name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return errors.Join(syncDir(folder), syncDir(filepath.Dir(folder)))
}

// sweepSignatures removes signatures, and leftovers of writing them, that are older than a time and belong to no object: those of
// interrupted uploads, and of objects that were removed without them.
func (s *Store) sweepSignatures(ctx context.Context, before time.Time) error {
	objects := map[string]bool{}
	err := s.each(ctx, s.folder()+"/", func(o *blob.ListObject) { objects[strings.TrimPrefix(o.Key, s.folder()+"/")] = true })
	if err != nil {
		return err
	}
	var keys []string
	err = s.each(ctx, s.signatureFolder()+"/", func(o *blob.ListObject) {
		name := strings.TrimPrefix(o.Key, s.signatureFolder()+"/")
		r, err := signature.ParseName(name)
		if (err == nil && !objects[r.Name] || strings.HasPrefix(name, unfinished)) && o.ModTime.Before(before) {
			keys = append(keys, o.Key)
		}
	})
	if err != nil {
		return err
	}
	return s.remove(ctx, keys)
}

// signatureFolder is the folder of the signatures.
func (s *Store) signatureFolder() string { return path.Join(s.config.Prefix, signature.Folder) }

// prefix of the store, as it is signed.
func (s *Store) prefix() string { return strings.TrimSuffix(s.config.Prefix, "/") }

// verified is the object of a signed snapshot. It returns io.EOF only if the content is what was signed.
type verified struct {
	io.ReadCloser
	name string
	want string // SHA-256
	left int64  // how many bytes may follow
	hash hash.Hash
}

func newVerified(object io.ReadCloser, snapshot backup.Snapshot) io.ReadCloser {
	if snapshot.Proof == nil {
		return object
	}
	return &verified{ReadCloser: object, name: snapshot.Name(), want: snapshot.Proof.SHA256, left: snapshot.Size, hash: sha256.New()}
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	v.hash.Write(p[:n])
	v.left -= int64(n)
	if v.left < 0 || errors.Is(err, io.EOF) && hex.EncodeToString(v.hash.Sum(nil)) != v.want {
		return n, &backup.CorruptError{Name: v.name, Reason: "its content is not what was signed"}
	}
	return n, err
}
