// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recovery

import "github.com/etcd-foreman/etcd-foreman/tasks/newcluster"

// What the types have in common, by the names that the tests use.
var (
	id         = newcluster.ID
	members    = newcluster.Members
	lineage    = newcluster.Lineage
	earlier    = newcluster.Earlier
	operations = newcluster.Operations
)
