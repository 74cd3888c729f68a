// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWrittenIsRead(t *testing.T) {
	var file bytes.Buffer
	w := NewWriter(&file, time.Now())
	op := Operation{Client: "a", Kind: Swap, Call: 1, Return: 2, Key: "k", Value: "new", Old: "old", Swapped: true, Revision: 7}
	watch := Watch{Watcher: "w", Segment: 1, From: 2, Events: []Event{{Revision: 7, Key: "k", Value: "new"}, {Revision: 8, Key: "k", Deleted: true}}}
	hash := Hash{Member: "m-0", Revision: 8, Hash: 42}
	for _, line := range []Line{
		{Operation: &op}, {Watch: &watch}, {Hash: &hash},
		{Final: &Final{Member: "m-0", Pairs: map[string]string{"a": "1"}, More: true}}, {Final: &Final{Member: "m-1", More: true}}, {Final: &Final{Member: "m-0", Pairs: map[string]string{"b": "2"}}},
	} {
		w.Write(line)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	want := &History{
		Operations: []Operation{op}, Watches: []Watch{watch}, Hashes: []Hash{hash},
		Finals: map[string]map[string]string{"m-0": {"a": "1", "b": "2"}, "m-1": {}}, Unread: map[string]bool{"m-1": true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestATornLineIsAnError(t *testing.T) {
	if _, err := Read(strings.NewReader(`{"operation":{"client":"a"`)); err == nil {
		t.Error("half a line was read")
	}
}

func TestWrote(t *testing.T) {
	for name, test := range map[string]struct {
		op   Operation
		want bool
	}{
		"a put":                   {Operation{Kind: Put}, true},
		"a put of unknown result": {Operation{Kind: Put, Error: "timeout"}, false},
		"a swap":                  {Operation{Kind: Swap, Swapped: true}, true},
		"a swap that lost":        {Operation{Kind: Swap}, false},
		"a get":                   {Operation{Kind: Get}, false},
	} {
		if got := test.op.Wrote(); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
