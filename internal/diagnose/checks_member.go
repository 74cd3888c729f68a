// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// took returns how long something took in the window. It proves something only if that is a part of the window that a client notices.
func (r reading) took(what string, seconds float64) Evidence {
	return Evidence{Member: r.Name, Signal: "time taken by " + what, Value: 1000 * seconds, Unit: "ms", Source: fmt.Sprintf("measured for %s", r.window.Round(time.Second)), proves: 100*seconds >= noticedShare*r.window.Seconds()}
}

func defragmentation(s *state) result {
	var r result
	for _, m := range s.members {
		before, _ := m.First.Metrics.total("etcd_disk_defrag_inflight", nil)
		after, _ := m.now("etcd_disk_defrag_inflight")
		if max(before, after) > 0 {
			r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "defragmentations in flight", Value: 1, proves: true})
		}
		if took := m.distribution("etcd_disk_backend_defrag_duration_seconds"); took.count > 0 {
			r.evidence = append(r.evidence, m.took("defragmentations that ended in the measurement", took.sum))
		}
	}
	return r.advise(Advice{"Wait until it is done: a member neither reads nor writes while it rewrites its database. Let the task defragment one member after the other, at a quiet time.", s.verb("defrag")})
}

// snapshotsRead returns how many snapshots of the database ended that clients read, and how long they took, in seconds. In the same
// histogram, etcd counts those that a leader sends to a peer which is far behind.
func (r reading) snapshotsRead() (n, seconds float64) {
	if len(r.Second.Metrics["grpc_server_msg_sent_total"]) > 0 && r.snapshotSent() == 0 {
		return 0, 0
	}
	took := r.distribution("etcd_disk_backend_snapshot_duration_seconds")
	// A snapshot has been read before the peer has written it, and counts as sent.
	sending, _ := r.now("etcd_network_snapshot_send_inflights_total")
	toPeers := r.grew("etcd_network_snapshot_send_success") + r.grew("etcd_network_snapshot_send_failures") + sending
	if n = took.count - toPeers; n <= 0 {
		return 0, 0
	}
	return n, took.sum * n / took.count
}

func backup(s *state) result {
	var r result
	for _, m := range s.members {
		if n, seconds := m.snapshotsRead(); n > 0 {
			r.evidence = append(r.evidence, m.took("snapshots of the database", seconds))
		} else if sent := m.snapshotSent(); sent > 0 {
			r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "sent of a snapshot that is being read", Value: sent, Unit: "B", proves: true})
		}
		if full := m.byAgent("etcdbr_snapshot_duration_seconds", map[string]string{"kind": "Full"}); full.count > 0 {
			r.evidence = append(r.evidence, m.took("full snapshots of the agent", full.sum))
		}
	}
	return r.advise(Advice{"Measure again when no snapshot is taken. If only backups are slow, move spec.backup.fullSnapshotSchedule to a quiet time, or use a faster volume.", s.verb("diagnose")})
}

func memory(s *state) result {
	var r result
	for _, m := range s.members {
		var found []Evidence
		if p := m.Pod; p != nil && p.Ended == "OOMKilled" && p.EndedAgo < recent {
			// A database that is read again after a restart is slow for some time, and no longer.
			found = append(found, Evidence{Member: m.Name, Signal: "time since etcd was killed for its memory", Value: p.EndedAgo.Minutes(), Unit: "min", proves: p.EndedAgo < justStarted})
		}
		if rss, known := m.now("process_resident_memory_bytes"); known && m.Pod != nil && m.Pod.MemLimit > 0 {
			// The database file is mapped, and the kernel takes its pages back when it needs memory.
			size, _, _ := m.database()
			found = append(found, m.above("resident memory without the database file, of the limit", 100*(rss-size)/float64(m.Pod.MemLimit), memoryThreshold, "%", ours)...)
		}
		if waiting, known := m.pressure("container_pressure_memory_waiting_seconds_total"); known {
			found = append(found, m.above("time that etcd waited for memory", waiting, pressureThreshold, "%", ours)...)
		}
		if pause, known := m.now("go_gc_duration_seconds"); known && len(found) > 0 {
			found = append(found, m.above("longest garbage collection", 1000*pause, 1000*gcThreshold, "ms", ours)...)
		}
		r.evidence = append(r.evidence, found...)
	}
	return r.advise(Advice{"Raise the memory limit of etcd (spec.etcd.resources) above the size of the database and of the largest answers, and find clients that read large ranges.", s.edit()})
}

// starved returns the figures that prove that a process does not get its CPU.
func (r reading) starved() []Evidence {
	var all []Evidence
	periods, known := r.kubelet("container_cpu_cfs_periods_total")
	throttled, too := r.kubelet("container_cpu_cfs_throttled_periods_total")
	if known && too && periods >= 10 {
		share := 100 * throttled / periods
		for _, e := range r.above("throttled CPU periods", share, throttledThreshold, "%", ours) {
			e.proves = share >= provenThrottled
			all = append(all, e)
		}
	}
	if r.Pod != nil && r.Pod.CPULimit > 0 {
		all = append(all, r.above(fmt.Sprintf("CPU, of the limit of %s", figure(r.Pod.CPULimit, "cores")), 100*r.cpu()/r.Pod.CPULimit, cpuThreshold, "%", ours)...)
	}
	// A copy of much takes longer.
	if d := r.distribution("etcd_disk_wal_write_duration_seconds"); d.count >= enoughForMedian && r.grew("etcd_disk_wal_write_bytes_total")/d.count < smallWrite {
		all = append(all, r.above("mean of writes into the page cache", 1000*d.sum/d.count, 1000*writeThreshold, "ms", writeSource)...)
	}
	return append(all, r.lateAnswers()...)
}

// muchLater is how many times as long an answer takes that is much later than another.
const muchLater = 8

// lateAnswers returns how much later than the agent etcd answers what needs neither disk nor peers, if it is late, and not the way to it.
func (r reading) lateAnswers() []Evidence {
	if r.busyPath && len(r.AgentPings) == 0 {
		return nil
	}
	if r.busyPath {
		// On a node that is busy, medians differ by chance. A process that stands still is late in its quickest answers, too.
		late := quantileOf(r.Pings, 0.25) - muchLater*max(quantileOf(r.AgentPings, 0.25), shortest(r.Pings))
		found := r.above("answers that need no disk and no peers, later than those of the agent in the same pod by", milliseconds(late), milliseconds(readThreshold), "ms", ours)
		for i := range found {
			found[i].AtLeast = true
		}
		return found
	}
	path := shortest(r.Pings)
	return timed(r.Name, "answers that need no disk and no peers", median(r.Pings)-max(path, median(r.AgentPings)), quantileOf(r.Pings, 0.9)-max(path, quantileOf(r.AgentPings, 0.9)))
}

func cpu(s *state) result {
	var r result
	for _, m := range s.members {
		found := m.starved()
		if waits, known := m.pressure("container_pressure_io_waiting_seconds_total"); known && waits >= pressureThreshold && len(found) < 2 {
			// What waits for the disk writes late, too.
			continue
		}
		if len(found) == 0 {
			continue
		}
		found = append(found, timed(m.Name, "serializable reads, which need neither peers nor the disk", m.serializable(0.5), m.serializable(0.9))...)
		if n := m.grew("etcd_server_heartbeat_send_failures_total"); n > 0 {
			found = append(found, Evidence{Member: m.Name, Signal: "heartbeats sent late", Value: n})
		}
		r.evidence = append(r.evidence, found...)
	}
	return r.advise(s.moreCPU(r))
}

// moreCPU is the advice for members that get too little.
func (s *state) moreCPU(r result) Advice {
	limited, nodes := true, []string{}
	for _, m := range s.members {
		if m.Pod == nil || !slices.ContainsFunc(r.evidence, func(e Evidence) bool { return e.Member == m.Name }) {
			continue
		}
		if limited = limited && m.Pod.CPULimit > 0; m.Pod.Node != "" {
			nodes = append(nodes, m.Pod.Node)
		}
	}
	if !limited && len(nodes) > 0 {
		return Advice{"etcd has no CPU limit. Look at what else runs on " + named(nodes) + ", and at what stops the process.", describe(nodes)}
	}
	return Advice{"Raise the CPU limit of etcd, or remove it (spec.etcd.resources; a change of resources needs no restart where pods are updated in place).", s.edit()}
}

// named names nodes, and describe returns a command line that shows what runs there.
func named(nodes []string) string { return "node " + strings.Join(unique(nodes), " and node ") }
func describe(nodes []string) string {
	return "kubectl describe node " + strings.Join(unique(nodes), " ")
}

func unique(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }
