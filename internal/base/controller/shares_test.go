// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
)

// most is how many workers each of some greedy namespaces gets of so many, and how many are left.
func most(workers, namespaces int, slow bool) (each, left int) {
	s := &shares{free: workers, all: workers, of: map[string]int{}}
	for again := true; again; {
		again = false
		for i := range namespaces {
			if l := (look{namespace: fmt.Sprint(i), slow: slow}); s.admits(l) {
				s.take(l)
				again = true
			}
		}
	}
	for _, n := range s.of {
		each = max(each, n)
	}
	return each, s.free
}

func TestShares(t *testing.T) {
	for _, tc := range []struct {
		workers, namespaces int
		slow                bool
		each, left          int
	}{
		{1, 1, false, 1, 0},
		{2, 1, false, 1, 1},
		{80, 1, false, 40, 40},
		{80, 2, false, 27, 26},
		{80, 7, false, 10, 10},
		{1, 1, true, 1, 0},
		{2, 1, true, 1, 1},
		{80, 1, true, 27, 53},
		{80, 3, true, 9, 53},
		{80, 300, true, 1, 53},
	} {
		t.Run(fmt.Sprintf("%d workers, %d namespaces, slow %t", tc.workers, tc.namespaces, tc.slow), func(t *testing.T) {
			g := NewWithT(t)
			each, left := most(tc.workers, tc.namespaces, tc.slow)
			g.Expect(each).To(Equal(tc.each))
			g.Expect(left).To(Equal(tc.left))
		})
	}
}

// What is slow has its third also while all other workers but one are busy: while the API server is slow, so is what has been begun.
func TestSlowOnesHaveTheirThirdBesideOthers(t *testing.T) {
	for slow, want := range []bool{true, true, true, true, false} {
		s := &shares{free: 1, all: 10, of: map[string]int{"a": 9 - slow}, slow: slow}
		NewWithT(t).Expect(s.admits(look{namespace: "b", slow: true})).To(Equal(want), "%d have workers", slow)
		NewWithT(t).Expect(s.admits(look{namespace: "b", slow: false})).To(BeTrue())
	}
}

// What is unhurried takes nothing from what is slow, and has a tenth whatever is slow.
func TestUnhurriedOnesBesideSlowOnes(t *testing.T) {
	g := NewWithT(t)
	s := &shares{free: 30, all: 30, of: map[string]int{}}
	take := func(l look) (taken int) {
		for ; ; taken++ {
			if l.namespace = fmt.Sprint(l.slow, l.unhurried, taken); !s.admits(l) {
				return taken
			}
			s.take(l)
		}
	}
	g.Expect(take(look{unhurried: true})).To(Equal(10))
	g.Expect(take(look{slow: true})).To(Equal(10))
	g.Expect(take(look{})).To(Equal(10))
	*s = shares{free: 30, all: 30, of: map[string]int{}}
	g.Expect(take(look{slow: true})).To(Equal(10))
	g.Expect(take(look{unhurried: true})).To(Equal(3))
	g.Expect(take(look{})).To(Equal(17))
}

func TestSharesAreGivenBack(t *testing.T) {
	g := NewWithT(t)
	s := &shares{free: 3, all: 3, of: map[string]int{}}
	for _, l := range []look{{namespace: "a", slow: true}, {namespace: "b"}, {namespace: "a", unhurried: true}} {
		s.take(l)
	}
	s.giveBack(look{namespace: "b", slow: false})
	s.giveBack(look{namespace: "a", slow: true})
	s.giveBack(look{namespace: "a", unhurried: true})
	g.Expect(*s).To(Equal(shares{free: 3, all: 3, of: map[string]int{}}), "no namespace is remembered")
}

// Whose turn it is of those held back, while namespace a has two of ten workers, and b one.
func TestNextOfThoseHeldBack(t *testing.T) {
	at := func(namespace string, slow bool, priority int) heldBack {
		return heldBack{look: look{namespace: namespace, slow: slow}, priority: priority}
	}
	for name, tc := range map[string]struct {
		held []heldBack
		slow int
		want int
	}{
		"nothing":                            {want: -1},
		"the first that came":                {held: []heldBack{at("a", false, 0), at("a", false, 0)}, want: 0},
		"the namespace that has the fewest":  {held: []heldBack{at("a", false, 100), at("b", true, -100)}, want: 1},
		"what is not slow":                   {held: []heldBack{at("a", true, 0), at("a", false, 0)}, want: 1},
		"the highest priority":               {held: []heldBack{at("a", false, -100), at("a", false, 0)}, want: 1},
		"the highest priority, if slow":      {held: []heldBack{at("a", false, -1), at("a", true, 0)}, want: 1},
		"what is slow has its share already": {held: []heldBack{at("c", true, 0), at("a", false, 0)}, slow: 4, want: 1},
		"nothing that has none left":         {held: []heldBack{at("c", true, 0)}, slow: 4, want: -1},
	} {
		t.Run(name, func(t *testing.T) {
			s := &shares{free: 7, all: 10, of: map[string]int{"a": 2, "b": 1}, slow: tc.slow}
			NewWithT(t).Expect(s.next(tc.held)).To(Equal(tc.want))
		})
	}
}
