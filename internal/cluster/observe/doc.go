// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package observe is the only reader of a cluster's state. It asks the API server and etcd, and makes of
// their answers a cluster.Snapshot.
package observe
