// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Hibernation is the sleep of a cluster without its volumes. It is recorded before the first claim is deleted, and
// stays until the cluster has begun anew: there is nothing but the final snapshot to wake up from.
type Hibernation struct {
	// ID tells this sleep from others. The ID of the cluster that wakes up follows from it.
	ID types.UID `json:"id"`
	// Since is when the volumes were given up.
	Since metav1.Time `json:"since"`
	// Snapshot is the final full snapshot: its name in the store, which was verified to have it.
	Snapshot string `json:"snapshot"`
	// Revision of the snapshot. Every write that the cluster had acknowledged is in it.
	Revision int64 `json:"revision"`
	// ClusterID that the cluster had, in hex.
	ClusterID string `json:"clusterID"`
	// Claims that are deleted, or were. Others of the same names are not touched.
	// +kubebuilder:validation:MaxItems=5
	// +listType=map
	// +listMapKey=name
	// +optional
	Claims []HibernatedClaim `json:"claims,omitempty"`
}

// HibernatedClaim is a claim whose data is in the final snapshot.
type HibernatedClaim struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// ConditionHibernated is of an Etcd that is to sleep: True once it does as its spec says, without members, and under
// whenScaled: Delete without volumes. False, too, while a cluster wakes up that slept without volumes.
const ConditionHibernated = "Hibernated"

// Further reasons of the condition Hibernated, besides ReasonHibernated.
const (
	// ReasonHibernating: members are stopped, the final snapshot is taken, or volumes are deleted.
	ReasonHibernating = "Hibernating"
	// ReasonNoFinalSnapshot: the volumes would be deleted, and there is no verified final full snapshot to wake up from.
	// The message says why, and whether members run.
	ReasonNoFinalSnapshot = "NoFinalSnapshot"
	// ReasonWakingUp: the cluster begins anew from the final snapshot. A member that waits for its turn says so as well.
	ReasonWakingUp = "WakingUp"
)
