// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package copyjob

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func requests(namespace string, n int, from int64) (all []Request) {
	for i := range n {
		all = append(all, Request{namespace, fmt.Sprint(i), time.Unix(from+int64(i), 0)})
	}
	return all
}

func TestWhoseTurnItIs(t *testing.T) {
	g := NewWithT(t)
	many := requests("many", 1000, 0)
	for i, r := range many {
		if i < MaxInNamespace {
			g.Expect(Wait(r, many)).To(BeEmpty(), r.Name)
		} else {
			g.Expect(Wait(r, many)).To(ContainSubstring("at most 5 copies of backups run at once in a namespace"), r.Name)
		}
	}
	young := Request{"other", "a", time.Unix(5000, 0)}
	g.Expect(Wait(young, many)).To(BeEmpty(), "another namespace does not wait for them")
	g.Expect(Wait(many[MaxInNamespace], many[1:])).To(BeEmpty(), "one has ended")

	var all []Request
	for i := range maxInAll / MaxInNamespace {
		all = append(all, requests(fmt.Sprint("ns-", i), 2*MaxInNamespace, 0)...)
	}
	g.Expect(Wait(young, all)).To(ContainSubstring("at most 100 copies of backups run at once in all namespaces"))
	g.Expect(Wait(young, all[1:])).NotTo(BeEmpty(), "its place goes to the next of its namespace")
	g.Expect(Wait(young, all[2*MaxInNamespace:])).To(BeEmpty())

	// Of two that are equally old, one is first.
	a, b := Request{"x", "a", time.Unix(1, 0)}, Request{"x", "b", time.Unix(1, 0)}
	g.Expect(a.compare(b)).To(Equal(-1))
	g.Expect(b.compare(a)).To(Equal(1))
}
