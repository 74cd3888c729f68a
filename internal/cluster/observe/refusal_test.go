// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

func TestRefusal(t *testing.T) {
	said := func(message string, code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message}}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	lost := &cluster.Refusal{Reason: "DataLost", Message: "member m-1 has no data: restore it"}
	for _, tc := range []struct {
		name        string
		state, last corev1.ContainerState
		want        *cluster.Refusal
	}{
		{"the container has just ended", said("DataLost: member m-1 has no data: restore it", 1), corev1.ContainerState{}, lost},
		{"it waits for its restart", waiting, said("DataLost: member m-1 has no data: restore it\n", 1), lost},
		{"it runs again", running, said("DataLost: member m-1 has no data: restore it", 1), lost},
		{"it says why itself", corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: lost.Error()}}, corev1.ContainerState{}, lost},
		{"it runs for the first time", running, corev1.ContainerState{}, nil},
		{"it has let the member start", said("", 0), said("DataLost: member m-1 has no data: restore it", 1), nil},
		{"it failed in another way", said("{\"level\":\"error\",\"msg\":\"Giving up: no\"}", 1), corev1.ContainerState{}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{
				{Name: "another", State: said("DataLost: of another container", 1)}, {Name: "prepare", State: tc.state, LastTerminationState: tc.last},
			}}}
			NewWithT(t).Expect(Refusal(pod)).To(Equal(tc.want))
			NewWithT(t).Expect(describePod(pod, "").Prepared).To(Equal(tc.name == "it has let the member start"))
		})
	}
}

// etcd says in its last words that it refuses the member list, whatever comes before and after them. While it runs again, it may have started.
func TestListChanged(t *testing.T) {
	ended := func(code int32, message string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message}}
	}
	count := `RemovedMemberIDs:[]}: member count is unequal","stacktrace":"main.main"}`
	for name, c := range map[string]struct {
		state, last corev1.ContainerState
		want        bool
	}{
		"another number of members":    {ended(1, count), corev1.ContainerState{}, true},
		"another URL":                  {ended(1, `PeerURLs: no match found for existing member (1f, [http://a:2380]), last resolver error (<nil>)`), corev1.ContainerState{}, true},
		"it waits for its restart":     {waiting("CrashLoopBackOff"), ended(1, count), true},
		"it has ended in another way":  {ended(1, "no space left on device"), ended(1, count), false},
		"it was ended":                 {ended(0, count), corev1.ContainerState{}, false},
		"it runs again":                {running(), ended(1, count), false},
		"it is about to run, at first": {waiting("ContainerCreating"), corev1.ContainerState{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod().etcd(c.state, false)
			pod.Status.ContainerStatuses[0].LastTerminationState = c.last
			NewWithT(t).Expect(describePod(&pod.Pod, "").ListChanged).To(Equal(c.want))
		})
	}
	NewWithT(t).Expect(describePod(&newPod().sidecar(true).Pod, "").ListChanged).To(BeFalse())
}
