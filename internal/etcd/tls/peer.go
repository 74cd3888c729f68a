// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package tls

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nextStage returns the next stage of the template on the way to TLS among members. The Snapshot is nil if there are no members.
func nextStage(at component.PeerTLS, s *cluster.Snapshot) component.PeerTLS {
	switch {
	case at == component.PeerTLSOn || s == nil:
		return at
	case alone(s):
		// It has no peers, and this saves a restart.
		return component.PeerTLSOn
	case at == component.PeerTLSOff:
		return component.PeerTLSPrepared
	case everyMemberAt(s, at) && len(peerURLChanges(at, s)) == 0:
		return component.PeerTLSOn
	}
	return at
}

// alone reports whether a cluster has a single member.
func alone(s *cluster.Snapshot) bool {
	return s.Replicas() == 1 && len(s.Cluster.Voters) == 1 && s.Cluster.Voters[0].Ordinal == 0
}

// everyMemberAt reports whether there are members, and every one has come this far.
func everyMemberAt(s *cluster.Snapshot, at component.PeerTLS) bool {
	return s.Replicas() > 0 && s.EveryMember(func(p *cluster.Pod) bool { return p.PeerTLS == string(at) })
}

// peerURLChanges returns the peer URLs that members are to be listed with and are not, by member ID. Once every member can connect
// with TLS, each is listed both with and without: peers try one after the other, so it does not matter when a member changes what
// it listens for. Once every member listens with TLS, the URLs without are removed.
func peerURLChanges(at component.PeerTLS, s *cluster.Snapshot) map[uint64][]string {
	if at == component.PeerTLSOff || !everyMemberAt(s, at) {
		return nil
	}
	changes := map[uint64][]string{}
	for _, v := range s.Cluster.Voters {
		if want := wantedURLs(at, v.PeerURLs); !slices.Equal(want, slices.Sorted(slices.Values(v.PeerURLs))) {
			changes[v.ID] = want
		}
	}
	return changes
}

func wantedURLs(at component.PeerTLS, listed []string) []string {
	wanted := map[string]bool{}
	for _, l := range listed {
		u, err := url.Parse(l)
		if err != nil {
			// The operator writes no such URL, and etcd refuses it.
			continue
		}
		u.Scheme = "https"
		wanted[u.String()] = true
		if at == component.PeerTLSPrepared {
			u.Scheme = "http"
			wanted[u.String()] = true
		}
	}
	return slices.Sorted(maps.Keys(wanted))
}

// memberUpdateTimeout bounds one change of the member list.
const memberUpdateTimeout = 5 * time.Second

// ListPeerURLs lists the members under the peer URLs of the plan. Each change takes a quorum.
func (m *Mover) ListPeerURLs(ctx context.Context, s *state.State, p Plan) error {
	if p.Problem != nil || s.Snapshot == nil {
		return nil
	}
	return m.list(ctx, s, peerURLChanges(p.Stage, s.Snapshot))
}

// ListAdvertised lists the members with the further peer URLs that the spec names and the status records.
func (m *Mover) ListAdvertised(ctx context.Context, s *state.State, p Plan) error {
	if !p.Arrived(s.Etcd) || s.Snapshot == nil {
		return nil
	}
	return m.list(ctx, s, advertisedChanges(s.Etcd, p.Stage, s.Snapshot))
}

// list has the leader change the peer URLs of members, by their IDs.
func (m *Mover) list(ctx context.Context, s *state.State, changes map[uint64][]string) error {
	leader := s.Snapshot.Leader()
	if len(changes) == 0 || leader < 0 {
		return nil
	}
	o := s.Snapshot.Ordinals[leader]
	member, err := m.Credentials.Dial(ctx, m.Dialer, s.Etcd, o.Name, o.Pod.Endpoint)
	if err != nil {
		return coded.Error(v1alpha1.ErrPeerURLs, fmt.Errorf("connecting to the leader %s: %w", o.Name, err))
	}
	// Nothing more is sent on this connection.
	defer func() { _ = member.Close() }()
	for _, id := range slices.Sorted(maps.Keys(changes)) {
		ctx, cancel := context.WithTimeout(ctx, memberUpdateTimeout)
		err := member.SetPeerURLs(ctx, id, changes[id])
		cancel()
		if err != nil {
			return coded.Error(v1alpha1.ErrPeerURLs, err)
		}
	}
	ctrl.LoggerFrom(ctx).Info("Changed the peer URLs", "etcd", client.ObjectKeyFromObject(s.Etcd), "members", len(changes))
	return nil
}
