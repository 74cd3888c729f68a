// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	. "github.com/onsi/gomega"
)

// The alarms of a cluster are those that its members report which serve, and each is reported once.
func TestAlarmsOfACluster(t *testing.T) {
	with := func(s etcdclient.Status, alarms ...etcdclient.Alarm) etcdclient.Status {
		s.Alarms = alarms
		return s
	}
	noSpace := func(id uint64) etcdclient.Alarm { return etcdclient.Alarm{MemberID: id, Kind: etcdclient.AlarmNoSpace} }
	stranger := with(says(2, 3, 99), noSpace(3))
	stranger.ClusterID = 8
	behind := with(says(2, 1, 5), noSpace(3))
	behind.AppliedIndex = 0
	ahead := says(0, 1, 5)
	ahead.CommittedIndex, ahead.AppliedIndex = cluster.MaxLag+1, cluster.MaxLag+1
	for name, c := range map[string]struct {
		answers map[int]etcdclient.Status
		change  func(*input)
		want    []cluster.Alarm
	}{
		"none": {answers: map[int]etcdclient.Status{0: says(0, 1, 5), 1: says(1, 1, 5)}},
		"one, which all report": {
			answers: map[int]etcdclient.Status{0: with(says(0, 1, 5), noSpace(2)), 1: with(says(1, 1, 5), noSpace(2)), 2: with(says(2, 1, 5), noSpace(2))},
			want:    []cluster.Alarm{{Kind: "NOSPACE", Member: "m-1"}},
		},
		"one that not all have applied yet": {
			answers: map[int]etcdclient.Status{0: says(0, 1, 5), 1: with(says(1, 1, 5), noSpace(2))},
			want:    []cluster.Alarm{{Kind: "NOSPACE", Member: "m-1"}},
		},
		"several": {
			answers: map[int]etcdclient.Status{0: with(says(0, 1, 5), noSpace(3), noSpace(1), etcdclient.Alarm{MemberID: 2, Kind: etcdclient.AlarmCorrupt})},
			want:    []cluster.Alarm{{Kind: "CORRUPT", Member: "m-1"}, {Kind: "NOSPACE", Member: "m-0"}, {Kind: "NOSPACE", Member: "m-2"}},
		},
		"of a member that was removed, and of none": {
			answers: map[int]etcdclient.Status{0: with(says(0, 1, 5), noSpace(0xcafe), etcdclient.Alarm{Kind: etcdclient.AlarmCorrupt})},
			want:    []cluster.Alarm{{Kind: "CORRUPT"}, {Kind: "NOSPACE", Member: "cafe"}},
		},
		"without a list of the members": {
			answers: map[int]etcdclient.Status{0: with(says(0, 1, 5), noSpace(3), noSpace(2)), 1: says(1, 1, 5)},
			change:  func(f *input) { f.members = nil },
			want:    []cluster.Alarm{{Kind: "NOSPACE", Member: "3"}, {Kind: "NOSPACE", Member: "m-1"}},
		},
		"of a member that was cut off before it was disarmed": {
			answers: map[int]etcdclient.Status{0: says(0, 1, 5), 1: says(1, 1, 5), 2: with(says(2, 3, 4), noSpace(3))},
		},
		"of one that has yet to catch up": {answers: map[int]etcdclient.Status{0: ahead, 2: behind}},
		"of one that knows no leader":     {answers: map[int]etcdclient.Status{2: with(says(2, 0, 5), noSpace(3))}},
		"of another cluster":              {answers: map[int]etcdclient.Status{0: says(0, 1, 5), 1: says(1, 1, 5), 2: stranger}},
		"as a member of a source reports": {
			answers: map[int]etcdclient.Status{0: says(0, 1, 5)},
			change: func(f *input) {
				f.members = append(f.members, etcdclient.Member{ID: 51, Name: "old-0"})
				f.foreign = map[uint64]etcdclient.Status{51: with(etcdclient.Status{ClusterID: 7, MemberID: 51, Leader: 1, Term: 5, AppliedIndex: 10}, noSpace(51))}
			},
			want: []cluster.Alarm{{Kind: "NOSPACE", Member: "old-0"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := answersOf(3, c.answers)
			if c.change != nil {
				c.change(&f)
			}
			NewWithT(t).Expect(build(f).Cluster.Alarms).To(Equal(c.want))
		})
	}
}
