// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import "strconv"

// MaxBegan is the highest revision at which a cluster is believed to have begun. It leaves room for two billion raises by datadir.Margin, and is below
// what the operator believes of snapshots and volumes.
const MaxBegan = 1 << 61

// ParseBegan returns the highest revision at which a cluster of an Etcd has begun, as the Lease of full snapshots records it; 0 for none. Text
// that no agent has written counts as none, and more than MaxBegan as that. A user who may write the Lease can have a cluster begin there, and no
// revision overflows.
func ParseBegan(text string) int64 {
	revision, err := strconv.ParseInt(text, 10, 64)
	if err != nil || revision < 0 {
		return 0
	}
	return min(revision, MaxBegan)
}
