// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"github.com/go-logr/logr"
)

// PreviewConfig of a preview.
type PreviewConfig struct {
	// Store is only read.
	Store *store.Store
	// From is where the snapshots of the target are, if not in the Store, with whose newest state it is compared; nil otherwise.
	From *store.Store
	// WorkDir has space for the database and the largest delta.
	WorkDir string
	// Target to restore.
	Target backup.Target
	// EtcdUID and ClusterID, in hex, are what the digest binds a restore to.
	EtcdUID, ClusterID string
	// Members that the state has to fit.
	Members backup.Members
	// Record is the newest snapshot that was recorded outside of the store. See Config.
	Record backup.Record
	Log    logr.Logger
}

// Preview restores a target into a folder, and reports what a restore of it would bring. A target that cannot be restored is a preview that
// is refused; an error is something that may be different next time.
func Preview(ctx context.Context, config PreviewConfig) (preview backup.Preview, err error) {
	if err := config.Target.Validate(); err != nil {
		return backup.Preview{}, err
	}
	work := filepath.Join(config.WorkDir, "preview")
	err = inFolder(work, "preview", func() (err error) {
		preview, err = config.preview(ctx, work)
		if refused := refusalOf(err); refused != nil {
			preview, err = backup.Preview{Refused: refused}, nil
		}
		return err
	})
	return bounded(preview), err
}

func (c PreviewConfig) preview(ctx context.Context, work string) (p backup.Preview, err error) {
	defer guard(&err)()
	own := &source{store: c.Store, work: work, log: c.Log, record: c.Record}
	list, err := c.Store.Trusted(ctx, time.Time{})
	if err != nil {
		return backup.Preview{}, err
	}
	newest, broken := backup.Newest(list)
	if c.Store.Signed() {
		if err := c.Record.Check(newest); err != nil {
			return backup.Preview{}, err
		}
	}
	from := own
	if c.From != nil {
		from = &source{store: c.From, work: work, log: c.Log}
		if list, err = c.From.Trusted(ctx, time.Time{}); err != nil {
			return backup.Preview{}, err
		}
	}
	choices, err := c.Target.Choose(list)
	if err != nil {
		return backup.Preview{}, err
	}
	path := filepath.Join(work, "db")
	choice, at, err := from.firstOf(ctx, choices, path)
	if err != nil {
		return backup.Preview{}, err
	}
	p = backup.Preview{Base: choice.Full.Name(), Deltas: len(choice.Deltas), Revision: at.revision, Time: at.seen}
	if p.Hash, err = hashKV(path, at.revision); err != nil {
		return backup.Preview{}, err
	}
	then, err := describe(path, &p)
	if err != nil {
		return backup.Preview{}, err
	}
	p.Keys, p.Digest = int64(len(then.keys)), backup.DigestOf(c.EtcdUID, c.ClusterID, choice.Chain, p.Revision, p.Hash)
	p.Refused = p.Fits(c.Members)
	if from != own {
		p.FromTaken, list = list[len(list)-1].Created, nil
	}
	if broken == nil {
		broken = own.compare(ctx, &p, then, path, newest, list)
	}
	if broken != nil {
		p.NotCompared = sanitize.Text(broken.Error(), maxReason)
	}
	return p, nil
}

// olderError is the error of a full snapshot beside which an older one leads to the target.
type olderError struct {
	error
	older string
}

func (e *olderError) Unwrap() error { return e.error }

// firstOf restores the first choice that does not lead beyond the target. One whose full snapshot is corrupt is an error: that an older one
// is used is for a person to decide.
func (s *source) firstOf(ctx context.Context, choices []backup.Choice, path string) (backup.Choice, applied, error) {
	var err error
	for i, choice := range choices {
		var at applied
		if at, err = s.restoreTo(ctx, path, choice); err == nil {
			choice.Deltas = choice.Deltas[:at.deltas]
			return choice, at, nil
		}
		if errors.Is(err, errBeyond) {
			continue
		}
		if corrupt, ok := errors.AsType[*backup.CorruptError](err); ok && corrupt.Name == choice.Full.Name() && i+1 < len(choices) {
			err = &olderError{err, choices[i+1].Full.Name()}
		}
		break
	}
	return backup.Choice{}, applied{}, err
}

// restoreTo makes a database of a chain.
func (s *source) restoreTo(ctx context.Context, path string, choice backup.Choice) (applied, error) {
	if err := os.RemoveAll(path); err != nil {
		return applied{}, fmt.Errorf("removing another database: %w", err)
	}
	if err := s.database(ctx, *choice.Full, path); err != nil {
		return applied{}, err
	}
	return s.applyAll(ctx, path, choice)
}

// compare adds what a restore changes from the end of the store, which has the given snapshots; nil if the state is of another store. The database
// goes on to there, if it is of this store and its full snapshot leads there.
func (s *source) compare(ctx context.Context, p *backup.Preview, then *keySpace, path string, newest backup.Chain, list []backup.Snapshot) (err error) {
	at, choice, same := applied{}, backup.Choice{Chain: newest}, list != nil
	if same && newest.Full.Name() == p.Base {
		at, err = s.applyAll(ctx, path, choice)
	} else {
		at, err = s.restoreTo(ctx, path, choice)
	}
	if err != nil {
		return err
	}
	end := backup.Preview{}
	now, err := describe(path, &end)
	if err != nil {
		return err
	}
	p.EndBytes, p.End = end.Bytes, &backup.Point{Revision: at.revision, Time: newest.Last().Created}
	if same {
		p.Lost = max(at.revision-p.Revision-raised(list, p.Revision, p.Time), 0)
	}
	p.Changes, p.Prefixes = then.changesFrom(now)
	return nil
}

// raised returns by how much recoveries and restores have raised the revision since a state, which is no write that is lost: by a margin above all that
// was known each time, and a full snapshot is the first of the new cluster, unless that was restored as well, or its snapshot expired.
func raised(list []backup.Snapshot, reached int64, at time.Time) (sum int64) {
	for _, s := range list {
		if !s.Created.After(at) {
			continue
		}
		if s.Kind == backup.Full {
			sum += max(0, s.LastRevision-reached) / margin * margin
		}
		reached = max(reached, s.LastRevision)
	}
	return sum
}

// refusalOf returns the refusal that an error is; nil if it may be different next time.
func refusalOf(err error) *backup.Refusal {
	if err == nil {
		return nil
	}
	r := &backup.Refusal{Message: sanitize.Text(err.Error(), maxReason)}
	if older, ok := errors.AsType[*olderError](err); ok {
		r.Older = older.older
	}
	if outside, ok := errors.AsType[*backup.OutsideError](err); ok {
		r.Code, r.Before, r.After = backup.TargetOutside, outside.Before, outside.After
		return r
	}
	var corrupt *backup.CorruptError
	var gap *backup.GapError
	var lost *backup.LostError
	var locked *backup.LockedError
	var untrusted *backup.UntrustedError
	var older *backup.OlderError
	switch {
	case errors.Is(err, backup.ErrNoFull):
		r.Code = backup.NoBackup
	case errors.As(err, &untrusted), errors.As(err, &older):
		r.Code = backup.NotTrusted
	case errors.As(err, &locked):
		r.Code = backup.Locked
	case errors.As(err, &corrupt):
		r.Code = backup.SnapshotCorrupt
	case errors.As(err, &gap), errors.As(err, &lost), errors.Is(err, errBeyond), errors.Is(err, backup.ErrNotLeading):
		r.Code = backup.TargetOutside
	default:
		return nil
	}
	return r
}

// maxPreview bounds a preview, in bytes of JSON: a termination message has 4 KiB.
const maxPreview = 4000

// bounded returns a preview with as many prefixes as fit.
func bounded(p backup.Preview) backup.Preview {
	for {
		text, err := json.Marshal(p)
		if err != nil || len(text) <= maxPreview || len(p.Prefixes) < 2 {
			return p
		}
		p.Prefixes = atMost(len(p.Prefixes)-1, p.Prefixes)
	}
}
