// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Members announces to the members of a cluster how the operator is about to change their list. While it does, agents add, promote and
// remove no member, not even in a recovery.
type Members struct {
	// Etcd is the UID of the Etcd. An announcement for an earlier Etcd of the same name does not count.
	Etcd string `json:"etcd"`
	// ClusterID of the cluster that changes, in hex. An announcement from before a recovery does not count after it.
	ClusterID string `json:"clusterID"`
	// Generation grows with each announcement. The agent of a running member reports the one that it has read.
	Generation int64 `json:"generation"`
	// Leaving are the names of the members that are about to be removed.
	Leaving []string `json:"leaving,omitempty"`
	// Joining are the UIDs of the pods of members that are about to be added, by name. Only the operator reads it: an agent that reports
	// this generation has read a configuration that lists these members, so its member no longer believes that it is the only one
	// (docs/adr/0072-the-only-member-knows-of-the-next.md).
	Joining map[string]string `json:"joining,omitempty"`
}

// ParseMembers parses the value of KeyMembers; nil if it is empty. It ignores unknown fields, which a later operator may add.
func ParseMembers(value string) (*Members, error) {
	if strings.TrimSpace(value) == "" {
		return nil, nil
	}
	m := &Members{}
	if err := yaml.Unmarshal([]byte(value), m); err != nil {
		return nil, fmt.Errorf("reading %s of the shared configuration: %w", KeyMembers, err)
	}
	if m.Etcd == "" || m.ClusterID == "" || m.Generation <= 0 {
		return nil, fmt.Errorf("reading %s of the shared configuration: it has no etcd, clusterID or generation", KeyMembers)
	}
	return m, nil
}

// Encode returns the value of KeyMembers.
func (m Members) Encode() (string, error) {
	value, err := yaml.Marshal(m)
	if err != nil {
		return "", fmt.Errorf("encoding how the members change: %w", err)
	}
	return string(value), nil
}

// Alone reports whether the member is configured as the only one: no other member is listed, and there is no source cluster.
func (s Shared) Alone() bool {
	return !strings.Contains(s.InitialCluster(), ",") && s.Source == nil
}

// Leaves reports whether a member is about to be removed. A nil receiver announces nothing.
func (m *Members) Leaves(name string) bool { return m != nil && slices.Contains(m.Leaving, name) }
