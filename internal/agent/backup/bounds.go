// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"errors"
	"fmt"
	"io"
)

const (
	// MaxDelta bounds the content of a delta snapshot, in bytes: a small object may decompress to any size.
	MaxDelta = 512 << 20
	// maxEvent bounds the JSON of one event, in bytes: it is held in memory. etcd takes no request that would make one of
	// this size unless it was told to take more than 10 MiB.
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

// allowance is a reader that fails after a number of bytes, unless it is renewed. It bounds what is held in memory.
type allowance struct {
	r           io.Reader
	limit, left int64
}

func (a *allowance) renew() { a.left = a.limit }

func (a *allowance) Read(p []byte) (int, error) {
	if a.left <= 0 {
		return 0, fmt.Errorf("an event has more than %d bytes", a.limit)
	}
	n, err := a.r.Read(p[:min(int64(len(p)), a.left)])
	a.left -= int64(n)
	return n, err
}
