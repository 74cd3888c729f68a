// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"reflect"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reading is what a reader, the API server or a cache of it, has of an Etcd: a Snapshot without what the members say.
type Reading struct {
	etcd   *v1alpha1.Etcd
	reader client.Reader
	// The rest is as in Snapshot. The classes of the ordinals are the kubelet's word alone.
	at          time.Time
	statefulSet StatefulSet
	ordinals    []Ordinal
	surplus     []string
	growing     bool
}

// Confirms tells whether a Snapshot was made of the same objects, and of answers of members, so that it stands.
func (r *Reading) Confirms(s *Snapshot) bool {
	return s.Cluster.Reachable && r.statefulSet == s.StatefulSet && r.growing == s.Growing && slices.Equal(r.surplus, s.Surplus) &&
		slices.EqualFunc(r.ordinals, s.Ordinals, func(a, b Ordinal) bool {
			return a.Name == b.Name && a.Member == b.Member && reflect.DeepEqual(a.Pod, b.Pod)
		})
}

// AllReady tells whether every ordinal has a pod that is ready, and stays.
func (r *Reading) AllReady() bool {
	return !slices.ContainsFunc(r.ordinals, func(o Ordinal) bool {
		return o.Pod == nil || !o.Pod.Ready || o.Class == v1alpha1.ClassTerminating
	})
}

// Has tells whether a pod is there.
func (r *Reading) Has(pod types.UID) bool {
	return slices.ContainsFunc(r.ordinals, func(o Ordinal) bool { return o.Pod != nil && o.Pod.UID == pod })
}
