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

// Members tells the members of a cluster how the operator is about to change their list. While it does, agents add, promote and remove
// no member, also if a recovery is not over yet.
type Members struct {
	// Etcd is the UID of the Etcd that it was written for. That of an earlier Etcd of the same name means nothing.
	Etcd string `json:"etcd"`
	// ClusterID of the cluster that changes, in hex. What was said of the members of a cluster before a recovery means nothing after it.
	ClusterID string `json:"clusterID"`
	// Generation grows with each change. The agent of a running member reports the one that it has read.
	Generation int64 `json:"generation"`
	// Leaving are the names of the members that are about to be removed.
	Leaving []string `json:"leaving,omitempty"`
	// Joining are the UIDs of the pods of members that are about to be added, by name: an agent that has read this is in a pod that lists
	// them. Only the operator reads it.
	Joining map[string]string `json:"joining,omitempty"`
}

// ParseMembers parses the value of KeyMembers; nil if it is empty. Fields that a later operator may add are ignored.
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

// Alone reports whether the member is configured as the only one: nothing else is listed that may serve.
func (s Shared) Alone() bool {
	return !strings.Contains(s.InitialCluster(), ",") && s.Source == nil
}

// Leaves reports whether a member is about to be removed.
func (m *Members) Leaves(name string) bool { return m != nil && slices.Contains(m.Leaving, name) }
