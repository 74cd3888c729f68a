// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	. "github.com/onsi/gomega"
)

func volume(name, id string, term, index uint64) Volume {
	return Volume{Member: name, State: Seen, Survey: member.Survey{State: member.SurveyPresent, ClusterID: "cafe", MemberID: id, LastTerm: term, LastIndex: index, Revision: 7}}
}

// The term counts before the index, and what cannot be used is described.
func TestSift(t *testing.T) {
	g := NewWithT(t)
	other := volume("m-5", "5", 9, 9)
	other.Survey.ClusterID = "beef"
	all := []Volume{
		volume("m-0", "0", 2, 100), volume("m-1", "1", 3, 10), volume("m-2", "2", 3, 11), {Member: "m-3", State: Gone},
		{Member: "m-4", State: Seen, Survey: member.Survey{State: member.SurveyNone}}, other,
		{Member: "m-6", State: Seen, Survey: member.Survey{State: member.SurveyDamaged, Damage: "torn", ClusterID: "cafe"}},
	}
	usable, others := Sift(all, "cafe")
	g.Expect(usable).To(Equal([]Volume{all[2], all[1], all[0]}))
	g.Expect(others).To(Equal([]string{
		"m-3 has no volume", "the volume of m-4 is empty", "m-5 has data of another cluster, beef", "the data of m-6 is damaged (torn)",
		"m-1: its log ends at index 10 of term 3, and its database is at revision 7", "m-0: its log ends at index 100 of term 2, and its database is at revision 7",
	}))
	_, second := Sift(all[:2], "cafe")
	g.Expect(second).To(HaveLen(1))
	one, none := Sift(all[:1], "cafe")
	g.Expect(one).To(HaveLen(1))
	g.Expect(none).To(BeEmpty(), "the chosen one is not among the others")
	g.Expect(Sift(nil, "cafe")).To(BeEmpty())
}

// The most advanced member knows the voters; learners do not count.
func TestAreQuorum(t *testing.T) {
	a, b := volume("m-0", "a", 1, 2), volume("m-1", "b", 1, 1)
	known := func(v Volume, voters ...string) Volume {
		v.Survey.Voters = voters
		return v
	}
	for name, c := range map[string]struct {
		usable  []Volume
		members int
		want    bool
	}{
		"none":                          {nil, 1, false},
		"none of no members":            {nil, 0, false},
		"one of one":                    {[]Volume{a}, 1, true},
		"one of three, voters unknown":  {[]Volume{a}, 3, false},
		"two of three, voters unknown":  {[]Volume{a, b}, 3, true},
		"two of three voters":           {[]Volume{known(a, "a", "b", "c"), b}, 3, true},
		"one voter and a learner":       {[]Volume{known(a, "a", "c", "d"), b}, 3, false},
		"the only voter":                {[]Volume{known(a, "a")}, 3, true},
		"the first knows, not the last": {[]Volume{known(a, "a", "c", "d"), known(b, "a", "b")}, 3, false},
	} {
		if got := AreQuorum(c.usable, c.members); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
