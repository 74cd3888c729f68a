// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
)

// What an agent leaves is what the operator reads, also where the message is too long for the kubelet.
func TestTerminationMessage(t *testing.T) {
	free := Volume{Store: StoreFree, Lost: "cafe"}
	for name, r := range map[string]Refusal{
		"nothing of the volume": {Reason: v1alpha1.ReasonRestoreFailed, Message: "restoring failed: no space"},
		"a volume":              {Reason: v1alpha1.ReasonDataLost, Message: "member m-1 has no data", Volume: free},
		"no message":            {Reason: v1alpha1.ReasonDataLost, Volume: free},
		"as long as may be":     {Reason: v1alpha1.ReasonDataLost, Message: strings.Repeat("a", maxMessage-len("DataLost: "))},
		"several lines":         {Reason: v1alpha1.ReasonDataDamaged, Message: "damaged:\nvolume: none", Volume: Volume{Store: StoreOther, ClusterID: "beef"}},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(ParseRefusal(r.TerminationMessage())).To(Equal(&r))
		})
	}
	g := NewWithT(t)
	for _, other := range []string{"", "DataLost", "DataLost of m-1", "panic: DataLost", "Unknown: why"} {
		g.Expect(ParseRefusal(other)).To(BeNil(), other)
	}
	long := Refusal{Reason: v1alpha1.ReasonDataLost, Message: strings.Repeat("ä", 8<<10), Volume: free}
	text := long.TerminationMessage()
	g.Expect(len(text)).To(BeNumerically("<", 4<<10))
	g.Expect(ParseRefusal(text).Volume).To(Equal(free))
	g.Expect(ParseRefusal(text).Message).To(HaveSuffix(" ..."))
}

// Of what is not understood, nothing is known.
func TestUnreadableVolume(t *testing.T) {
	for _, text := range []string{`volume: {"store":"Tidy"}`, "volume: {", `volume: {"lost":"cafe"}`} {
		got := ParseRefusal("DataLost: lost\n" + text)
		NewWithT(t).Expect(got.Volume).To(Equal(Volume{}), text)
		NewWithT(t).Expect(got.Message).To(Equal("lost"), text)
	}
}

// An agent speaks only for a volume whose member certainly does not run.
func TestVolume(t *testing.T) {
	free := Volume{Store: StoreFree}
	pod := func(change func(*Pod)) *Pod {
		p := &Pod{Refusal: &Refusal{Volume: free}}
		if change != nil {
			change(p)
		}
		return p
	}
	for name, c := range map[string]struct {
		ordinal Ordinal
		want    Volume
	}{
		"it waits":                    {Ordinal{Class: v1alpha1.ClassDead, Pod: pod(nil)}, free},
		"it waits, and starts again":  {Ordinal{Class: v1alpha1.ClassStarting, Pod: pod(nil)}, free},
		"there is no pod":             {Ordinal{Class: v1alpha1.ClassMissing}, Volume{}},
		"nothing was said":            {Ordinal{Class: v1alpha1.ClassStarting, Pod: &Pod{}}, Volume{}},
		"its node is lost":            {Ordinal{Class: v1alpha1.ClassDead, Pod: pod(func(p *Pod) { p.NodeLost = true })}, Volume{}},
		"its member answers":          {Ordinal{Class: v1alpha1.ClassUnready, Pod: pod(nil)}, Volume{}},
		"it terminates, and may run":  {Ordinal{Class: v1alpha1.ClassTerminating, Pod: pod(func(p *Pod) { p.EtcdStarted = time.Unix(1, 0) })}, Volume{}},
		"it terminates, and does not": {Ordinal{Class: v1alpha1.ClassTerminating, Pod: pod(nil)}, free},
	} {
		NewWithT(t).Expect(c.ordinal.Volume()).To(Equal(c.want), name)
	}
}

func TestRead(t *testing.T) {
	g := NewWithT(t)
	read := Read{Etcd: "uid", Generation: 7, Leaving: true, Removed: "cafe"}
	text := read.Encode()
	g.Expect(ParseRead(text, "uid")).To(Equal(read))
	padded := text + strings.Repeat(" ", maxRead-len(text))
	g.Expect(ParseRead(padded, "uid")).To(Equal(read))
	g.Expect(ParseRead(padded+" ", "uid")).To(Equal(Read{}), "it is too long")
	g.Expect(ParseRead(text, "other")).To(Equal(Read{}), "it is of another Etcd")
	for _, text := range []string{"", "{", "[]", `{"generation":7}`, `{"etcd":"uid","generation":7,"removed":"` + strings.Repeat("a", 600) + `"}`} {
		g.Expect(ParseRead(text, "uid")).To(Equal(Read{}), text)
	}
	g.Expect(ParseRead(`{"etcd":"","generation":7,"leaving":true}`, "")).To(Equal(Read{}))
}

// What was read of an earlier announcement, or before it was taken back, confirms nothing of a later one.
func TestConfirms(t *testing.T) {
	g := NewWithT(t)
	leaving := Read{Generation: 7, Leaving: true}
	g.Expect(leaving.Confirms(7)).To(BeTrue())
	g.Expect(leaving.Confirms(6)).To(BeTrue())
	g.Expect(leaving.Confirms(8)).To(BeFalse())
	g.Expect(Read{Generation: 9}.Confirms(7)).To(BeFalse())
}
