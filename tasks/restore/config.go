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
	// From is where the snapshots of To are, if not at the Etcd's own prefix: another prefix in the container of its store. All other
	// fields may be left out.
	From *v1alpha1.StoreSpec `json:"from,omitempty"`
	// Confirm is what the preview printed: a digest of what is restored, and the newest revision known at that time.
	Confirm string `json:"confirm,omitempty"`
	// KeepService keeps clients connected whenever a member serves. By default the client Service selects no member from before the final
	// snapshot until the task ends.
	KeepService bool `json:"keepService,omitempty"`
	// AcceptAuth: the restored state may have auth enabled, with the users that it had then.
	AcceptAuth bool `json:"acceptAuth,omitempty"`
	// MaxWritesSince is how many revisions may have been written since the preview. Default 100000.
	MaxWritesSince *int64 `json:"maxWritesSince,omitempty"`
}

// Target is a state in the backup.
type Target struct {
	// Time: the state has every event that the agent had seen by then.
	Time *metav1.Time `json:"time,omitempty"`
	// Revision: the state at exactly this revision.
	Revision int64 `json:"revision,omitempty"`
	// Snapshot is the name of a snapshot: the state at its end.
	Snapshot string `json:"snapshot,omitempty"`
	// Latest: the newest state in the store.
	Latest bool `json:"latest,omitempty"`
	// Base is the name of the full snapshot to begin with, if the newest one before the target is corrupt.
	Base string `json:"base,omitempty"`
}

// target returns the target as the agent's packages know it.
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

// source returns the store that From names, completed from the own one; nil if the own one is used.
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

// prefix returns the prefix that From names; empty if the own one is used.
func (c *Config) prefix() string { return ptr.Deref(c.From, v1alpha1.StoreSpec{}).Prefix }

// replaces reports whether the task replaces the data of the cluster; otherwise it only previews.
func (c *Config) replaces() bool { return c.Confirm != "" || c.Undo != "" }

// shownDigits is how many digits of the digest are in a confirmation.
const shownDigits = 32

// confirmation returns the value of Config.Confirm that confirms a restore of what was previewed.
func confirmation(p backup.Preview, leased int64) string {
	return fmt.Sprintf("%.*s@%d", shownDigits, p.Digest, newestKnown(p, leased))
}

// newestKnown returns the newest revision that a preview knows of: where the end of the store is not known, what the snapshot Leases record, and
// at least the target.
func newestKnown(p backup.Preview, leased int64) int64 {
	return cmp.Or(ptr.Deref(p.End, backup.Point{}).Revision, max(p.Revision, leased))
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
