// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"strings"
)

// Store is what an agent has found on the volume of a member that it keeps from starting.
type Store string

// The stores. The agent reports none for a member that may run.
const (
	// StoreFree: a member could join with this volume, since a quorum has all that is needed of its present or former data. Data of a
	// removed member was set aside.
	StoreFree Store = "Free"
	// StoreLeft: the volume has the data of a removed member, and the other members have not confirmed yet that they do not list it.
	StoreLeft Store = "Left"
	// StoreOther: the volume has the data of another cluster, which is left alone.
	StoreOther Store = "Other"
)

// Volume is an agent's report on the volume of a member that it keeps from starting. It holds until the member starts: only the agent
// changes the volume.
type Volume struct {
	Store Store `json:"store"`
	// ClusterID of the data, in hex; empty if there is none.
	ClusterID string `json:"clusterID,omitempty"`
	// Lost is the ID, in hex, of the listed member whose data is gone: it has, or may have, run before, and can only come back as another
	// member. Empty if no such member is listed.
	Lost string `json:"lost,omitempty"`
}

// Volume returns the agent's report on the volume of an ordinal; the zero value while its member may run.
func (o *Ordinal) Volume() Volume {
	if o.Pod == nil || o.Pod.Refusal == nil || o.MayRun() {
		return Volume{}
	}
	return o.Pod.Refusal.Volume
}

// Read is what the agent of a running member has read about the members that are about to be removed. Later pods of the member never read
// an older generation, so it still holds when the pod is replaced.
type Read struct {
	// Etcd is the UID of the Etcd that the announcement was written for.
	Etcd string `json:"etcd"`
	// Generation of what it has read.
	Generation int64 `json:"generation"`
	// Leaving: its member is about to be removed.
	Leaving bool `json:"leaving,omitempty"`
	// Removed is the ID, in hex, of its member once a quorum of the others serves without it; empty before.
	Removed string `json:"removed,omitempty"`
}

// maxRead bounds the encoding of a Read, in bytes. Agents write it, and an agent may be compromised.
const maxRead = 512

// Encode returns the value of AnnotationMembersRead.
func (r Read) Encode() string {
	text, _ := json.Marshal(r) // strings and numbers can always be encoded
	return string(text)
}

// ParseRead parses the value of AnnotationMembersRead; the zero Read if it is not one of this Etcd.
func ParseRead(text, etcd string) Read {
	r := Read{}
	if len(text) > maxRead || json.Unmarshal([]byte(text), &r) != nil || etcd == "" || r.Etcd != etcd {
		return Read{}
	}
	return r
}

// Confirms reports whether the agent has read that its member leaves, in a generation or a later one.
func (r Read) Confirms(generation int64) bool { return r.Leaving && r.Generation >= generation }

// volumePrefix begins the line of a termination message that has the Volume.
const volumePrefix = "\nvolume: "

// cutVolume cuts the Volume from the end of a termination message. An unreadable one is ignored.
func cutVolume(text string) (message string, volume Volume) {
	i := strings.LastIndex(text, volumePrefix)
	if i < 0 {
		return text, Volume{}
	}
	if json.Unmarshal([]byte(text[i+len(volumePrefix):]), &volume) != nil {
		return text[:i], Volume{}
	}
	switch volume.Store {
	case StoreFree, StoreLeft, StoreOther:
		return text[:i], volume
	default:
		return text[:i], Volume{}
	}
}
