// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"context"
	"fmt"
)

func (c *client) SetPeerURLs(ctx context.Context, id uint64, urls []string) error {
	if _, err := c.etcd.MemberUpdate(ctx, id, urls); err != nil {
		return fmt.Errorf("asking %s to list member %x with the peer URLs %v: %w", c.endpoint, id, urls, err)
	}
	return nil
}
