// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Hold keeps what a restore takes from retention, for HoldFor: a full snapshot, and the deltas that lead from it to a revision.
type Hold struct {
	// Since when, in whole seconds.
	Since time.Time
	// Revision that is restored; 0 for the full snapshot alone, whose state may have a few revisions more than its name says.
	Revision int64
	// Base is the full snapshot.
	Base Snapshot
}

// HoldFor is how long a hold keeps snapshots: time for a person to confirm what was previewed, and for the restore to end.
const HoldFor = 24 * time.Hour

// String returns the text that ParseHold parses.
func (h Hold) String() string {
	return fmt.Sprintf("%d.%d.%s", h.Since.Unix(), h.Revision, h.Base.Name())
}

// ParseHold parses a hold.
func ParseHold(text string) (Hold, error) {
	parts := strings.SplitN(text, ".", 3)
	if len(parts) != 3 {
		return Hold{}, fmt.Errorf("%.200q is no hold", text)
	}
	since, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return Hold{}, fmt.Errorf("%.200q is no hold: %w", text, err)
	}
	h := Hold{Since: time.Unix(since, 0).UTC()}
	if h.Revision, err = strconv.ParseInt(parts[1], 10, 64); err != nil {
		return Hold{}, fmt.Errorf("%.200q is no hold: %w", text, err)
	}
	if h.Base, err = ParseName(parts[2]); err != nil {
		return Hold{}, fmt.Errorf("%.200q is no hold: %w", text, err)
	}
	return h, nil
}

// Keeps reports whether the hold keeps a snapshot: its base, and every delta since that may lead on to the revision.
func (h Hold) Keeps(s Snapshot) bool {
	if s.Kind == Full {
		return s.Name() == h.Base.Name()
	}
	return s.LastRevision > h.Base.LastRevision && s.StartRevision <= h.Revision && !s.Created.Before(h.Base.Created)
}
