// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"
	"strings"
)

func defragmentation(s *situation) result {
	var r result
	for _, m := range s.members {
		before, _ := m.First.Metrics.total("etcd_disk_defrag_inflight", nil)
		after, _ := m.now("etcd_disk_defrag_inflight")
		if max(before, after) > 0 {
			r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "defragmentations in flight", Value: 1, proves: true})
		}
		if n := m.grew("etcd_disk_backend_defrag_duration_seconds"); n > 0 {
			took := m.distribution("etcd_disk_backend_defrag_duration_seconds")
			r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "defragmentation that ended in the measurement, took", Value: 1000 * took.sum / max(took.count, 1), Unit: "ms", proves: true})
		}
	}
	return r.advise(Advice{"Wait until it is done: a member neither reads nor writes while it rewrites its database. Let the task defragment one member after the other, at a quiet time.", s.verb("defrag")})
}

func backup(s *situation) result {
	var r result
	for _, m := range s.members {
		if n := m.grew("etcd_disk_backend_snapshot_duration_seconds"); n > 0 {
			r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "snapshots of the database that were read", Value: n, proves: true})
		}
		n := difference(m.First.Agent, m.Second.Agent, "etcdbr_snapshot_duration_seconds", map[string]string{"kind": "Full"})
		if n > 0 && len(m.First.Agent) > 0 {
			r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "full snapshots that the agent took", Value: n, proves: true})
		}
	}
	return r.advise(Advice{"Measure again when no snapshot is taken. If only backups are slow, move spec.backup.fullSnapshotSchedule to a quiet time, or use a faster volume.", s.verb("diagnose")})
}

func memory(s *situation) result {
	var r result
	for _, m := range s.members {
		var found []Evidence
		if p := m.Pod; p != nil && p.Ended == "OOMKilled" && p.EndedAgo < recent {
			found = append(found, Evidence{Member: m.Name, Signal: "killed for its memory, hours ago", Value: p.EndedAgo.Hours(), proves: true})
		}
		if rss, known := m.now("process_resident_memory_bytes"); known && m.Pod != nil && m.Pod.MemLimit > 0 {
			found = append(found, m.above("resident memory, of the limit", 100*rss/float64(m.Pod.MemLimit), memoryThreshold, "%", ours)...)
		}
		if waiting, known := m.pressure("container_pressure_memory_waiting_seconds_total"); known {
			found = append(found, m.above("time that etcd waited for memory", waiting, pressureThreshold, "%", ours)...)
		}
		if pause, known := m.now("go_gc_duration_seconds"); known && len(found) > 0 {
			found = append(found, m.above("longest garbage collection", 1000*pause, 1000*gcThreshold, "ms", ours)...)
		}
		r.evidence = append(r.evidence, found...)
	}
	return r.advise(Advice{"Raise the memory limit of etcd (spec.etcd.resources) above the size of the database and of the largest answers, and find clients that read large ranges.", ""})
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
	if d := r.distribution("etcd_disk_wal_write_duration_seconds"); d.count >= enoughForMedian {
		all = append(all, r.above("mean of writes into the page cache", 1000*d.sum/d.count, 1000*writeThreshold, "ms", writeSource)...)
	}
	if !r.busyPath {
		path := shortest(r.Pings)
		all = append(all, timed(r.Name, "answers that need no disk and no peers", median(r.Pings)-path, quantileOf(r.Pings, 0.9)-path)...)
	}
	return all
}

func cpu(s *situation) result {
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
		found = append(found, timed(m.Name, "serializable reads, which need neither peers nor the disk", m.serializable(), quantileOf(m.Serializable, 0.9)-m.base)...)
		if n := m.grew("etcd_server_heartbeat_send_failures_total"); n > 0 {
			found = append(found, Evidence{Member: m.Name, Signal: "heartbeats sent late", Value: n})
		}
		r.evidence = append(r.evidence, found...)
	}
	return r.advise(Advice{"Raise the CPU limit of etcd, or remove it (spec.etcd.resources; a change of resources needs no restart where pods are updated in place). If there is no limit, look at what else runs on the node.", ""})
}

func compaction(s *situation) result {
	var r result
	for _, m := range s.members {
		pauses := m.distribution("etcd_debugging_mvcc_db_compaction_pause_duration_milliseconds")
		above, _ := pauses.above(0.99)
		syncs := m.distribution("etcd_disk_wal_fsync_duration_seconds")
		if usual, known := syncs.above(0.5); above < pauseThreshold || known && usual >= fsyncThreshold {
			// A disk that is slow all the time makes the pauses long, too.
			continue
		}
		r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "p99 of pauses by the compaction", Value: above, Unit: "ms", AtLeast: true, Threshold: pauseThreshold, Source: ours},
			Evidence{Member: m.Name, Signal: "pauses", Value: pauses.count})
		if status := m.Second.Status; status != nil && isBefore3519(status.Version) {
			r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "etcd " + status.Version + " compacts slowly", Value: 1, Source: "etcd-io/etcd#19406, fixed in 3.5.19"})
		}
	}
	return r.advise(
		Advice{"Compact more often, in smaller steps (--auto-compaction-retention), or lower --compaction-batch-limit.", ""},
		Advice{"etcd 3.5.16 to 3.5.18 compact slowly: upgrade.", ""})
}

// isBefore3519 reports whether a version is one of those whose compaction is slow.
func isBefore3519(version string) bool {
	return version == "3.5.16" || version == "3.5.17" || version == "3.5.18"
}

func slowDisk(s *situation) result {
	var r result
	var nodes []string
	written := 0.0
	for _, m := range s.members {
		found := m.slowHistogram("fsyncs of the write-ahead log", "etcd_disk_wal_fsync_duration_seconds", fsyncThreshold, fsyncSource)
		found = append(found, m.logged("calls of fdatasync above a second, in the log", func(l *Logs) int { return l.SlowSyncs }, 1)...)
		if waits, known := m.pressure("container_pressure_io_waiting_seconds_total"); known {
			found = append(found, m.above("time that etcd waited for the disk", waits, pressureThreshold, "%", ours)...)
		}
		if len(found) == 0 {
			// Commits alone prove nothing: they also take the CPU, and the fsyncs beside them are fast.
			continue
		}
		found = append(found, m.slowHistogram("commits of the database", "etcd_disk_backend_commit_duration_seconds", commitThreshold, commitSource)...)
		if d := m.distribution("etcd_disk_wal_write_duration_seconds"); d.count >= enoughForMedian && len(m.starved()) == 0 {
			mean := 1000 * d.sum / d.count
			found = append(found, Evidence{Member: m.Name, Signal: "mean of writes into memory, which do not wait for the disk", Value: mean, Unit: "ms", Source: "fast: CPU is not scarce"})
			written = max(written, mean)
		}
		r.evidence = append(r.evidence, found...)
		if m.Pod != nil && m.Pod.Node != "" {
			nodes = append(nodes, m.Pod.Node)
		}
	}
	if written > 0 {
		r.rulesOut = []string{fmt.Sprintf("the CPU: writes that do not wait for the disk take %s on average, so etcd runs when it wants to.", figure(written, "ms"))}
	}
	return r.advise(Advice{"Give etcd a faster volume (spec.storageClass), without neighbors that write much." + s.scope(nodes), ""})
}

// scope says what it means where something happens.
func (s *situation) scope(nodes []string) string {
	switch {
	case len(s.members) == 1 || len(nodes) == 0:
		return ""
	case len(nodes) == len(s.members):
		return " Every member is affected: look at the storage class, or at the load."
	}
	return fmt.Sprintf(" Only some members are affected: look at the disks of %s.", strings.Join(nodes, " and "))
}

func diskFull(s *situation) result {
	var r result
	for _, m := range s.members {
		if m.Logs != nil && m.Logs.NoSpace > 0 {
			r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "lines «no space left on device» in the log", Value: float64(m.Logs.NoSpace), proves: true})
		}
		free, known := m.Second.Kubelet.total("kubelet_volume_stats_available_bytes", nil)
		size, too := m.Second.Kubelet.total("kubelet_volume_stats_capacity_bytes", nil)
		if known && too && size > 0 {
			r.evidence = append(r.evidence, m.above("volume in use", 100*(size-free)/size, volumeThreshold, "%", ours)...)
		}
	}
	return r.advise(Advice{"Grow the volume: raise spec.storageCapacity.", "kubectl edit etcd " + s.Etcd + " -n " + s.Namespace})
}

func pageCache(s *situation) result {
	var r result
	for _, m := range s.members {
		slow := m.slowHistogram("ranges", "etcd_server_range_duration_seconds", rangeThreshold, rangeSource)
		fresh := m.Pod != nil && m.Pod.Running > 0 && m.Pod.Running < justStarted
		sent := m.grew("etcd_network_client_grpc_sent_bytes_total") / max(m.grew("etcd_mvcc_range_total"), 1)
		if len(slow) > 0 && fresh && sent < perRange && len(m.starved()) == 0 {
			r.evidence = append(r.evidence, slow...)
		}
	}
	return r.advise(Advice{"Measure again in ten minutes: etcd started a short time ago and reads its database from the disk. If it stays so, raise the memory limit above the size of the database.", s.verb("diagnose")})
}

func network(s *situation) result {
	var r result
	alone := 0.0
	leaderWaits := slices.ContainsFunc(s.members, func(m reading) bool { return m.Leader && m.waits() })
	for _, m := range s.members {
		d := m.distribution("etcd_network_peer_round_trip_time_seconds")
		if above, ok := d.above(0.5); ok && above >= roundTripThreshold {
			r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "median of round trips to peers", Value: above * 1000, Unit: "ms", AtLeast: true, Threshold: roundTripThreshold * 1000, Source: roundTripSource})
		}
		gap := m.linearizable() - m.serializable()
		if len(s.members) > 1 && gap >= readThreshold && !leaderWaits && !m.waits() {
			r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "linearizable reads are slower than serializable ones by", Value: milliseconds(gap), Unit: "ms", Threshold: milliseconds(readThreshold), Source: "the difference is the way to the leader and its peers"})
			alone = max(alone, milliseconds(m.serializable()))
		}
		r.evidence = append(r.evidence, m.logged("messages dropped because the sending buffer is full, in the log", func(l *Logs) int { return l.Dropped }, 1)...)
	}
	if alone > 0 {
		r.rulesOut = []string{fmt.Sprintf("the disks and the CPU: members answer what they know by themselves (serializable reads) in %s.", figure(alone, "ms"))}
	}
	return r.advise(Advice{"Look at zones, NetworkPolicies, MTU and the load of the network between the nodes of members. For members that are far apart, raise the heartbeat interval to 0.5 to 1.5 round trips, and the election timeout to ten (etcd's tuning guide).", ""})
}

// waits reports whether a member waits for its disk or its CPU: then linearizable reads do, too.
func (r reading) waits() bool {
	syncs := r.distribution("etcd_disk_wal_fsync_duration_seconds")
	above, _, ok := syncs.high()
	return ok && above >= fsyncThreshold || r.serializable() >= readThreshold || len(r.starved()) > 0
}
