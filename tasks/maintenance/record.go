// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/internal/base/memory"
)

// Keys of status.result. The keys of a member are its name, a dot, and one of the last four.
const (
	// keyRevision is the revision to compact to; keyCompacted exists once that is done.
	keyRevision  = "compaction.revision"
	keyCompacted = "compaction.completed"
	// keyFreed is by how much the databases have shrunk in total.
	keyFreed = "bytesFreed"
	// keyDisarmed names the kind of alarm that was disarmed.
	keyDisarmed = "alarmDisarmed"
	// keyBefore is the size of a member's database before its defragmentation, written before that is requested. keyAfter is the size
	// afterwards, and keySkipped says why it was not defragmented.
	keyBefore  = "bytesBefore"
	keyAfter   = "bytesAfter"
	keySkipped = "skipped"
	// keyAttempts is how often the defragmentation of a member was requested, written before each request.
	keyAttempts = "attempts"
)

// record is the progress of a task: its status.result. It is replaced, never modified.
type record map[string]string

func (r record) with(key, value string) record { return memory.With(r, key, value) }

func (r record) withMember(member, key string, n int64) record {
	return r.with(member+"."+key, strconv.FormatInt(n, 10))
}

// of returns what is recorded about a member.
func (r record) of(member, key string) (string, bool) {
	value, ok := r[member+"."+key]
	return value, ok
}

// number returns a number that is recorded about a member; 0 if there is none.
func (r record) number(member, key string) int64 {
	value, _ := r.of(member, key)
	n, _ := strconv.ParseInt(value, 10, 64)
	return n
}

// isDone reports whether a member was defragmented or skipped.
func (r record) isDone(member string) bool {
	_, after := r.of(member, keyAfter)
	_, skipped := r.of(member, keySkipped)
	return after || skipped
}

// hasIntent reports whether a defragmentation was recorded as an intent, and its end was not.
func (r record) hasIntent(member string) bool {
	_, recorded := r.of(member, keyBefore)
	return recorded && !r.isDone(member)
}

// isLastTry reports whether no further request follows a step that fails. Each defragmentation stops a member, also one that fails.
func (r record) isLastTry(step string) bool {
	member, ok := strings.CutPrefix(step, string(defragment)+" ")
	return ok && r.number(member, keyAttempts) >= maxAttempts
}

// revision returns the revision to compact to; 0 if none is recorded.
func (r record) revision() int64 {
	n, _ := strconv.ParseInt(r[keyRevision], 10, 64)
	return n
}

func (r record) isCompacted() bool { return r[keyCompacted] != "" }

// size of a database, for people.
func size(bytes int64) string {
	const mebi = 1 << 20
	if bytes >= 1<<30 {
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/mebi)
}
