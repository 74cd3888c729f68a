// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package managedtls

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"maps"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/pki"
	"github.com/etcd-foreman/etcd-foreman/internal/lasting"
)

const (
	// propagation is the longest time until a kubelet has delivered a changed Secret to the pods, and clients have read their files again.
	propagation = 5 * time.Minute
	// maxUnobserved is the longest time between two observations that counts as uninterrupted. A healthy Etcd is observed every 30 seconds.
	maxUnobserved = 2 * time.Minute
)

// members is the name of the timer for the CAs that every member trusts.
const members = "members"

// timers record how long named values have been unchanged. They decide when a CA begins to sign or is no longer trusted, so they are kept
// only in memory, and a gap resets them. An empty value is unknown, and never lasts.
type timers map[string]lasting.Timer[string]

// with adds an observation of a value, and reports whether it has been unchanged for long enough.
func (t timers) with(name, value string, now time.Time) bool {
	t[name] = t[name].Next(value, now, maxUnobserved)
	return t.lasted(name)
}

func (t timers) lasted(name string) bool { return t[name].Lasted(propagation) }

// observe adds an observation of the CAs that every member trusts.
func (m *Manager) observe(q Request, now time.Time) {
	t := maps.Clone(m.timers.Of(q.Etcd))
	if t == nil {
		t = timers{}
	}
	value := ""
	if everyMemberTrusts(q.Snapshot, q.Authorities) {
		value = q.Authorities
	}
	t.with(members, value, now)
	m.timers.Set(q.Etcd, t)
}

// everyMemberTrusts reports whether every member was started with these CAs.
func everyMemberTrusts(s *cluster.Snapshot, authorities string) bool {
	return s != nil && authorities != "" && len(s.Surplus) == 0 && s.EveryMember(func(p *cluster.Pod) bool { return p.Authorities == authorities })
}

// fingerprint of certificates; empty if there are none.
func fingerprint(all ...*x509.Certificate) string {
	if len(all) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, c := range all {
		sum.Write(c.Raw)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// leaves returns the certificates of a connection, ordered by their Secrets.
func leaves(s pki.State) (all []*x509.Certificate) {
	for _, secret := range slices.Sorted(maps.Keys(s.Leaves)) {
		all = append(all, s.Leaves[secret].Certificate)
	}
	return all
}
