// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
)

// place is one member's volume, and the list of the others, which serve.
type place struct {
	data     Data
	listed   string
	started  bool
	leaving  bool
	recorded bool
	// eager: the operator adds the successor of a member in the moment that it removes it, before the agent looks again.
	eager bool
	added int
}

func (p *place) input() Input {
	in := Input{Member: "m", DataDir: "/data", Data: p.data, Others: AnswerNotListed, OthersClusterID: "cafe", Listed: p.listed, Leaving: p.leaving}
	if p.recorded {
		in.ClusterID = "cafe"
	}
	if p.listed != "" {
		in.Others = AnswerNeverStarted
		if p.started {
			in.Others = AnswerStarted
		}
		in.DataListed = p.listed == p.data.MemberID
	}
	return in
}

// operate does what the operator does about what an agent says, and reports whether there is anything.
func (p *place) operate(said cluster.Volume) bool {
	add := func() {
		p.added++
		p.listed, p.started = fmt.Sprintf("new%d", p.added), false
	}
	switch {
	case said.Store == cluster.StoreLeft && !p.recorded:
		p.recorded = true
	case said.Store != cluster.StoreFree:
		return false
	case p.listed == "":
		add()
	case said.Lost == p.listed:
		p.listed = ""
		if p.eager {
			add()
		}
	default:
		return false
	}
	return true
}

// lives lets agent and operator act in turn until the member runs. It returns what is wrong.
func (p *place) lives() string {
	for range 12 {
		d := Decide(p.input())
		switch d.Action {
		case Start:
			if p.data.MemberID != p.listed {
				return "it starts with the data of a member that is not listed"
			}
			return ""
		case Join:
			if p.started {
				return "it joins as a member that has run"
			}
			return ""
		case SetAside:
			p.data = Data{}
		case Wait:
			if !p.operate(d.Volume) {
				return "it waits for a person: " + d.Why
			}
		default:
			return "it does not " + string(d.Action)
		}
	}
	return "it never runs"
}

// Whatever a volume holds and whichever member is listed: agent and operator together bring the member back, without a person, and none
// of them acts on what is not true any more. Only what may be the damaged data of the listed member itself is left to a person.
func TestAgentAndOperatorBringAMemberBack(t *testing.T) {
	worlds := 0
	for i := range 3 * 3 * 2 * 3 * 2 * 2 * 2 {
		n := i
		pick := func(of int) int { r := n % of; n /= of; return r }
		p := place{data: Data{State: DataState(pick(3)), MemberID: []string{"a1", "z9", ""}[pick(3)]}}
		p.data.Removed = pick(2) == 1
		switch pick(3) {
		case 1:
			p.listed = "a1"
		case 2:
			p.listed, p.started = "a1", true
		}
		p.leaving, p.recorded, p.eager = pick(2) == 1, pick(2) == 1, pick(2) == 1
		switch d := p.data; {
		case d.State == DataNone && (d.MemberID != "a1" || d.Removed), d.State != DataPresent && d.Removed, d.State == DataPresent && d.MemberID == "":
			continue // there is no such data
		case d.Removed && d.MemberID == p.listed:
			continue // an ID that was removed never returns
		}
		if p.data.State != DataNone {
			p.data.ClusterID = "cafe"
		}
		worlds++
		before := p
		ofUnknown := p.data.State == DataDamaged && p.data.MemberID == "" && p.listed != "" && !p.started
		if wrong := p.lives(); (wrong != "") != ofUnknown {
			t.Errorf("%+v: %s", before, wrong)
		}
	}
	if worlds < 100 {
		t.Errorf("%d worlds", worlds)
	}
}
