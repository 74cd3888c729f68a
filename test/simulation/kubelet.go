// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pod is what a kubelet has of a pod.
type pod struct {
	world *World
	name  string
	uid   types.UID
	node  *node
	ip    string
	disk  *members.Disk
	// shared is the ConfigMap as it is mounted.
	shared map[string]string
	// prepared: the init container has let the member start. refused is what it says while it does not.
	prepared bool
	refused  string
	waits    int
	// member is the process, nil while it does not run; started is since when it does.
	member  *members.Member
	started time.Time
	crashes int
	// ready is what the probe says, failed how often it has failed since.
	ready  bool
	failed int
	ending bool
}

func compare(a, b *pod) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.uid, b.uid)) }

// podChanged has the scheduler and the kubelet follow a pod.
func (w *World) podChanged(p *corev1.Pod, gone bool) {
	known := w.pods[p.UID]
	switch {
	case gone:
		if known != nil {
			known.kill()
			delete(w.pods, p.UID)
		}
	case p.Labels[batchv1.JobNameLabel] != "":
	case p.Spec.NodeName == "":
		w.once("scheduler of "+string(p.UID), w.between(5, 500), func() { w.schedule(p.Name) })
	case known == nil:
		known = &pod{world: w, name: p.Name, uid: p.UID, node: w.node(p.Spec.NodeName)}
		w.pods[p.UID] = known
		known.after(w.between(200, 3000), known.begin)
	case p.DeletionTimestamp != nil && !known.ending:
		known.ending = true
		known.after(w.between(50, 3000), known.end)
	}
}

// after has the kubelet do something with a pod after a while; if its node is lost then, once it is back.
func (p *pod) after(d time.Duration, do func()) {
	p.world.After(d, "kubelet of "+p.node.name, "", func() { p.now(do) })
}

func (p *pod) now(do func()) {
	switch {
	case p.world.pods[p.uid] != p:
	case p.node.silent():
		p.node.waiting = append(p.node.waiting, func() { p.now(do) })
	default:
		do()
	}
}

// begin starts the containers of a pod, and begins with the init container.
func (p *pod) begin() {
	live := apiserver.Find[*corev1.Pod](p.world.API.Live(), Namespace, p.name)
	if live == nil || live.UID != p.uid || p.ending || p.member != nil {
		return
	}
	if claim := p.world.claimOf(live); claim != nil {
		p.disk = p.world.disks[claim.Spec.VolumeName]
	}
	if p.ip == "" {
		p.ip = p.world.freeIP()
	}
	p.mount()
	p.report()
	p.after(p.world.between(50, 500), p.prepare)
}

// freeIP returns an address that no pod has. Those of pods that are gone are given again.
func (w *World) freeIP() string {
	for i := 1; ; i++ {
		ip := fmt.Sprintf("192.0.2.%d", i)
		taken := false
		for _, p := range w.pods {
			taken = taken || p.ip == ip
		}
		if !taken {
			return ip
		}
	}
}

// mount has the kubelet take the ConfigMap as it is now, and again after a while.
func (p *pod) mount() {
	if c := apiserver.Find[*corev1.ConfigMap](p.world.API.Live(), Namespace, Name+"-config"); c != nil {
		p.shared = c.Data
	}
	p.world.once("mount of "+string(p.uid), p.world.between(1000, 60_000), func() { p.now(p.mount) })
}

// end stops the containers of a pod, and confirms it.
func (p *pod) end() {
	p.kill()
	p.world.remove(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: p.name}}, client.Preconditions{UID: &p.uid}, client.GracePeriodSeconds(0))
}

// kill ends the member's process.
func (p *pod) kill() {
	if p.member != nil {
		p.world.Etcd.Stop(p.member)
		p.member, p.ready, p.failed = nil, false, 0
	}
}

// crash ends the member's process; the kubelet starts it again after a while.
func (p *pod) crash(why string) {
	if p.member == nil {
		return
	}
	p.world.Log(p.name, "its member ends: "+why)
	p.kill()
	p.crashes++
	p.now(p.report)
	p.after(min(time.Duration(1<<min(p.crashes, 5))*time.Second, 30*time.Second), p.run)
}

// run starts the member's process.
func (p *pod) run() {
	if p.member != nil || p.ending || p.disk == nil {
		return
	}
	p.prepared, p.refused = true, ""
	p.member, p.started = p.world.Etcd.Start(p.name, p.disk), time.Now()
	p.report()
	p.probe(p.member)
}

// probe is the readiness probe: it passes for a member that serves.
func (p *pod) probe(of *members.Member) {
	p.after(time.Second, func() {
		if p.member != of {
			return
		}
		was := p.ready
		if p.world.Etcd.Serves(of) {
			p.ready, p.failed = true, 0
		} else if p.failed++; p.failed >= 3 {
			p.ready = false
		}
		if p.ready != was {
			p.report()
		}
		p.probe(of)
	})
}

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
	default:
		c.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.Time{Time: p.started.Truncate(time.Second)}}
		c.Ready, c.Started = of.Name != v1alpha1.ContainerEtcd || p.ready, ptr.To(true)
	}
	return c
}
