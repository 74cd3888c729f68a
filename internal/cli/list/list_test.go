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
		got := strings.Join(table(clitest.Queue(), c.namespaces, c.wide, clitest.Now).Lines(c.width), "\n") + "\n"
		golden.Check(t, fmt.Sprintf("list-%s.txt", c.name), []byte(got))
	}
}
