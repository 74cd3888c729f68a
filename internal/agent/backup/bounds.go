// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"errors"
)

const (
	// MaxDelta bounds the content of a delta snapshot, in bytes: a small object may decompress to any size.
	MaxDelta = 512 << 20
	// maxEvent bounds the JSON of one event, in bytes: it is held in memory. etcd accepts no request that
	// would make a larger one, unless it is configured to accept more than 10 MiB.
	maxEvent = 16 << 20
)

// ErrDeltaTooBig is returned if events do not fit into a delta snapshot. A full snapshot is needed then.
var ErrDeltaTooBig = errors.New("the events are too large for a delta snapshot")

// maxContent bounds the content of a snapshot, in bytes; 0 is no limit. A database is limited by the disk that it is
// written to.
func (s Snapshot) maxContent() int64 {
	if s.Kind == Delta {
		return MaxDelta
	}
	return 0
}
