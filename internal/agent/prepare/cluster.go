// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package prepare

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// askTimeout is how long the other members may take to answer. Every member of a new cluster waits that long once.
const askTimeout = 2 * time.Second

// changeTimeout is how long a change of the member list may take.
const changeTimeout = 5 * time.Second

// knowledge is what the other members know of this one.
type knowledge struct {
	answer member.Answer
	// clusterID of their cluster, in hex.
	clusterID string
	// memberID is set when the member is listed.
	memberID uint64
	// members are all that are listed.
	members []*etcdserverpb.Member
}

// listed returns the ID, in hex, of the member that they list with this one's peer URL; empty if there is none.
func (k knowledge) listed() string {
	if k.memberID == 0 {
		return ""
	}
	return strconv.FormatUint(k.memberID, 16)
}

// lists reports whether they list a member by its ID, in hex.
func (k knowledge) lists(memberID string) bool {
	return slices.ContainsFunc(k.members, func(m *etcdserverpb.Member) bool { return strconv.FormatUint(m.ID, 16) == memberID })
}

// others is a client of the other members; nil when there are none.
type others struct{ etcd *clientv3.Client }

func dialOthers(shared member.Shared, id member.Identity, clientDir string) (*others, error) {
	if len(id.PeerClientURLs) == 0 {
		return nil, nil
	}
	tls, err := shared.ClientTLS(clientDir)
	if err != nil {
		return nil, err
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: id.PeerClientURLs, TLS: tls, Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("making an etcd client for %v: %w", id.PeerClientURLs, err)
	}
	return &others{etcd: client}, nil
}

func (o *others) close() {
	if o != nil {
		// The connection is not needed any more.
		_ = o.etcd.Close()
	}
}

// ask asks what they know of the member with this peer URL. The read is linearizable: a lagging member could report a member
// as never started that has started since.
func (o *others) ask(ctx context.Context, id member.Identity) (knowledge, error) {
	if o == nil {
		return knowledge{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	list, err := o.etcd.MemberList(ctx)
	if err != nil {
		return knowledge{}, fmt.Errorf("asking %v for the member list: %w", id.PeerClientURLs, err)
	}
	k := knowledge{answer: member.AnswerNotListed, clusterID: strconv.FormatUint(list.Header.GetClusterId(), 16), members: list.Members}
	if m := listedAs(id, list.Members); m != nil {
		k.answer, k.memberID = member.AnswerNeverStarted, m.ID
		// A member publishes its client URLs when it first starts.
		if len(m.ClientURLs) > 0 {
			k.answer = member.AnswerStarted
		}
	}
	return k, nil
}

// clusters asks each of them of which cluster it is, and returns the IDs, in hex, of those that answer. It takes no quorum.
func (o *others) clusters(ctx context.Context, id member.Identity) (ids []string) {
	if o == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answers := make(chan *clientv3.StatusResponse)
	for _, url := range id.PeerClientURLs {
		go func() {
			status, _ := o.etcd.Status(ctx, url) // nil with an error
			answers <- status
		}()
	}
	for range id.PeerClientURLs {
		if status := <-answers; status != nil {
			ids = append(ids, strconv.FormatUint(status.Header.GetClusterId(), 16))
		}
	}
	return ids
}

// listedAs returns the member that is this one: the one with its peer URL or, if there is none, with its name, since the spec may
// override the URL; nil if it is not listed.
func listedAs(id member.Identity, members []*etcdserverpb.Member) *etcdserverpb.Member {
	for _, is := range []func(*etcdserverpb.Member) bool{
		func(m *etcdserverpb.Member) bool { return slices.Contains(m.PeerURLs, id.PeerURL) },
		func(m *etcdserverpb.Member) bool { return m.Name == id.Name },
	} {
		if i := slices.IndexFunc(members, is); i >= 0 {
			return members[i]
		}
	}
	return nil
}

// remove removes a member from the member list. etcd refuses if that would cost quorum.
func (o *others) remove(ctx context.Context, memberID uint64) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	if _, err := o.etcd.MemberRemove(ctx, memberID); err != nil {
		return fmt.Errorf("removing member %x: %w", memberID, err)
	}
	return nil
}

// addLearner adds a learner to the member list, and returns all members. etcd allows one learner at a time, and only if all
// voters have been connected for some seconds.
func (o *others) addLearner(ctx context.Context, peerURL string) ([]*etcdserverpb.Member, error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	added, err := o.etcd.MemberAddAsLearner(ctx, []string{peerURL})
	if err != nil {
		return nil, fmt.Errorf("adding learner %s: %w", peerURL, err)
	}
	return added.Members, nil
}

// otherLearner returns the name of a learner other than the member with this peer URL; empty if there is none.
func otherLearner(members []*etcdserverpb.Member, peerURL string) string {
	for _, m := range members {
		if m.IsLearner && !slices.Contains(m.PeerURLs, peerURL) {
			return cmp.Or(m.Name, strconv.FormatUint(m.ID, 16))
		}
	}
	return ""
}

// initialCluster returns the initial-cluster of a member that joins. etcd compares only URLs, so the names of other members
// that have not started do not matter.
func initialCluster(id member.Identity, members []*etcdserverpb.Member) string {
	var entries []string
	self := listedAs(id, members)
	for _, m := range members {
		name := m.Name
		switch {
		case m == self:
			name = id.Name
		case name == "":
			name = strconv.FormatUint(m.ID, 16)
		}
		for _, url := range m.PeerURLs {
			entries = append(entries, name+"="+url)
		}
	}
	return strings.Join(entries, ",")
}
