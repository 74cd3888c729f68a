// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/job/copyjob"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// defaultMaxWritesSince is how many revisions may have been written since the preview.
const defaultMaxWritesSince = 100_000

// Config is spec.config of a Restore.
type Config struct {
	// To is the state that the cluster goes back to. Without Confirm, it is only previewed.
	To *Target `json:"to,omitempty"`
	// Undo is the name of the Restore to undo: the cluster goes back to what it had before.
	Undo string `json:"undo,omitempty"`
	// From is where the snapshots of To are, if not among the own ones: another prefix in the container of the Etcd's store, whose other
	// fields may be left out.
	From *v1alpha1.StoreSpec `json:"from,omitempty"`
	// Confirm is what the preview printed: the digest of what is restored, and the newest revision that was known then.
	Confirm string `json:"confirm,omitempty"`
	// KeepService leaves clients connected until the members stop, and as soon as one serves again. Default: the client Service selects
	// no member from before the final snapshot until all members vote.
	KeepService bool `json:"keepService,omitempty"`
	// AcceptAuth: clients may have to log in, with the users of then.
	AcceptAuth bool `json:"acceptAuth,omitempty"`
	// MaxWritesSince is how many revisions may have been written since the preview. Default 100000.
	MaxWritesSince *int64 `json:"maxWritesSince,omitempty"`
}

// Target is a state in the backup.
type Target struct {
	// Time: everything that was seen until then.
	Time *metav1.Time `json:"time,omitempty"`
	// Revision is exact.
	Revision int64 `json:"revision,omitempty"`
	// Snapshot is the name of one; the state is the one at its end.
	Snapshot string `json:"snapshot,omitempty"`
	// Latest is the newest state in the store.
	Latest bool `json:"latest,omitempty"`
	// Base is the name of the full snapshot to begin with, if the newest one before the target is corrupt.
	Base string `json:"base,omitempty"`
}

// target returns what the packages of the agent call a target.
func (t Target) target() backup.Target {
	return backup.Target{Latest: t.Latest, Revision: t.Revision, Time: ptr.Deref(t.Time, metav1.Time{}).Time, Snapshot: t.Snapshot, Base: t.Base}
}

// Default implements taskconfig.Config.
func (c *Config) Default() { c.MaxWritesSince = ptr.To[int64](defaultMaxWritesSince) }

// Validate implements taskconfig.Config.
func (c *Config) Validate() error {
	switch {
	case (c.To == nil) == (c.Undo == ""):
		return errors.New("either to or undo has to be set")
	case c.From != nil && c.To == nil:
		return errors.New("from belongs to to: what an undo goes back to is among the own snapshots")
	case c.Confirm != "" && c.Undo != "":
		return errors.New("confirm belongs to to: an undo needs none")
	case ptr.Deref(c.MaxWritesSince, -1) < 0:
		return errors.New("maxWritesSince has to be at least 0")
	}
	if c.From != nil {
		*c.From = copyjob.Place(*c.From)
		if err := copyjob.CheckPrefix("from", *c.From); err != nil {
			return err
		}
	}
	if c.Confirm != "" {
		if _, _, err := parseConfirmation(c.Confirm); err != nil {
			return err
		}
	}
	if c.To == nil {
		return nil
	}
	if err := c.To.target().Validate(); err != nil {
		return fmt.Errorf("to: %w", err)
	}
	return nil
}

// source returns the store that From names, given the own one; nil for the own one.
func (c *Config) source(own v1alpha1.StoreSpec) *v1alpha1.StoreSpec {
	if c.From == nil {
		return nil
	}
	if *c.From == (v1alpha1.StoreSpec{Prefix: c.From.Prefix}) {
		own.Prefix = c.From.Prefix
		return &own
	}
	return c.From
}

// prefix returns the prefix that From names; empty for the own one.
func (c *Config) prefix() string { return ptr.Deref(c.From, v1alpha1.StoreSpec{}).Prefix }

// replaces reports whether the task replaces the data of the cluster, and does not only preview that.
func (c *Config) replaces() bool { return c.Confirm != "" || c.Undo != "" }

// shownDigits is how much of a digest a confirmation has.
const shownDigits = 32

// confirmation returns what confirms a restore to what was previewed.
func confirmation(p backup.Preview) string {
	return fmt.Sprintf("%.*s@%d", shownDigits, p.Digest, newestKnown(p))
}

// newestKnown returns the newest revision that a preview knows of.
func newestKnown(p backup.Preview) int64 {
	return cmp.Or(ptr.Deref(p.End, backup.Point{}).Revision, p.Revision)
}

// parseConfirmation returns the digest that was confirmed, and the newest revision that was known then.
func parseConfirmation(text string) (digest string, known int64, err error) {
	digest, revision, _ := strings.Cut(text, "@")
	known, err = strconv.ParseInt(revision, 10, 64)
	if err != nil || len(digest) != shownDigits || known < 0 {
		return "", 0, fmt.Errorf("confirm is %q: it has to be what the preview printed, such as 0123456789abcdef0123456789abcdef@42", text)
	}
	return digest, known, nil
}
