// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// SaysMore reports whether a status differs in more than details, which are the members, the numbers, wordings and times: in
// something that a client may wait for.
func SaysMore(before, after *v1alpha1.EtcdStatus) bool {
	for _, c := range after.Conditions {
		if b := before.Conditions.Find(c.Type); b == nil || b.Status != c.Status {
			return true
		}
	}
	for _, c := range before.Conditions {
		if after.Conditions.Find(c.Type) == nil {
			return true
		}
	}
	return before.ObservedGeneration != after.ObservedGeneration ||
		before.ClusterID != after.ClusterID || before.ClusterSize != after.ClusterSize ||
		!equality.Semantic.DeepEqual(before.Ready, after.Ready) ||
		!equality.Semantic.DeepEqual(before.Hibernation, after.Hibernation) ||
		!equality.Semantic.DeepEqual(before.Recovery, after.Recovery) ||
		!equality.Semantic.DeepEqual(before.Rollout, after.Rollout) ||
		!slices.EqualFunc(before.LastErrors, after.LastErrors, sameError)
}
