// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// record is how a decision record begins: number, title, status.
var record = regexp.MustCompile(`^# (\d+)\. (.+)\n\nStatus: ((?:accepted|withdrawn|superseded), \d{4}-\d{2}-\d{2}.*)\n\n`)

// TestIndexOfDecisions checks that each decision record has a number, a title and a status, and that the index has them all, in
// their order, with a line about each.
func TestIndexOfDecisions(t *testing.T) {
	const folder = "../../docs/adr"
	content, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "[0-9]*.md"))
	if err != nil || len(files) < 40 {
		t.Fatalf("found %d decision records: %v", len(files), err)
	}
	var rows []string
	for row := range strings.Lines(string(content)) {
		if strings.HasPrefix(row, "| [") {
			rows = append(rows, row)
		}
	}
	if len(rows) != len(files) {
		t.Errorf("the index has %d rows, and there are %d decision records", len(rows), len(files))
	}
	for i, path := range files {
		want, err := indexed(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if i >= len(rows) || !strings.HasPrefix(rows[i], want) || len(rows[i]) < len(want)+len("a line |") {
			t.Fatalf("row %d of docs/adr/README.md does not begin with, or says nothing after:\n%s", i+1, want)
		}
	}
}

// indexed returns how the row of a decision record begins.
func indexed(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	found := record.FindStringSubmatch(string(content))
	name := filepath.Base(path)
	if found == nil || !strings.HasPrefix(name, fmt.Sprintf("%04s-", found[1])) {
		return "", fmt.Errorf("it does not begin with \"# NUMBER. TITLE\", its number as in the name of the file, and \"Status: accepted, YYYY-MM-DD\"")
	}
	return fmt.Sprintf("| [%s](%s) | %s | %s | ", found[1], name, found[2], found[3]), nil
}

// The numbers that are said not to exist are the gaps, so that no reader has to wonder about one.
func TestNumbersWithoutADecision(t *testing.T) {
	content, err := os.ReadFile("../../docs/adr/README.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^Numbers without a record: ([0-9, ]+)\.`).FindStringSubmatch(string(content))
	if line == nil {
		t.Fatal("docs/adr/README.md has no line \"Numbers without a record: …\"")
	}
	records, err := filepath.Glob("../../docs/adr/0*.md")
	if err != nil {
		t.Fatal(err)
	}
	var gaps []string
	for number, seen := 1, 0; seen < len(records); number++ {
		if strings.HasPrefix(filepath.Base(records[seen]), fmt.Sprintf("%04d-", number)) {
			seen++
		} else {
			gaps = append(gaps, fmt.Sprint(number))
		}
	}
	if got := strings.Join(gaps, ", "); got != line[1] {
		t.Errorf("docs/adr/README.md says that %s have no record, and %s have none", line[1], got)
	}
}
