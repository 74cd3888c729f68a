// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import "fmt"

// The metrics of a node, by their names at the kubelet.
const (
	nodeUsage = "container_cpu_usage_seconds_total"
	nodeCores = "machine_cpu_cores"
)

// starvedNode returns the figures that show that the node of a member is short of CPU: not etcd alone is late, but everything on it.
func (r reading) starvedNode() []Evidence {
	var all []Evidence
	late := r.byAgent("etcd_agent_wakeup_delay_seconds", nil)
	if above, quantile, ok := late.high(); ok && above >= wakeupThreshold {
		all = append(all, Evidence{Member: r.Name, Signal: quantile + " of how late timers of the agent fire", Value: above * 1000, Unit: "ms", AtLeast: true, Threshold: wakeupThreshold * 1000, Source: wakeupSource})
	}
	cores, known := r.Second.Kubelet.total(nodeCores, nil)
	if used, too := r.kubeletRate(nodeUsage); known && too && cores > 0 {
		all = append(all, r.above(fmt.Sprintf("CPU of the node, of its %s", figure(cores, "cores")), 100*used/cores, nodeThreshold, "%", ours)...)
	}
	if tail := r.slowTail(); len(tail) > 0 && r.busyPath && len(r.AgentPings) > 0 {
		// A way that is busy makes no fsync late, and a disk that is slow no answer that needs none.
		path := shortest(r.AgentPings)
		all = append(all, timed(r.Name, "answers of the agent", median(r.AgentPings)-path, quantileOf(r.AgentPings, 0.9)-path)...)
		all = append(all, tail...)
	}
	return all
}

// slowTail returns the slowest fsyncs of a member whose usual ones are fast.
func (r reading) slowTail() []Evidence {
	if !r.usuallyFast() {
		return nil
	}
	return r.slowSyncs()
}

// usuallyFast reports whether the median of fsyncs is that of a disk that is fast, or is not known. A disk that is slow is usually slow.
func (r reading) usuallyFast() bool {
	usual, _ := r.distribution("etcd_disk_wal_fsync_duration_seconds").above(0.5)
	return usual < fsyncThreshold
}

func nodeCPU(s *state) result {
	if len(s.symptoms) == 0 {
		// Members that are fast get the CPU that they need, however busy the node is.
		return result{}
	}
	var r result
	var nodes []string
	for _, m := range s.members {
		found := m.starvedNode()
		r.evidence = append(r.evidence, found...)
		if len(found) > 0 && m.Pod != nil && m.Pod.Node != "" {
			nodes = append(nodes, m.Pod.Node)
		}
	}
	where, command := "the node", ""
	if len(nodes) > 0 {
		where, command = named(nodes), describe(nodes)
	}
	return r.advise(Advice{"Find out what else runs on " + where + ", and move it or the member away. Requests for CPU (spec.etcd.resources) keep a share for etcd.", command})
}
