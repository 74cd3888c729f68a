// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package disturb

import etcdmember "github.com/etcd-foreman/etcd-foreman/internal/agent/member"

// Cluster describes a recorded cluster ID in the same words in every run: that of a recovered cluster follows from the UIDs of the
// Etcd and of the task.
func Cluster(id string, config map[string]string) string {
	if shared, err := etcdmember.ParseShared(config); err == nil && shared.Recovery != nil && shared.RecoveredID() == id {
		return "recovered"
	}
	return id
}
