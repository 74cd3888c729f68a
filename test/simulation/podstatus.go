// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// report writes the status of a pod.
func (p *pod) report() {
	live := apiserver.Find[*corev1.Pod](p.world.API.Live(), Namespace, p.name)
	if live == nil || live.UID != p.uid || p.node.silent() || p.ip == "" {
		return
	}
	p.world.Log("kubelet of "+p.node.name, fmt.Sprintf("%s: prepared %t, runs %t, ready %t%s", p.name, p.prepared, p.member != nil, p.ready, p.refused))
	edit(p.world, Namespace, p.name, "status", func(live *corev1.Pod) {
		s := &live.Status
		s.Phase, s.PodIP, s.PodIPs = corev1.PodRunning, p.ip, []corev1.PodIP{{IP: p.ip}}
		if !p.prepared {
			s.Phase = corev1.PodPending
		}
		if s.StartTime == nil {
			s.StartTime = now()
		}
		s.InitContainerStatuses = []corev1.ContainerStatus{p.initContainer()}
		s.ContainerStatuses = nil
		for _, c := range live.Spec.Containers {
			s.ContainerStatuses = append(s.ContainerStatuses, p.container(c))
		}
		is := corev1.ConditionFalse
		if p.ready {
			is = corev1.ConditionTrue
		}
		setCondition(s, corev1.PodScheduled, corev1.ConditionTrue)
		setCondition(s, corev1.ContainersReady, is)
		setCondition(s, corev1.PodReady, is)
	})
}

func now() *metav1.Time { return &metav1.Time{Time: time.Now().Truncate(time.Second)} }

func setCondition(s *corev1.PodStatus, of corev1.PodConditionType, is corev1.ConditionStatus) {
	i := slices.IndexFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == of })
	if i < 0 {
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: of})
		i = len(s.Conditions) - 1
	}
	if s.Conditions[i].Status != is {
		s.Conditions[i].Status, s.Conditions[i].LastTransitionTime = is, *now()
	}
}

func (p *pod) initContainer() corev1.ContainerStatus {
	c := corev1.ContainerStatus{Name: v1alpha1.InitContainerPrepare}
	switch {
	case p.prepared:
		c.State.Terminated, c.Ready = &corev1.ContainerStateTerminated{Reason: "Completed"}, true
	case p.refused != "":
		c.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
		c.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: p.refused}
	default:
		c.State.Running = &corev1.ContainerStateRunning{}
	}
	return c
}

func (p *pod) container(of corev1.Container) corev1.ContainerStatus {
	c := corev1.ContainerStatus{Name: of.Name, Image: of.Image, RestartCount: int32(p.crashes)}
	switch runs := p.member != nil; {
	case !p.prepared:
		c.State.Waiting = &corev1.ContainerStateWaiting{Reason: "PodInitializing"}
	case strings.HasPrefix(of.Name, v1alpha1.ContainerEtcd) && !runs:
		c.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
		if p.words != "" && of.Name == v1alpha1.ContainerEtcd {
			c.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: p.words}
		}
	default:
		c.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.Time{Time: p.started.Truncate(time.Second)}}
		c.Ready, c.Started = of.Name != v1alpha1.ContainerEtcd || p.ready, ptr.To(true)
	}
	return c
}
