// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// Source is a running cluster that the members join. A member queries the members of the source like its own peers. While there is a source,
// no member counts as the only one: it neither begins a cluster nor restores a backup.
type Source struct {
	// ClientEndpoints of its members.
	ClientEndpoints []string `json:"clientEndpoints"`
	// Leads: the source leads, and takes the snapshots. A member that leads for a moment takes none.
	Leads bool `json:"leads"`
}

// parseSource parses the value of KeySource; nil if it is empty.
func parseSource(value string) (*Source, error) {
	if strings.TrimSpace(value) == "" {
		return nil, nil
	}
	s := &Source{}
	if err := yaml.Unmarshal([]byte(value), s); err != nil {
		return nil, fmt.Errorf("reading %s of the shared configuration: %w", KeySource, err)
	}
	return s, nil
}

// Encode returns the value of KeySource.
func (s Source) Encode() (string, error) {
	value, err := yaml.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encoding the source cluster: %w", err)
	}
	return string(value), nil
}
