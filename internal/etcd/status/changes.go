// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// SaysMore reports whether a status differs in something that a client may wait for, and not only in details (members, numbers, wording and
// times).
func SaysMore(before, after *v1alpha1.EtcdStatus) bool {
	has := func(all v1alpha1.Conditions, c v1alpha1.Condition) bool {
		found := all.Find(c.Type)
		return found != nil && found.Status == c.Status
	}
	return before.ObservedGeneration != after.ObservedGeneration ||
		before.ClusterID != after.ClusterID || before.ClusterSize != after.ClusterSize || before.Voters != after.Voters ||
		!equality.Semantic.DeepEqual(before.Ready, after.Ready) ||
		!equality.Semantic.DeepEqual(before.Hibernation, after.Hibernation) ||
		!equality.Semantic.DeepEqual(before.Recovery, after.Recovery) ||
		!equality.Semantic.DeepEqual(before.Rollout, after.Rollout) ||
		!equality.Semantic.DeepEqual(before.AdvertisedPeerURLs, after.AdvertisedPeerURLs) ||
		!slices.EqualFunc(before.LastErrors, after.LastErrors, sameError) ||
		slices.ContainsFunc(after.Conditions, func(c v1alpha1.Condition) bool { return !has(before.Conditions, c) }) ||
		slices.ContainsFunc(before.Conditions, func(c v1alpha1.Condition) bool { return !has(after.Conditions, c) })
}
