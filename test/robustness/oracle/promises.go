// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Containers is what the kubelet reports of the etcd containers of pods.
type Containers struct {
	// pods are those that the kubelet has reported of, in order.
	pods []reported
	// ends may be there more than once.
	ends []end
	// states are what the kubelet has reported, in order.
	states []state
}

// state is whether the etcd of a pod runs, from when the kubelet reports it.
type state struct {
	at      time.Duration
	uid     string
	running bool
}

// reported is since when the kubelet reports of a pod.
type reported struct {
	since     time.Duration
	name, uid string
}

// end is when an etcd ended, and how. The kubelet reports full seconds: it was up to a second later.
type end struct {
	at  time.Duration
	uid string
	how string
}

// terminated is what the kubelet reports of a container that has ended.
type terminated struct {
	Reason     string
	ExitCode   int
	FinishedAt time.Time
}

// note notes what a write of a pod's status says.
func (c *Containers) note(e entry, cluster Cluster) {
	if e.ObjectRef.Resource != "pods" || e.ObjectRef.Subresource != "status" {
		return
	}
	var pod struct {
		Metadata struct{ UID string }
		Status   struct {
			ContainerStatuses []struct {
				Name             string
				State, LastState struct {
					Running    *struct{}
					Terminated *terminated
				}
			}
		}
	}
	if json.Unmarshal(e.RequestObject, &pod) != nil || pod.Metadata.UID == "" {
		return
	}
	uid, at := pod.Metadata.UID, e.RequestReceivedTimestamp.Sub(cluster.Began)
	if !slices.ContainsFunc(c.pods, func(r reported) bool { return r.uid == uid }) {
		c.pods = append(c.pods, reported{at, e.ObjectRef.Name, uid})
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == etcdContainer {
			c.states = append(c.states, state{at, uid, s.State.Running != nil})
		}
		for _, t := range []*terminated{s.State.Terminated, s.LastState.Terminated} {
			if s.Name != etcdContainer || t == nil {
				continue
			}
			c.ends = append(c.ends, end{t.FinishedAt.Sub(cluster.Began), uid, fmt.Sprintf("%s, exit code %d", t.Reason, t.ExitCode)})
		}
	}
}

// runs returns the UID of the newest pod of a name, and whether its etcd runs, by what was reported before a time, if it was.
func (c *Containers) runs(pod string, at time.Duration) (uid string, running, reported bool) {
	for _, r := range c.pods {
		if r.name == pod && r.since <= at {
			uid = r.uid
		}
	}
	for _, s := range c.states {
		if s.uid == uid && s.at <= at {
			running, reported = s.running, true
		}
	}
	return uid, running, reported
}

// since returns when the kubelet reported of a pod first.
func (c *Containers) since(uid string) time.Duration {
	i := slices.IndexFunc(c.pods, func(r reported) bool { return r.uid == uid })
	return c.pods[i].since
}

// endedBetween reports whether the etcd of a pod ended between two times.
func (c *Containers) endedBetween(uid string, from, to time.Duration) bool {
	return slices.ContainsFunc(c.ends, func(e end) bool { return e.uid == uid && e.at+second > from && e.at <= to })
}

// of returns the pod that an act is about.
func (c *Containers) of(act Act) (pod reported, known bool) {
	for _, r := range c.pods {
		if r.name == act.Pods[0] && r.since <= act.At && (act.UID == "" || act.UID == r.uid) {
			pod, known = r, true
		}
	}
	return pod, known
}

// second is how exactly the kubelet says when a container ended.
const second = time.Second

// Promises checks what was promised of updates in place that keep etcd running: its container has not ended within a minute,
// unless by a fault, or by another act. Acts are those of all users. A promise that is broken is unsafe, and one that nobody can
// check is not judged.
func Promises(judged []Judgement, acts []Act, containers *Containers, faults []Fault) []Judgement {
	judged = slices.Clone(judged)
	for i, j := range judged {
		if j.Kind != UpdatePod || j.Effect != Keeps {
			continue
		}
		pod, known := containers.of(j.Act)
		if !known {
			judged[i].Verdict, judged[i].Why = Unjudged, "the kubelet reports nothing of the pod, so whether etcd kept running is unknown"
			continue
		}
		if e, broken := containers.breaks(pod, j.At, acts, faults); broken {
			judged[i].Verdict, judged[i].Why = Unsafe, fmt.Sprintf("etcd was to keep running, and ended at %s: %s", e.at, e.how)
		}
	}
	return judged
}

// breaks returns the end of a pod's etcd within a minute after an update of it that nothing else explains.
func (c *Containers) breaks(pod reported, at time.Duration, acts []Act, faults []Fault) (end, bool) {
	i := slices.IndexFunc(c.ends, func(e end) bool {
		return e.uid == pod.uid && e.at+second > at && e.at <= at+reaction && !explained(e, pod, acts, faults)
	})
	if i < 0 {
		return end{}, false
	}
	return c.ends[i], true
}

// explained reports whether a fault or an act that does not keep etcd running has ended it.
func explained(e end, pod reported, acts []Act, faults []Fault) bool {
	return slices.ContainsFunc(faults, func(f Fault) bool {
		return f.EndsEtcd && f.Evidence != "" && f.Target == pod.name && f.From <= e.at+second && e.at <= f.To
	}) || slices.ContainsFunc(acts, func(a Act) bool {
		ends := a.Kind != UpdatePod || a.Effect != Keeps && e.at-a.At <= reaction
		return ends && removes(a, pod.name) && (a.UID == "" || a.UID == pod.uid) && pod.since <= a.At && a.At <= e.at+second
	})
}
