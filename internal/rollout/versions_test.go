// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
)

// members of versions such as "3.5.26", "3.6.16/3.5.0" (with its storage version), "3.6.16/3.6.0>3.5.0" (with a downgrade that is
// enabled) and "3.5.26?" (by its image).
func memberVersions(texts ...string) []MemberVersion {
	var all []MemberVersion
	for i, text := range texts {
		m := MemberVersion{Name: fmt.Sprintf("m-%d", i)}
		text, m.Versions.DowngradeTo, _ = strings.Cut(text, ">")
		text, m.Versions.Storage, _ = strings.Cut(text, "/")
		m.Versions.Etcd, m.Answers = strings.TrimSuffix(text, "?"), !strings.HasSuffix(text, "?")
		all = append(all, m)
	}
	return all
}

func TestRefusedVersion(t *testing.T) {
	for name, c := range map[string]struct {
		members []MemberVersion
		target  string
		member  string
		says    string // empty if it is not refused
	}{
		"a patch release":                          {memberVersions("3.6.8/3.6.0", "3.6.8/3.6.0"), "3.6.16", "", ""},
		"an earlier patch release":                 {memberVersions("3.6.16/3.6.0"), "3.6.8", "", ""},
		"the next minor":                           {memberVersions("3.5.26", "3.5.33"), "3.6.16", "", ""},
		"the next minor, of a tag with a suffix":   {memberVersions("3.5.26"), "3.6.16-0", "", ""},
		"the next minor, of a tag without a patch": {memberVersions("3.5.26"), "3.6", "", ""},
		"a vendor's version with a suffix":         {memberVersions("3.5.26-vendor.1"), "3.6.16", "", ""},
		"half-way through the next minor":          {memberVersions("3.6.16/3.5.0", "3.5.26"), "3.6.16", "", ""},
		"and back":                                 {memberVersions("3.6.16/3.5.0", "3.5.26"), "3.5.26", "", ""},
		"the next minor from 3.6":                  {memberVersions("3.6.11/3.6.0"), "3.7.3", "", ""},
		"the next minor from 3.7":                  {memberVersions("3.7.0/3.7.0"), "3.8.0", "", ""},
		"the last downgraded member":               {memberVersions("3.5.26", "3.6.16/3.5.0>3.5.0"), "3.5.26", "", ""},
		"a downgrade that etcd is ready for":       {memberVersions("3.6.16/3.5.0>3.5.0", "3.6.16/3.5.0>3.5.0"), "3.5.26", "", ""},
		"nobody answers":                           {memberVersions("", ""), "3.7.3", "", ""},
		"a member whose version is no version":     {memberVersions("abc/3.6.0"), "3.6.16", "", ""},
		"a target that is not known":               {memberVersions("3.5.1"), "", "", ""},
		"a target that is no version":              {memberVersions("3.5.1"), "latest", "", ""},
		"a tag of an older version, half-way back": {memberVersions("3.6.16?", "3.5.26"), "3.5.26", "", ""},

		"a minor is skipped":                          {memberVersions("3.5.26", "3.5.26"), "3.7.3", "m-0", "one minor version at a time. Set an image of 3.6 first"},
		"a minor is skipped half-way":                 {memberVersions("3.6.16/3.5.0", "3.5.26"), "3.7.3", "m-0", "the cluster is at 3.5"},
		"a minor is skipped, by an image":             {memberVersions("", "3.5.26?"), "3.7.3", "m-1", "(m-1 runs 3.5.26)"},
		"before the cluster version has risen":        {memberVersions("3.6.16/3.5.0"), "3.7.3", "m-0", "the cluster is at 3.5 (m-0 runs 3.6.16)"},
		"to 3.6 from before 3.5.26":                   {memberVersions("3.5.26", "3.5.25"), "3.6.16", "m-1", "m-1 runs 3.5.25: etcd 3.6 takes at least 3.5.26 before it. Set an image of 3.5.26 or a later 3.5 first"},
		"to 3.6 from before 3.5.26, frozen":           {memberVersions("3.5.26", "3.5.25?"), "3.6.16", "m-1", "m-1 runs 3.5.25"},
		"to 3.7 from before 3.6.11":                   {memberVersions("3.6.10/3.6.0"), "3.7.0", "m-0", "etcd 3.7 takes at least 3.6.11 before it"},
		"back without a downgrade":                    {memberVersions("3.6.16/3.6.0", "3.6.16/3.6.0"), "3.5.26", "m-0", `Run "etcdctl downgrade enable 3.5" first, or set an image of 3.6`},
		"back, of a member without a storage version": {memberVersions("3.6.16"), "3.5.26", "m-0", "etcdctl downgrade enable 3.5"},
		"back before etcd is ready":                   {memberVersions("3.6.16/3.6.0>3.5.0"), "3.5.26", "m-0", "the downgrade to 3.5 is enabled, and m-0 has not lowered its storage version 3.6.0 yet"},
		"back with another downgrade enabled":         {memberVersions("3.7.0/3.7.0>3.5.0"), "3.6.16", "m-0", "etcdctl downgrade enable 3.6"},
		"back by two":                                 {memberVersions("3.7.0/3.7.0>3.6.0"), "3.5.26", "m-0", "etcd downgrades one minor version at a time. Set an image of 3.6 first"},
		"a storage version above its own":             {memberVersions("3.5.26/3.6.0"), "3.5.33", "m-0", "etcdctl downgrade enable 3.5"},
		"another major":                               {memberVersions("3.9.0/3.9.0"), "4.0.0", "m-0", "from one major version to another"},
	} {
		member, why := RefusedVersion(c.members, c.target)
		if member != c.member || !strings.Contains(why, c.says) || (why == "") != (c.says == "") {
			t.Errorf("%s: %s %q, want %s %q", name, member, why, c.member, c.says)
		}
	}
}

// Foreign voters are members too. Those of the StatefulSet are there once.
func TestVersionsOf(t *testing.T) {
	s := &cluster.Snapshot{
		Ordinals: []cluster.Ordinal{
			{Name: "m-0", Answers: true, Class: v1alpha1.ClassParticipating, Versions: cluster.Versions{Etcd: "3.6.1"}, Pod: &cluster.Pod{EtcdVersion: "3.6.2"}},
			{Name: "m-1", Class: v1alpha1.ClassUnready, Pod: &cluster.Pod{EtcdVersion: "3.6.2"}},
			{Name: "m-2", Class: v1alpha1.ClassDead, Pod: &cluster.Pod{EtcdVersion: "3.6.2"}},
		},
		Cluster: cluster.Cluster{Voters: []cluster.Voter{{Name: "m-0"}, {Name: "m-1", Ordinal: 1}, {Name: "foreign", Ordinal: -1, Versions: cluster.Versions{Etcd: "3.5.1"}}}},
	}
	want := []MemberVersion{{"m-0", cluster.Versions{Etcd: "3.6.1"}, true}, {"m-1", cluster.Versions{Etcd: "3.6.2"}, false}, {"m-2", cluster.Versions{}, false}, {"foreign", cluster.Versions{Etcd: "3.5.1"}, true}}
	if got := VersionsOf(s); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestChangesMinor(t *testing.T) {
	for name, c := range map[string]struct {
		members []MemberVersion
		target  string
		want    bool
	}{
		"a patch release":       {memberVersions("3.6.8/3.6.0"), "3.6.16", false},
		"the next minor":        {memberVersions("3.6.8/3.6.0", "3.5.26"), "3.6.16", true},
		"back":                  {memberVersions("3.6.8/3.5.0"), "3.5.26", true},
		"not known":             {memberVersions("3.6.8"), "", true},
		"members of no version": {memberVersions(""), "3.6.16", false},
	} {
		if got := changesMinor(c.members, c.target); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestTargetVersion(t *testing.T) {
	// An ordinal is written as the version that its member reports; "?" does not answer.
	for name, c := range map[string]struct {
		ordinals string
		updated  int // so many of the last ordinals
		tag      string
		version  string
		canary   string
	}{
		"the tag":                             {"3.5.26 3.5.26", 0, "3.6.16", "3.6.16", ""},
		"an updated member, not the tag":      {"3.5.26 3.6.16", 1, "3.6.0", "3.6.16", ""},
		"the tag, before an updated one says": {"3.5.26 ?", 1, "3.6.16", "3.6.16", ""},
		"an updated one has to answer":        {"3.5.26 ?", 1, "latest", "", "m-1"},
		"one of two has answered":             {"3.5.26 ? 3.6.16", 2, "latest", "3.6.16", ""},
		"nothing is known, and none updated":  {"3.5.26 ?", 0, "", "", ""},
		"an updated pod is terminating":       {"3.5.26 terminating", 1, "", "", ""},
		"an updated pod does not exist":       {"3.5.26 missing", 1, "", "", ""},
	} {
		s := &cluster.Snapshot{StatefulSet: cluster.StatefulSet{EtcdVersion: c.tag}}
		texts := strings.Fields(c.ordinals)
		for i, text := range texts {
			o := cluster.Ordinal{Name: fmt.Sprintf("m-%d", i), Class: v1alpha1.ClassUnready, Pod: &cluster.Pod{}}
			switch text {
			case "?":
			case "terminating":
				o.Class = v1alpha1.ClassTerminating
			case "missing":
				o.Class, o.Pod = v1alpha1.ClassMissing, nil
			default:
				o.Answers, o.Versions.Etcd = true, text
			}
			s.Ordinals = append(s.Ordinals, o)
		}
		version, canary := targetVersion(s, func(ordinal int) bool { return ordinal < len(texts)-c.updated })
		if version != c.version || canary != c.canary {
			t.Errorf("%s: %q %q, want %q %q", name, version, canary, c.version, c.canary)
		}
	}
}

func TestKnownVersions(t *testing.T) {
	for text, want := range map[string]bool{"3.6.16": true, "3.6": true, "3.6.16-0": true, "": false, "latest": false, "3": false, "stable-3.6": false} {
		if IsKnownVersion(text) != want {
			t.Errorf("%q", text)
		}
	}
}
