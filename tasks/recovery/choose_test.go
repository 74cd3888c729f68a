// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"fmt"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/member"
	"github.com/etcd-foreman/etcd-foreman/internal/survey"
	. "github.com/onsi/gomega"
)

func has(term, index uint64) survey.Volume {
	return survey.Volume{State: survey.Seen, Survey: member.Survey{State: member.SurveyPresent, ClusterID: "cafe", LastTerm: term, LastIndex: index}}
}

func withID(v survey.Volume, id string) survey.Volume {
	v.Survey.MemberID = id
	return v
}

// member1of is the most advanced member, with ID a, and knows who votes.
func member1of(voters ...string) survey.Volume {
	v := withID(has(2, 9), "a")
	v.Survey.Voters = voters
	return v
}

func of(clusterID string) survey.Volume {
	return survey.Volume{State: survey.Seen, Survey: member.Survey{State: member.SurveyPresent, ClusterID: clusterID, LastTerm: 9, LastIndex: 99}}
}

func TestChoose(t *testing.T) {
	gone, empty := survey.Volume{}, survey.Volume{State: survey.Seen, Survey: member.Survey{State: member.SurveyNone}}
	damaged := survey.Volume{State: survey.Seen, Survey: member.Survey{State: member.SurveyDamaged, Damage: "a page", ClusterID: "cafe", LastTerm: 9, LastIndex: 99}}
	const data, backup, none = v1alpha1.RecoverFromData, v1alpha1.RecoverFromBackup, v1alpha1.RecoverySource("")
	for name, c := range map[string]struct {
		volumes    []survey.Volume
		unfinished string
		backup     string
		source     v1alpha1.RecoverySource
		member     string
		failed     bool
		says       string
	}{
		"one of three":                  {[]survey.Volume{gone, has(2, 5), empty}, "", "b", data, "m-1", false, "m-0 has no volume; the volume of m-2 is empty"},
		"two of three are a quorum":     {[]survey.Volume{has(2, 5), has(2, 6), gone}, "", "b", none, "", false, "2 of 3 members have their data"},
		"two of five, the newer term":   {[]survey.Volume{gone, has(3, 4), gone, has(2, 900), gone}, "", "", data, "m-1", false, "the most advanced of the 2"},
		"two of five, the longer log":   {[]survey.Volume{gone, has(3, 4), gone, has(3, 5), gone}, "", "", data, "m-3", false, "m-1: its log"},
		"two of five, the same":         {[]survey.Volume{gone, has(3, 5), gone, has(3, 5), gone}, "", "", data, "m-1", false, ""},
		"damaged data does not count":   {[]survey.Volume{damaged, has(1, 1), gone}, "", "b", data, "m-1", false, "m-0 is damaged (a page)"},
		"nor that of another cluster":   {[]survey.Volume{of("beef"), has(1, 1), gone}, "", "b", data, "m-1", false, "another cluster, beef"},
		"a backup":                      {[]survey.Volume{gone, damaged, empty}, "", "revision 7", backup, "m-1", false, "revision 7"},
		"a backup, and no volume":       {[]survey.Volume{gone, gone, gone}, "", "revision 7", backup, "m-0", false, "are lost"},
		"nothing":                       {[]survey.Volume{gone, damaged, empty}, "", "", none, "", true, "nothing was deleted"},
		"two of three, but one learns":  {[]survey.Volume{member1of("a", "b"), withID(has(2, 4), "c"), gone}, "", "", data, "m-0", false, ""},
		"one of one, and a learner":     {[]survey.Volume{member1of("a"), withID(has(2, 4), "c"), gone}, "", "", none, "", false, "those that vote are a quorum"},
		"unfinished, and rebuilt":       {[]survey.Volume{has(8, 8), gone, of("new")}, "m-2", "", data, "m-2", false, "m-0 has data of another cluster, cafe"},
		"unfinished, and not rebuilt":   {[]survey.Volume{has(8, 8), gone, has(7, 7)}, "m-2", "", none, "", false, "2 of 3"},
		"unfinished, and lost since":    {[]survey.Volume{has(8, 8), gone, gone}, "m-2", "", data, "m-0", false, ""},
		"unfinished, and damaged since": {[]survey.Volume{has(8, 8), gone, damaged}, "m-2", "", data, "m-0", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			for i := range c.volumes {
				c.volumes[i].Member = fmt.Sprintf("m-%d", i)
			}
			got := Choose(c.volumes, "cafe", c.unfinished, c.backup)
			g.Expect(got.Source).To(Equal(c.source), got.Why)
			g.Expect(got.Member).To(Equal(c.member), got.Why)
			g.Expect(got.Failed).To(Equal(c.failed), got.Why)
			g.Expect(got.Why).To(ContainSubstring(c.says))
		})
	}
}
