// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"encoding/json"
	"fmt"
	"time"
)

// document is a snapshot as the HTTP API shows it. The spelling is Gardener's.
type document struct {
	Kind               Kind      `json:"kind"`
	StartRevision      int64     `json:"startRevision"`
	LastRevision       int64     `json:"lastRevision"`
	CreatedOn          time.Time `json:"createdOn"`
	SnapDir            string    `json:"snapDir"`
	SnapName           string    `json:"snapName"`
	IsChunk            bool      `json:"isChunk"`
	Prefix             string    `json:"prefix"`
	CompressionSuffix  string    `json:"compressionSuffix"`
	IsFinal            bool      `json:"isFinal"`
	VersionID          *string   `json:"versionID"`
	ImmutabilityExpiry time.Time `json:"immutabilityExpriyTime"`
	// Size and Kept are extensions: other tools ignore them.
	Size int64 `json:"size,omitempty"`
	Kept bool  `json:"kept,omitempty"`
}

// MarshalJSON writes the snapshot as the HTTP API shows it.
func (s Snapshot) MarshalJSON() ([]byte, error) {
	return json.Marshal(document{
		Kind: s.Kind, StartRevision: s.StartRevision, LastRevision: s.LastRevision, CreatedOn: s.Created,
		SnapName: s.Name(), Prefix: s.Prefix, CompressionSuffix: s.Compression.suffix(), IsFinal: s.Final, Size: s.Size, Kept: s.Kept,
	})
}

// UnmarshalJSON reads a snapshot as the HTTP API shows it.
func (s *Snapshot) UnmarshalJSON(data []byte) error {
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return fmt.Errorf("reading a snapshot: %w", err)
	}
	parsed, err := ParseName(d.SnapName)
	if err != nil {
		return fmt.Errorf("reading a snapshot: %w", err)
	}
	if err := CheckPrefix(d.Prefix); err != nil {
		return fmt.Errorf("reading a snapshot: %w", err)
	}
	parsed.Prefix, parsed.Size, parsed.Kept = d.Prefix, max(d.Size, 0), d.Kept
	*s = parsed
	return nil
}
