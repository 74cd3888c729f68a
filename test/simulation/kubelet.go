// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
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
	// shared is the ConfigMap as it is mounted, and told what the agent reads in it; nil if it cannot.
	shared *corev1.ConfigMap
	told   *member.Shared
	// bad: its template is one with which no member starts.
	bad bool
	// prepared: the init container has let the member start. refused is what it says while it does not.
	prepared bool
	refused  string
	// joinsBy are the members by which it joins, and words the last ones of its etcd, if that has refused to.
	joinsBy []string
	words   string
	// volume is what the init container has said of the volume.
	volume cluster.Volume
	waits  int
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
		known.after(w.between(50, w.ends(p)), known.end)
	}
}

// ends is within how many milliseconds a pod ends: its containers do within a few seconds, or are killed after the grace period.
func (w *World) ends(p *corev1.Pod) int {
	if grace := int(ptr.Deref(p.DeletionGracePeriodSeconds, 0)); w.faults.slowly {
		return max(1000*grace, 100)
	}
	return 3000
}

// after has the kubelet do something with a pod after a while; if its node is lost then, once it is back.
func (p *pod) after(d time.Duration, do func()) {
	p.world.After(d, "kubelet of "+p.node.name, "", func() { p.now(do) })
}

func (p *pod) now(do func()) { p.unless(p.node.silent, do) }

// alone has the kubelet do something after a while for which it needs nothing but power.
func (p *pod) alone(d time.Duration, do func()) {
	p.world.After(d, "kubelet of "+p.node.name, "", func() { p.unless(func() bool { return p.node.off }, do) })
}

// unless has the kubelet do something, or, if something keeps it from that, once its node is back.
func (p *pod) unless(kept func() bool, do func()) {
	switch {
	case p.world.pods[p.uid] != p:
	case kept():
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
	p.bad = isBad(live.Annotations)
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
	if c := apiserver.Find[*corev1.ConfigMap](p.world.API.Live(), Namespace, etcdOf(p.name)+"-config"); c != nil {
		p.take(c)
	}
	p.world.once("mount of "+string(p.uid), p.world.between(1000, 60_000), func() { p.now(p.mount) })
}

// take has the agent read what is mounted. All agents read the same in one revision of a ConfigMap, and change nothing of it.
func (p *pod) take(c *corev1.ConfigMap) {
	if p.shared == c {
		return
	}
	p.shared, p.told = c, p.world.configurations[c]
	if p.told != nil {
		return
	}
	shared, err := member.ParseShared(c.Data)
	if err != nil {
		p.world.broke("%s cannot read its configuration: %v", p.name, err)
		return
	}
	p.told = &shared
	p.world.configurations[c] = p.told
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
		delete(p.world.runs, p.member)
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
	p.restart()
}

// restart has the kubelet start the member's process again, later each time, unless its node has lost its power meanwhile: then the pod begins again.
func (p *pod) restart() {
	p.alone(min(time.Duration(1<<min(p.crashes, 5))*time.Second, 30*time.Second), func() {
		p.start()
	})
}

// start starts the member's process, if the agent has prepared it since the node has started.
func (p *pod) start() {
	if p.prepared {
		p.run()
	}
}

// joins is how long the container of a member that joins takes to start: seldom its image has to be pulled.
func (w *World) joins() time.Duration {
	if w.pace.IntN(8) == 0 {
		return w.between(1000, 30_000)
	}
	return w.between(50, 500)
}

// run starts the member's process.
func (p *pod) run() {
	if p.member != nil || p.ending || p.disk == nil {
		return
	}
	p.prepared, p.refused = true, ""
	if p.words = ""; p.disk.Joining {
		p.words = p.world.Etcd.Refuses(p.disk, p.reaches(p.joinsBy))
	}
	if p.words != "" {
		p.world.Log(p.name, "its etcd refuses to start: "+p.words)
	}
	if p.bad || p.words != "" {
		p.crashes++
		p.report()
		p.restart()
		return
	}
	p.disk.Joining = false
	p.member, p.started = p.world.Etcd.Start(p.name, p.disk), time.Now()
	p.world.runs[p.member] = p
	p.report()
	p.probe(p.member)
}

// probe is the readiness probe: it passes for a member that serves.
func (p *pod) probe(of *members.Member) {
	p.alone(time.Second, func() {
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
