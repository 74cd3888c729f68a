// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// WorkLimit returns how much a Job may write that works on the database of an Etcd: the database twice, as large as its
// volume or quota allows, and space for a delta and a log. It reserves nothing. Hostile objects in a bucket that grow when
// they are decompressed evict the pod of the Job, rather than fill the disk of the node.
func WorkLimit(etcd *v1alpha1.Etcd) resource.Quantity {
	limit := etcd.Spec.Capacity()
	if quota := ptr.Deref(etcd.Spec.Etcd.Quota, resource.MustParse("8Gi")); quota.Cmp(limit) > 0 {
		limit = quota
	}
	limit = limit.DeepCopy()
	limit.Add(limit)
	limit.Add(resource.MustParse("2Gi"))
	return limit
}
