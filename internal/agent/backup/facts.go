// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"path"
	"strconv"
	"time"
)

// Facts returns what the result of a task reports about a snapshot: the object, its last revision, when it was taken, and its size
// if that is known.
func (s Snapshot) Facts() map[string]string {
	facts := map[string]string{
		"snapshot":  path.Join(s.Prefix, s.Name()),
		"revision":  strconv.FormatInt(s.LastRevision, 10),
		"createdOn": s.Created.UTC().Format(time.RFC3339),
	}
	if s.Size > 0 {
		facts["bytes"] = strconv.FormatInt(s.Size, 10)
	}
	return facts
}
