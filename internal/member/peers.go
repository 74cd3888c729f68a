// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// askTimeout is how long the other members are given to answer. Every member of a new cluster waits for so
// long once, because then nobody can answer.
const askTimeout = 2 * time.Second

// askOthers asks the other members what they know of the one with this peer URL. The read is linearizable:
// a member that lags behind could say that somebody never started who has since. An error says why there
// was no answer.
func askOthers(ctx context.Context, id Identity) (Answer, error) {
	if len(id.PeerClientURLs) == 0 {
		return AnswerNone, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	client, err := clientv3.New(clientv3.Config{Context: ctx, Endpoints: id.PeerClientURLs, Logger: zap.NewNop()})
	if err != nil {
		return AnswerNone, fmt.Errorf("making an etcd client for %v: %w", id.PeerClientURLs, err)
	}
	// A connection that was only read from.
	defer func() { _ = client.Close() }()
	list, err := client.MemberList(ctx)
	if err != nil {
		return AnswerNone, fmt.Errorf("asking %v for the member list: %w", id.PeerClientURLs, err)
	}
	for _, m := range list.Members {
		if !slices.Contains(m.PeerURLs, id.PeerURL) {
			continue
		}
		// A member publishes its client URLs when it first starts.
		if len(m.ClientURLs) > 0 {
			return AnswerStarted, nil
		}
		return AnswerNeverStarted, nil
	}
	return AnswerNotListed, nil
}
