// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	neturl "net/url"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Leader returns the URL of the agent of the leader, or reports that it is this one.
func Leader(ctx context.Context, m Member, local *clientv3.Client, scheme, port string) (self bool, url string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	status, err := m.Status(ctx)
	switch {
	case err != nil:
		return false, "", err
	case status.Leader == 0:
		return false, "", errors.New("the member knows no leader")
	case status.leads():
		return true, "", nil
	}
	list, err := local.MemberList(ctx, clientv3.WithSerializable())
	if err != nil {
		return false, "", fmt.Errorf("asking for the member list: %w", err)
	}
	for _, member := range list.Members {
		if member.ID != status.Leader || len(member.ClientURLs) == 0 {
			continue
		}
		client, err := neturl.Parse(member.ClientURLs[0])
		if err != nil {
			return false, "", fmt.Errorf("reading the leader's client URL: %w", err)
		}
		return false, scheme + "://" + net.JoinHostPort(client.Hostname(), port), nil
	}
	return false, "", errors.New("the leader is not among the members")
}
