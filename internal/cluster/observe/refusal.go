// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"cmp"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	corev1 "k8s.io/api/core/v1"
)

// Refusal returns why the init container that prepares the member refused to start it; nil if it has not, or has since let the member
// start. While it retries, its last message counts.
func Refusal(pod *corev1.Pod) *cluster.Refusal {
	for _, c := range pod.Status.InitContainerStatuses {
		if c.Name != v1alpha1.InitContainerPrepare || completed(c) {
			continue
		}
		ended := cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
		if ended == nil || ended.ExitCode == 0 {
			return nil
		}
		return cluster.ParseRefusal(ended.Message)
	}
	return nil
}

// isPrepared reports whether the init container that prepares the member has let it start. It runs again only if the node, or
// the sandbox of the pod, starts again.
func isPrepared(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.InitContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == v1alpha1.InitContainerPrepare && completed(c)
	})
}

// changedList are etcd's words for a member list that is not the one in its configuration, in every release since 3.5.
var changedList = []string{"member count is unequal", "PeerURLs: no match found for existing member"}

// ListChanged reports whether etcd has refused to start, since the member list is not the one that the agent has prepared the pod for, and
// does not run now. The kubelet passes on the end of its log.
func ListChanged(etcd *corev1.ContainerStatus) bool {
	if etcd == nil || etcd.State.Running != nil {
		return false
	}
	ended := cmp.Or(etcd.State.Terminated, etcd.LastTerminationState.Terminated)
	return ended != nil && ended.ExitCode != 0 && slices.ContainsFunc(changedList, func(words string) bool { return strings.Contains(ended.Message, words) })
}
