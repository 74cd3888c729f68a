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
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Leader returns the URL of the agent of the leader, or reports that it is this one. Its host is that of the pod, whatever URLs the member advertises
// to clients. The member of a source cluster has no agent here.
func Leader(ctx context.Context, m Member, local *clientv3.Client, shared SharedFrom, scheme, port string) (self bool, url string, err error) {
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
	i := slices.IndexFunc(list.Members, func(m *etcdserverpb.Member) bool { return m.ID == status.Leader })
	if i < 0 {
		return false, "", errors.New("the leader is not among the members")
	}
	config, err := shared()
	if err != nil {
		return false, "", err
	}
	id, err := config.Identify(list.Members[i].Name)
	if err != nil {
		return false, "", fmt.Errorf("the leader has no agent of this Etcd: %w", err)
	}
	client, err := neturl.Parse(id.ClientURL)
	if err != nil {
		return false, "", fmt.Errorf("reading the leader's client URL: %w", err)
	}
	return false, scheme + "://" + net.JoinHostPort(client.Hostname(), port), nil
}
