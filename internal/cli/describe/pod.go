// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	corev1 "k8s.io/api/core/v1"
)

// podAdvice returns where to find out why a pod does not participate: its log only if a container has run. The pod is nil if it
// does not exist or could not be read.
func podAdvice(namespace, name string, pod *corev1.Pod) []string {
	look := fmt.Sprintf("Check the pod: \"kubectl -n %s describe pod %s\"", namespace, name)
	if pod == nil {
		return []string{look + "."}
	}
	var say []string
	if r := observe.Refusal(pod); r != nil {
		say = append(say, fmt.Sprintf("The agent of %s keeps its member from starting (%s): %s.", name, r.Reason, strings.TrimSuffix(r.Message, ".")))
	}
	if container, previous := lastToRun(pod); container != "" {
		look += fmt.Sprintf(", and its log: \"kubectl -n %s logs %s -c %s%s\"", namespace, name, container, previous)
	}
	return append(say, look+".")
}

// lastToRun returns the container whose log says why a member does not participate, and the flag of kubectl for the log of its
// previous run if it is waiting for the next one; empty if none has run.
func lastToRun(pod *corev1.Pod) (container, previous string) {
	all := slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses)
	for _, name := range []string{v1alpha1.ContainerEtcd, v1alpha1.InitContainerPrepare} {
		i := slices.IndexFunc(all, func(c corev1.ContainerStatus) bool { return c.Name == name })
		if i < 0 {
			continue
		}
		switch c := all[i]; {
		case c.State.Running != nil || c.State.Terminated != nil:
			return name, ""
		case c.LastTerminationState.Terminated != nil:
			return name, " --previous"
		}
	}
	return "", ""
}
