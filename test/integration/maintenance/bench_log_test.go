// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package maintenance_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// entry is a line of etcd's log, with the fields that the benchmark reads.
type entry struct {
	Time  time.Time `json:"ts"`
	Msg   string    `json:"msg"`
	Path  string    `json:"path"`
	Size  int64     `json:"current-db-size-bytes"`
	InUse int64     `json:"current-db-size-in-use-bytes"`
	Took  string    `json:"took"`
}

// timeline returns what the members have logged since the beginning.
func timeline(t *testing.T, log string, began time.Time) []string {
	t.Helper()
	file, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var lines []string
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		var e entry
		if json.Unmarshal(scanner.Bytes(), &e) != nil || e.Time.Before(began) {
			continue
		}
		if what := e.String(); what != "" {
			lines = append(lines, fmt.Sprintf("%6.3fs %s", e.Time.Sub(began).Seconds(), what))
		}
	}
	return lines
}

// String returns the entry in one line; empty if the benchmark ignores it.
func (e entry) String() string {
	const mebi = 1 << 20
	// Path is that of member/snap/db in the data directory of the member.
	member := filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(e.Path))))
	switch {
	case e.Msg == "defragmenting":
		return fmt.Sprintf("%s is defragmented: %d MiB, of which %d in use", member, e.Size/mebi, e.InUse/mebi)
	case e.Msg == "finished defragmenting directory":
		return fmt.Sprintf("%s is done: %d MiB, took %s", member, e.Size/mebi, e.Took)
	case strings.Contains(e.Msg, "leadership transfer"), strings.Contains(e.Msg, "became leader"), strings.Contains(e.Msg, "lost leader"), strings.Contains(e.Msg, "elected leader"):
		return strings.TrimSpace(e.Msg + " " + e.Took)
	}
	return ""
}
