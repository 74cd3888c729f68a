// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/test/attack/dangers"
	. "github.com/onsi/gomega"
)

// Each danger is shown by a test that exists, and each attack is one on a danger of the list.
func TestItemsAreShown(t *testing.T) {
	g := NewWithT(t)
	numbers := map[int]bool{}
	for _, d := range dangers.List {
		numbers[d.Number] = true
		g.Expect(d.ShownBy).NotTo(BeEmpty(), "item %d", d.Number)
		for _, test := range d.ShownBy {
			folder, name, _ := strings.Cut(test, ":")
			files, err := filepath.Glob(filepath.Join("..", "..", folder, "*_test.go"))
			g.Expect(err).NotTo(HaveOccurred())
			found := false
			for _, file := range files {
				data, err := os.ReadFile(file)
				g.Expect(err).NotTo(HaveOccurred())
				found = found || strings.Contains(string(data), "func "+name+"(t *testing.T)")
			}
			g.Expect(found).To(BeTrue(), "%s of item %d", test, d.Number)
		}
	}
	g.Expect(numbers).To(HaveLen(29))
	for _, group := range groups {
		for _, a := range group.Attacks {
			g.Expect(numbers).To(HaveKey(a.Item), a.What)
		}
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
