// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// WorkLimit is what a Job may write that works on the database of an Etcd: the database twice, as big as its volume or its
// quota lets it become, and room for a delta and a log. It reserves nothing. What somebody put into a bucket, and grows
// when it is decompressed, ends there, and not when the disk of the node is full.
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
