// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package list

import (
	"fmt"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/cli/clitest"
	"github.com/etcd-foreman/etcd-foreman/test/golden"
)

func TestTable(t *testing.T) {
	for _, c := range []struct {
		name             string
		width            int
		namespaces, wide bool
	}{{"piped", 0, false, false}, {"120", 120, false, false}, {"80", 80, false, false}, {"wide", 0, true, true}} {
		got := strings.Join(table(clitest.Queue(), (&command{}).selects, c.namespaces, c.wide, clitest.Now).Lines(c.width), "\n") + "\n"
		golden.Check(t, fmt.Sprintf("list-%s.txt", c.name), []byte(got))
	}
}

func TestSelection(t *testing.T) {
	all := clitest.Queue()
	all[1].Labels = map[string]string{"a": "b"}
	names := func(c *command) string {
		var got []string
		for _, t := range all {
			if c.selects(t) {
				got = append(got, t.Name)
			}
		}
		return strings.Join(got, " ")
	}
	if got := names(&command{held: true}); got != clitest.Held().Name {
		t.Errorf("held: %q", got)
	}
	if got := names(&command{selector: "a=b"}); got != all[1].Name {
		t.Errorf("selected: %q", got)
	}
	if got := names(&command{selector: "a=b", held: true}); got != "" {
		t.Errorf("both: %q", got)
	}
}
