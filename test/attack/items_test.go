// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// Each danger is shown by a test that exists, and each attack is one on a danger of the list.
func TestItemsAreShown(t *testing.T) {
	g := NewWithT(t)
	numbers := map[int]bool{}
	for _, i := range items {
		numbers[i.number] = true
		g.Expect(i.shownBy).NotTo(BeEmpty(), "item %d", i.number)
		for _, test := range i.shownBy {
			folder, name, _ := strings.Cut(test, ":")
			files, err := filepath.Glob(filepath.Join("..", "..", folder, "*_test.go"))
			g.Expect(err).NotTo(HaveOccurred())
			found := false
			for _, file := range files {
				data, err := os.ReadFile(file)
				g.Expect(err).NotTo(HaveOccurred())
				found = found || strings.Contains(string(data), "func "+name+"(t *testing.T)")
			}
			g.Expect(found).To(BeTrue(), "%s of item %d", test, i.number)
		}
	}
	g.Expect(numbers).To(HaveLen(26))
	for _, group := range groups {
		for _, a := range group.attacks {
			g.Expect(numbers).To(HaveKey(a.item), a.what)
		}
	}
}

// The program fails unless each attack was tried and failed.
func TestVerdict(t *testing.T) {
	g := NewWithT(t)
	tried := result{attack: attack{item: 17, what: "take over"}, finding: held("untouched")}
	g.Expect(verdict([]result{tried})).To(Succeed())
	g.Expect(tried.mark()).To(Equal("held"))
	open := tried
	open.err = os.ErrDeadlineExceeded
	g.Expect(verdict([]result{tried, open})).To(MatchError(ContainSubstring("item 17 could not be tried (take over)")))
	g.Expect(open.mark()).To(Equal("?"))
	succeeded := tried
	succeeded.finding = broken("the Service is | gone")
	g.Expect(verdict([]result{succeeded})).To(MatchError(ContainSubstring("item 17: take over: the Service is | gone")))
	table := render("now", []result{succeeded})
	g.Expect(table).To(ContainSubstring(`| 17 | take over |  |  | the Service is \| gone | BROKEN |`))
	g.Expect(table).To(ContainSubstring("| 19 | a hostile member exhausts the operator |"))
}

// What is expected not to happen is watched, and an attack that ends early is an error.
func TestWithin(t *testing.T) {
	g := NewWithT(t)
	never := func() bool { return false }
	for name, c := range map[string]struct {
		happens func() bool
		want    bool
	}{"never": {never, false}, "at once": {func() bool { return true }, true}} {
		got, err := within(t.Context(), time.Millisecond, func(context.Context) (bool, error) { return c.happens(), nil })
		g.Expect(err).NotTo(HaveOccurred(), name)
		g.Expect(got).To(Equal(c.want), name)
	}
}

// A name that is misspelled attacks nothing, and does not succeed.
func TestChosen(t *testing.T) {
	g := NewWithT(t)
	g.Expect(chosen("")).To(HaveLen(len(groups)))
	g.Expect(chosen("tasks,owners")).To(HaveLen(2))
	_, err := chosen("tasks,owner")
	g.Expect(err).To(MatchError(ContainSubstring(`"owner"`)))
}
