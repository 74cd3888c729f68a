// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

const window = 30 * time.Second

// world is an input that is made up: three members that are fast.
type world struct{ Input }

func fast() *world {
	w := &world{Input{Namespace: "demo", Etcd: "etcd-main", Window: window, Quorum: &Quorum{Voters: 3, Serving: 3, Size: 2}}}
	for i := range 3 {
		m := Member{
			Name: fmt.Sprintf("m-%d", i), Leader: i == 0, Serving: true, Pod: &Pod{Node: fmt.Sprintf("node-%d", i), Running: time.Hour, CPULimit: 1, MemLimit: 1 << 30},
			First:  Sample{Metrics: Metrics{}, Status: &Status{Version: "3.7.3", Term: 2, Committed: 1000, Applied: 1000}},
			Second: Sample{Metrics: Metrics{}, Status: &Status{Version: "3.7.3", Term: 2, Committed: 2000, Applied: 2000}},
			Logs:   &Logs{},
		}
		m.Pings, m.AgentPings = times(time.Millisecond), times(time.Millisecond)
		m.Linearizable, m.Serializable = times(3*time.Millisecond), times(2*time.Millisecond)
		w.Members = append(w.Members, m)
		w.set(i, "process_start_time_seconds", 1, 1)
		w.times(i, "etcd_disk_wal_fsync_duration_seconds", 0.001, 1000)
		w.times(i, "etcd_disk_backend_commit_duration_seconds", 0.002, 100)
		w.times(i, "etcd_disk_wal_write_duration_seconds", 0.00001, 1000)
		w.times(i, "etcd_network_peer_round_trip_time_seconds", 0.0004, 2)
		w.set(i, "process_cpu_seconds_total", 10, 13)
		w.set(i, "process_resident_memory_bytes", 0, 100<<20)
		w.set(i, "etcd_mvcc_db_total_size_in_bytes", 0, 50<<20)
		w.set(i, "etcd_mvcc_db_total_size_in_use_in_bytes", 0, 40<<20)
		w.set(i, "etcd_server_quota_backend_bytes", 0, 2<<30)
		w.set(i, "etcd_mvcc_put_total", 0, 3000)
		w.set(i, "etcd_mvcc_range_total", 0, 3000)
		w.set(i, "etcd_network_active_peers", 2, 2)
	}
	return w
}

func times(d time.Duration) []time.Duration {
	all := make([]time.Duration, 20)
	for i := range all {
		all[i] = d
	}
	return all
}

// set sets a number at both samples.
func (w *world) set(i int, name string, first, second float64) *world {
	w.Members[i].First.Metrics[name] = []Series{{Value: first}}
	w.Members[i].Second.Metrics[name] = []Series{{Value: second}}
	return w
}

// times sets a histogram whose observations all take so many seconds, a hair less than the bound of a bucket.
func (w *world) times(i int, name string, seconds, count float64) *world {
	empty, full := Series{}, Series{Count: count, Sum: count * seconds}
	for bound := 0.0001; bound < 10; bound *= 2 {
		n := 0.0
		if seconds <= bound {
			n = count
		}
		empty.Buckets = append(empty.Buckets, Bucket{Bound: bound})
		full.Buckets = append(full.Buckets, Bucket{bound, n})
	}
	w.Members[i].First.Metrics[name], w.Members[i].Second.Metrics[name] = []Series{empty}, []Series{full}
	return w
}

// kubelet sets what the kubelet measures of m-1, from zero.
func (w *world) kubelet(name string, value float64) *world {
	m := &w.Members[1]
	if m.First.Kubelet == nil {
		m.First.Kubelet, m.Second.Kubelet = Metrics{}, Metrics{}
	}
	m.First.Kubelet[name], m.Second.Kubelet[name] = []Series{{}}, []Series{{Value: value}}
	return w
}

func (w *world) all(do func(i int)) *world {
	for i := range w.Members {
		do(i)
	}
	return w
}

// slowSyncs makes fsyncs and commits of a member slow.
func (w *world) slowSyncs(i int) *world {
	return w.times(i, "etcd_disk_wal_fsync_duration_seconds", 0.1, 1000).times(i, "etcd_disk_backend_commit_duration_seconds", 0.2, 100)
}

// lateSyncs makes one of fifty fsyncs of member 1 slow.
func (w *world) lateSyncs() *world {
	const i = 1
	const name = "etcd_disk_wal_fsync_duration_seconds"
	w.times(i, name, 0.1, 1000)
	for n := range w.Members[i].Second.Metrics[name][0].Buckets {
		b := &w.Members[i].Second.Metrics[name][0].Buckets[n]
		b.Count = max(b.Count, 980)
	}
	return w
}

// byAgent sets a histogram of an agent.
func (w *world) byAgent(i int, name string, seconds, count float64) *world {
	w.times(i, name, seconds, count)
	m := &w.Members[i]
	for _, s := range []*Sample{&m.First, &m.Second} {
		s.Agent = Metrics{name: s.Metrics[name]}
		delete(s.Metrics, name)
	}
	return w
}

// wakeups sets how late the timers of an agent fire, in seconds.
func (w *world) wakeups(i int, late float64) *world {
	return w.byAgent(i, "etcd_agent_wakeup_delay_seconds", late, 300)
}

// pausing has a compaction of an old etcd pause what else the first member does.
func pausing(w *world) *world {
	const pauses = "etcd_debugging_mvcc_db_compaction_pause_duration_milliseconds"
	w.times(0, "etcd_server_range_duration_seconds", 0.4, 1000)
	w.Members[0].First.Metrics[pauses] = []Series{{Buckets: []Bucket{{64, 0}, {128, 0}}}}
	w.Members[0].Second.Metrics[pauses] = []Series{{Count: 9, Sum: 900, Buckets: []Bucket{{64, 0}, {128, 9}}}}
	w.Members[0].Second.Status.Version = "3.5.17"
	return w
}

// row is a world, and what a diagnosis says of it.
type row struct {
	name  string
	world *world
	// causes in their order.
	causes []Cause
	grade  Grade
	slow   bool
}

func rows() []row {
	read := func(w *world, i int, took time.Duration) *world {
		w.Members[i].Linearizable = times(took)
		return w
	}
	status := func(w *world, i int, do func(first, second *Status)) *world {
		do(w.Members[i].First.Status, w.Members[i].Second.Status)
		return w
	}
	// late has a way that is late, and reads that take so many seconds as the agent times them.
	late := func(w *world, took float64) *world {
		m := &w.Members[1]
		for n := range 15 {
			m.Pings[n] += 50 * time.Millisecond
			m.AgentPings[n] += 50 * time.Millisecond
			m.Linearizable[n] += 400 * time.Millisecond
		}
		w.byAgent(1, "etcd_agent_read_duration_seconds", took, 20)
		for _, s := range []*Sample{&m.First, &m.Second} {
			s.Agent["etcd_agent_read_duration_seconds"][0].Labels = map[string]string{"kind": "linearizable"}
		}
		return w
	}
	logs := func(i int, l Logs) *world {
		w := fast()
		w.Members[i].Logs = &l
		return w
	}
	return []row{
		{"fast", fast(), nil, "", false},
		{"just below every threshold", fast().times(0, "etcd_disk_wal_fsync_duration_seconds", 0.0128, 1000).times(0, "etcd_disk_backend_commit_duration_seconds", 0.0256, 100), nil, "", false},
		{"slow disk", fast().slowSyncs(1), []Cause{SlowDisk}, Sure, true},
		{"slow disk, few writes", fast().times(1, "etcd_disk_wal_fsync_duration_seconds", 0.4, 6), []Cause{SlowDisk}, Likely, true},
		{"slow commits beside fast fsyncs", fast().times(1, "etcd_disk_backend_commit_duration_seconds", 0.4, 100), nil, "", false},
		{"too few writes to judge", fast().times(1, "etcd_disk_wal_fsync_duration_seconds", 0.4, 4), nil, "", false},
		{"throttled, which makes fsyncs slow", fast().slowSyncs(1).kubelet("container_cpu_cfs_periods_total", 300).kubelet("container_cpu_cfs_throttled_periods_total", 200), []Cause{CPU, SlowDisk}, Sure, true},
		{"at its CPU limit, throttled, writes into memory slow", fast().slowSyncs(1).kubelet("container_cpu_cfs_periods_total", 300).kubelet("container_cpu_cfs_throttled_periods_total", 200).
			set(1, "process_cpu_seconds_total", 0, 29.5).times(1, "etcd_disk_wal_write_duration_seconds", 0.1, 1000), []Cause{CPU, SlowDisk}, Sure, true},
		{"waits for the disk, and writes into memory late", fast().slowSyncs(1).kubelet("container_pressure_io_waiting_seconds_total", 20).
			times(1, "etcd_disk_wal_write_duration_seconds", 0.1, 1000), []Cause{SlowDisk}, Sure, true},
		{"late network", func() *world {
			w := fast().all(func(int) {})
			w.all(func(i int) {
				w.times(i, "etcd_network_peer_round_trip_time_seconds", 0.2, 4)
				read(w, i, 200*time.Millisecond)
			})
			return w
		}(), []Cause{Network}, Likely, true},
		{"a busy node, whose fsyncs are late now and then", func() *world {
			w := fast().lateSyncs()
			return w.wakeups(1, 0.03)
		}(), []Cause{NodeCPU}, Hint, true},
		{"a busy node, by the kubelet and the agent", func() *world {
			w := fast().lateSyncs().wakeups(1, 0.03).kubelet(nodeCores, 2).kubelet(nodeUsage, 58)
			return w
		}(), []Cause{NodeCPU}, Likely, true},
		{"everything in the pod is late, fsyncs too, but not usually", func() *world {
			w := fast().lateSyncs()
			for n := range 15 {
				w.Members[1].Pings[n], w.Members[1].AgentPings[n] = 200*time.Millisecond, 190*time.Millisecond
			}
			return w
		}(), []Cause{NodeCPU}, Likely, true},
		{"a slow disk on a busy node", fast().slowSyncs(1).wakeups(1, 0.03).wakeups(2, 0.03).kubelet(nodeCores, 2).kubelet(nodeUsage, 58), []Cause{SlowDisk, NodeCPU}, Likely, true},
		{"a busy node, and etcd is fast", fast().wakeups(1, 0.03).kubelet(nodeCores, 2).kubelet(nodeUsage, 58), nil, "", false},
		{"a node that is busy because of large ranges", fast().wakeups(0, 0.03).set(0, "etcd_mvcc_range_total", 0, 1000).set(0, "etcd_network_client_grpc_sent_bytes_total", 0, 30*100<<20).
			times(0, "etcd_server_range_duration_seconds", 0.4, 1000), []Cause{LargeRanges, NodeCPU}, Sure, true},
		{"a busy way to a member whose reads are fast, as its agent times them", late(fast(), 0.0004), nil, "", false},
		{"a busy way to a member whose reads are slow, as its agent times them", late(fast(), 0.4), []Cause{Network}, Hint, true},
		{"the agent's timers are on time, and fsyncs are late now and then", fast().lateSyncs().wakeups(1, 0.0004), []Cause{SlowDisk}, Likely, true},
		{"killed for its memory, and down again", func() *world {
			w := fast()
			m := &w.Members[1]
			m.Pod.Ended, m.Pod.EndedAgo = "OOMKilled", 3*time.Second
			m.FailedReads, m.Pings, m.Linearizable, m.Serializable = 4, nil, nil, nil
			m.Second = Sample{}
			return w
		}(), []Cause{Memory, MemberDown}, Sure, true},
		{"connections and fdatasync that time out on a busy node", func() *world {
			w := fast().lateSyncs().wakeups(1, 0.03).set(1, "etcd_network_peer_sent_failures_total", 0, 300)
			w.Members[1].Logs = &Logs{SlowSyncs: 9, Unhealthy: 9, Dropped: 9}
			return w
		}(), []Cause{NodeCPU}, Hint, true},
		{"peers that are cut off on a busy node", func() *world {
			w := fast().wakeups(1, 0.03).set(0, "etcd_network_peer_sent_failures_total", 0, 300)
			w.Quorum.Serving = 2
			m := &w.Members[1]
			m.Serving, m.FailedReads, m.Linearizable = false, 4, nil
			return w
		}(), []Cause{PeerConnections, NodeCPU}, Likely, true},
		{"a member that is cut off, round trips of before, and messages to it that are dropped", func() *world {
			w := fast().times(0, "etcd_network_peer_round_trip_time_seconds", 3.2, 4)
			w.Quorum.Serving, w.Members[0].Logs = 2, &Logs{Dropped: 15, Unhealthy: 3}
			m := &w.Members[1]
			m.Serving, m.FailedReads, m.Linearizable = false, 4, nil
			return w
		}(), []Cause{PeerConnections}, Likely, true},
		{"a learner that is listed and does not run yet", func() *world {
			w := fast()
			w.Quorum.Voters, w.Quorum.Serving = 2, 2
			w.Members[2] = Member{Name: "m-2", NoVoter: true, FailedReads: 4}
			for i := range 2 {
				w.set(i, "etcd_network_active_peers", 1, 1)
				w.Members[i].Second.Metrics["etcd_network_known_peers"] = []Series{{Labels: map[string]string{"Local": "a", "Remote": "b"}, Value: 1}, {Labels: map[string]string{"Local": "a", "Remote": "c"}, Value: 1}}
			}
			return w
		}(), nil, "", false},
		{"many watchers that are behind, on a busy node", fast().set(0, "etcd_debugging_mvcc_slow_watcher_total", 50, 50).wakeups(0, 0.03).kubelet(nodeCores, 2).kubelet(nodeUsage, 58), []Cause{Watches, NodeCPU}, Likely, true},
		{"large writes into memory take longer", fast().lateSyncs().wakeups(1, 0.03).times(1, "etcd_disk_wal_write_duration_seconds", 0.003, 100).set(1, "etcd_disk_wal_write_bytes_total", 0, 100<<20), []Cause{NodeCPU}, Hint, true},
		{"one late round trip", fast().times(1, "etcd_network_peer_round_trip_time_seconds", 0.2, 2), nil, "", false},
		{"linearizable reads wait for the leader's disk", func() *world {
			w := fast().slowSyncs(0)
			return read(w, 1, 200*time.Millisecond)
		}(), []Cause{SlowDisk}, Sure, true},
		{"a follower whose linearizable reads wait for its own disk", read(fast().slowSyncs(1), 1, 200*time.Millisecond), []Cause{SlowDisk}, Sure, true},
		{"busy port-forward", func() *world {
			w := fast()
			return w.all(func(i int) {
				m := &w.Members[i]
				for _, kind := range [][]time.Duration{m.Pings, m.AgentPings, m.Linearizable, m.Serializable} {
					for n := 1; n < len(kind); n++ {
						kind[n] += 100 * time.Millisecond
					}
				}
			})
		}(), nil, "", false},
		{"busy port-forward, and there is no agent", func() *world {
			w := fast()
			return w.all(func(i int) {
				m := &w.Members[i]
				for n := 1; n < len(m.Pings); n++ {
					m.Pings[n] += 100 * time.Millisecond
				}
				m.AgentPings = nil
			})
		}(), nil, "", false},
		{"no quorum", func() *world {
			w := fast()
			w.Quorum.Serving = 1
			w.Members[1].Serving, w.Members[2].Serving = false, false
			return w
		}(), []Cause{NoQuorum, MemberDown}, Sure, true},
		{"NOSPACE", func() *world {
			w := fast()
			w.Alarms = []Alarm{{"NOSPACE", "m-1"}}
			return w
		}(), []Cause{AlarmNoSpace}, Sure, true},
		{"CORRUPT", func() *world {
			w := fast()
			w.Alarms = []Alarm{{"CORRUPT", "m-1"}}
			return w
		}(), []Cause{AlarmCorrupt}, Sure, true},
		{"volume full, by the log", logs(1, Logs{NoSpace: 1}), []Cause{DiskFull}, Sure, true},
		{"volume nearly full, by the kubelet", fast().kubelet("kubelet_volume_stats_available_bytes", 5).kubelet("kubelet_volume_stats_capacity_bytes", 100), []Cause{VolumeSpace}, Sure, false},
		{"volume full, by the kubelet", fast().kubelet("kubelet_volume_stats_available_bytes", 0.5).kubelet("kubelet_volume_stats_capacity_bytes", 100), []Cause{DiskFull, VolumeSpace}, Sure, true},
		{"defragmentation in flight", read(fast().set(1, "etcd_disk_defrag_inflight", 0, 1), 1, time.Second), []Cause{Defragmentation, Network}, Sure, true},
		{"killed for its memory", func() *world {
			w := fast().slowSyncs(1)
			w.Members[1].Pod.Ended, w.Members[1].Pod.EndedAgo = "OOMKilled", 5*time.Minute
			return w
		}(), []Cause{Memory, SlowDisk}, Sure, true},
		{"killed for its memory hours ago, and a slow disk now", func() *world {
			w := fast().slowSyncs(1)
			w.Members[1].Pod.Ended, w.Members[1].Pod.EndedAgo = "OOMKilled", 20*time.Hour
			return w
		}(), []Cause{SlowDisk, Memory}, Sure, true},
		{"killed for its memory last week", func() *world {
			w := fast()
			w.Members[1].Pod.Ended, w.Members[1].Pod.EndedAgo = "OOMKilled", 7*24*time.Hour
			return w
		}(), nil, "", false},
		{"close to its memory limit", fast().set(1, "process_resident_memory_bytes", 0, 1000<<20), []Cause{Memory}, Hint, false},
		{"a large database that is mapped", fast().set(1, "process_resident_memory_bytes", 0, 1000<<20).set(1, "etcd_mvcc_db_total_size_in_bytes", 800<<20, 800<<20).
			set(1, "etcd_mvcc_db_total_size_in_use_in_bytes", 800<<20, 800<<20), nil, "", false},
		{"a backup of a fast member", fast().times(1, "etcd_disk_backend_snapshot_duration_seconds", 2, 1), []Cause{Backup}, Likely, false},
		{"a backup and a defragmentation of no time, beside a slow disk", fast().slowSyncs(1).times(1, "etcd_disk_backend_snapshot_duration_seconds", 0.05, 1).
			times(1, "etcd_disk_backend_defrag_duration_seconds", 0.05, 1), []Cause{SlowDisk, Defragmentation, Backup}, Sure, true},
		{"a database that a leader sends to a follower is no backup", fast().slowSyncs(2).times(0, "etcd_disk_backend_snapshot_duration_seconds", 3, 1).
			set(0, "etcd_network_snapshot_send_success", 0, 1), []Cause{SlowDisk}, Sure, true},
		{"nor is one that did not arrive", fast().slowSyncs(2).times(0, "etcd_disk_backend_snapshot_duration_seconds", 3, 1).
			set(0, "etcd_network_snapshot_send_failures", 0, 1), []Cause{SlowDisk}, Sure, true},
		{"nor is one that the follower still writes", fast().slowSyncs(2).times(0, "etcd_disk_backend_snapshot_duration_seconds", 3, 1).
			set(0, "etcd_network_snapshot_send_inflights_total", 0, 1), []Cause{SlowDisk}, Sure, true},
		{"no client was sent a snapshot", fast().slowSyncs(2).times(0, "etcd_disk_backend_snapshot_duration_seconds", 3, 1).
			set(0, "grpc_server_msg_sent_total", 7, 7), []Cause{SlowDisk}, Sure, true},
		{"a backup beside a database that is sent to a follower", fast().slowSyncs(2).times(0, "etcd_disk_backend_snapshot_duration_seconds", 3, 2).
			set(0, "etcd_network_snapshot_send_success", 0, 1), []Cause{Backup, SlowDisk}, Likely, true},
		{"most of what slow members agree on are leases", func() *world {
			w := fast().set(0, "etcd_debugging_lease_granted_total", 0, 30*300).set(0, "etcd_server_proposals_pending", 90, 90)
			return status(w, 0, func(first, second *Status) { second.Committed = first.Committed + 10_000 }).wakeups(0, 0.03)
		}(), []Cause{Leases, NodeCPU}, Likely, true},
		{"leases are a small part of what slow members agree on", func() *world {
			w := fast().set(0, "etcd_debugging_lease_granted_total", 0, 30*300).set(0, "etcd_server_proposals_pending", 90, 90)
			return status(w, 0, func(first, second *Status) { second.Committed = first.Committed + 20_000 }).wakeups(0, 0.03)
		}(), []Cause{NodeCPU}, Hint, true},
		{"few leases, and little else, at slow members", func() *world {
			w := fast().set(0, "etcd_debugging_lease_granted_total", 0, 30*100).set(0, "etcd_server_proposals_pending", 90, 90)
			return status(w, 0, func(first, second *Status) { second.Committed = first.Committed + 3200 }).wakeups(0, 0.03)
		}(), []Cause{NodeCPU}, Hint, true},
		{"most of what fast members agree on are leases", func() *world {
			w := fast().set(0, "etcd_debugging_lease_granted_total", 0, 30*300)
			return status(w, 0, func(first, second *Status) { second.Committed = first.Committed + 10_000 })
		}(), nil, "", false},
		{"page cache", func() *world {
			w := fast().times(1, "etcd_server_range_duration_seconds", 0.4, 100)
			w.Members[1].Pod.Running = time.Minute
			return w
		}(), []Cause{PageCache}, Hint, true},
		{"learner", func() *world {
			w := fast()
			w.Members[2].Learner = true
			return status(w, 2, func(first, second *Status) { first.Applied, second.Applied = 500, 900 })
		}(), []Cause{LearnerBehind}, Hint, false},
		{"follower behind", status(fast(), 2, func(first, second *Status) {
			first.Committed, second.Committed = 100_000, 200_000
		}), []Cause{FollowerBehind}, Sure, false},
		{"elections", status(fast().set(2, "etcd_server_leader_changes_seen_total", 1, 3), 2, func(_, second *Status) { second.Term = 4 }), []Cause{Elections}, Likely, true},
		{"a handover by a task", func() *world {
			w := status(fast().set(2, "etcd_server_leader_changes_seen_total", 1, 2), 2, func(_, second *Status) { second.Term = 3 })
			w.Tasks = []Task{{Name: "t", Type: "QuorumAwareRollout"}}
			return w
		}(), nil, "", false},
		{"a member that answers nothing, beside its agent", func() *world {
			w := fast()
			m := &w.Members[1]
			m.FailedReads, m.Pings, m.Linearizable, m.Serializable = 4, nil, nil, nil
			m.Second = Sample{}
			return w
		}(), []Cause{MemberDown}, Sure, true},
		{"a member that answers nothing, and neither does its agent", func() *world {
			w := fast()
			m := &w.Members[1]
			m.FailedReads, m.Pings, m.AgentPings, m.Linearizable, m.Serializable = 4, nil, nil, nil, nil
			m.Second = Sample{}
			return w
		}(), nil, "", true},
		{"events for watchers are no ranges", fast().set(0, "etcd_network_client_grpc_sent_bytes_total", 0, 6000<<20).set(0, "etcd_mvcc_put_total", 0, 3000).
			set(0, "etcd_debugging_mvcc_total_put_size_in_bytes", 0, 300<<20).set(0, "etcd_debugging_mvcc_events_total", 0, 30_000), []Cause{LargeValues}, Hint, false},
		{"a snapshot that is being read is no range", fast().set(0, "etcd_network_client_grpc_sent_bytes_total", 0, 6000<<20).set(0, "etcd_mvcc_range_total", 0, 100).
			set(0, "grpc_server_msg_sent_total", 0, 6000<<5), []Cause{Backup}, Likely, false},
		{"answers to many writes are no ranges", fast().set(0, "etcd_network_client_grpc_sent_bytes_total", 0, 200<<20).set(0, "etcd_mvcc_range_total", 0, 100).
			set(0, "etcd_mvcc_put_total", 0, 300_000), nil, "", false},
		{"a member that runs, and that its peers do not reach", func() *world {
			w := fast()
			w.Quorum.Serving = 2
			m := &w.Members[1]
			m.Serving, m.FailedReads, m.Linearizable = false, 4, nil
			return w
		}(), []Cause{PeerConnections}, Likely, true},
		{"a way that is late now and then, to etcd and to its agent", func() *world {
			w := fast()
			for n := range 4 {
				w.Members[1].Pings[n], w.Members[1].AgentPings[n] = 200*time.Millisecond, 140*time.Millisecond
			}
			return w
		}(), nil, "", false},
		{"linearizable reads that wait in a queue", read(fast().set(0, "etcd_server_proposals_pending", 0, 100), 1, 200*time.Millisecond), nil, "", true},
		{"linearizable reads that are late now and then", func() *world {
			w := fast()
			for n := range 13 {
				w.Members[1].Linearizable[n] = 60 * time.Millisecond
			}
			return w
		}(), nil, "", true},
		{"one watcher that is behind", fast().set(0, "etcd_debugging_mvcc_slow_watcher_total", 1, 1), []Cause{Watches}, Hint, false},
		{"the second scrape came late", func() *world {
			w := fast().set(1, "process_cpu_seconds_total", 0, 40)
			w.Members[1].Elapsed = time.Minute
			return w
		}(), nil, "", false},
		{"clock", logs(1, Logs{Drift: 2}), []Cause{Clock}, Hint, false},
		{"TLS between peers", logs(1, Logs{Rejected: 9, Unhealthy: 9}), []Cause{PeerConnections}, Likely, false},
		{"writes of a fast cluster", fast().set(0, "etcd_mvcc_put_total", 0, 300_000), nil, "", false},
		{"many writes below one prefix", func() *world {
			w := fast().set(0, "etcd_mvcc_put_total", 0, 300_000).set(0, "etcd_server_proposals_pending", 0, 100)
			w.Events, w.HotPrefixes = 100, []HotPrefix{{"/registry/events/…", 90, 9000}}
			return w
		}(), []Cause{WriteStorm}, Likely, true},
		{"many writes below many prefixes", func() *world {
			w := fast().set(0, "etcd_mvcc_put_total", 0, 300_000).set(0, "etcd_server_proposals_pending", 0, 100)
			w.Events, w.HotPrefixes = 100, []HotPrefix{{"/registry/events/…", 40, 9000}}
			return w
		}(), []Cause{WriteStorm}, Likely, true},
		{"watchers behind, and the CPU at its limit", fast().set(0, "etcd_debugging_mvcc_slow_watcher_total", 50, 50).set(0, "etcd_debugging_mvcc_pending_events_total", 0, 50_000).
			set(0, "process_cpu_seconds_total", 0, 29.5), []Cause{Watches, CPU}, Likely, true},
		{"large ranges take the CPU", fast().set(0, "etcd_mvcc_range_total", 0, 1000).set(0, "etcd_network_client_grpc_sent_bytes_total", 0, 30*100<<20).times(0, "etcd_server_range_duration_seconds", 0.4, 1000).
			set(0, "process_cpu_seconds_total", 0, 29.5), []Cause{LargeRanges, CPU}, Sure, true},
		{"a full snapshot by the agent, and a slow disk", func() *world {
			w := fast().slowSyncs(0)
			taken := func(n float64) Metrics {
				return Metrics{"etcdbr_snapshot_duration_seconds": []Series{{Labels: map[string]string{"kind": "Full"}, Count: n, Sum: 5 * n}, {Labels: map[string]string{"kind": "Incr"}, Count: 9 * n}}}
			}
			w.Members[0].First.Agent, w.Members[0].Second.Agent = taken(1), taken(2)
			return w
		}(), []Cause{Backup, SlowDisk}, Likely, true},
		{"a compaction that pauses, beside a fast disk", pausing(fast()), []Cause{Compaction}, Likely, true},
		{"a compaction on a disk that is always slow", pausing(fast().slowSyncs(0)), []Cause{SlowDisk}, Sure, true},
		{"restarted in between", again(fast().slowSyncs(1)), []Cause{Restarts}, Sure, true},
		{"restarted in between by a task", func() *world {
			w := again(fast())
			w.Tasks = []Task{{Name: "t", Type: "QuorumAwareRollout"}}
			return w
		}(), nil, "", true},
		{"killed for its memory in between", func() *world {
			w := again(fast())
			w.Members[1].Pod.Ended, w.Members[1].Pod.EndedAgo = "OOMKilled", 12*time.Second
			return w
		}(), []Cause{Memory, Restarts}, Sure, true},
		{"a clock that was set in between is no start", fast().slowSyncs(1).set(1, "process_start_time_seconds", 1, 99), []Cause{SlowDisk}, Sure, true},
		{"a start that the status of the pod does not show yet", fast().slowSyncs(1).set(1, "process_start_time_seconds", 1, 99).set(1, "process_cpu_seconds_total", 10, 0.2), []Cause{Restarts}, Sure, true},
		{"an agent that started again is no busy node", func() *world {
			w := fast().lateSyncs().wakeups(1, 0.03)
			w.Members[1].First.Agent["process_start_time_seconds"], w.Members[1].Second.Agent["process_start_time_seconds"] = []Series{{Value: 1}}, []Series{{Value: 99}}
			return w
		}(), []Cause{SlowDisk}, Likely, true},
	}
}

// again has etcd start again in the measurement.
func again(w *world) *world {
	w.set(1, "process_start_time_seconds", 1, 99)
	w.Members[1].Pod.Running = 10 * time.Second
	return w
}

func TestRules(t *testing.T) {
	for _, r := range rows() {
		t.Run(r.name, func(t *testing.T) {
			g := NewWithT(t)
			v := Judge(r.world.Input)
			var causes []Cause
			for _, f := range v.Findings {
				causes = append(causes, f.Cause)
			}
			g.Expect(causes).To(Equal(r.causes), "%+v", v)
			if len(causes) > 0 {
				g.Expect(v.Findings[0].Grade).To(Equal(r.grade), "%+v", v.Findings[0])
				g.Expect(v.Findings[0].FollowsFrom).To(BeEmpty())
			}
			g.Expect(v.Slow).To(Equal(r.slow), "%+v", v.Symptoms)
		})
	}
}

// Every cause is found in a row above or in a recording.
func TestEveryCauseIsTested(t *testing.T) {
	tested := map[Cause]bool{}
	for _, r := range rows() {
		for _, c := range r.causes {
			tested[c] = true
		}
	}
	recorded, err := filepath.Glob(filepath.Join("testdata", "*", "input.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range recorded {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rules {
			if strings.Contains(string(raw), fmt.Sprintf("\"Expect\": %q", r.cause)) {
				tested[r.cause] = true
			}
		}
	}
	for _, r := range rules {
		if !tested[r.cause] {
			t.Errorf("cause %s has neither a row nor a recording", r.cause)
		}
	}
}

// What is not seen is not blamed: without a signal, a verdict has no finding that it did not have with it, and says what it could not judge.
func TestNothingUnseenIsBlamed(t *testing.T) {
	for _, r := range rows() {
		g := NewWithT(t)
		before := map[Cause]bool{}
		for _, f := range Judge(r.world.Input).Findings {
			before[f.Cause] = true
		}
		blind := r.world.Input
		blind.Quorum, blind.Alarms = nil, nil
		blind.Members = append([]Member{}, blind.Members...)
		for i := range blind.Members {
			m := &blind.Members[i]
			m.First, m.Second, m.Logs, m.FailedReads = Sample{}, Sample{}, nil, 0
			m.Pings, m.AgentPings, m.Linearizable, m.Serializable = nil, nil, nil, nil
		}
		v := Judge(blind)
		for _, f := range v.Findings {
			g.Expect(before).To(HaveKey(f.Cause), r.name)
		}
		g.Expect(v.NotJudged).To(ContainElements(SlowDisk, CPU, Network, NoQuorum))
		g.Expect(v.Slow).To(BeFalse(), r.name)
		if len(v.Findings) == 0 {
			g.Expect(v.Headline).To(ContainSubstring("nothing can be said"))
		}
	}
	g := NewWithT(t)
	g.Expect(Judge(Input{Hibernated: true})).To(Equal(Verdict{Headline: "It is hibernated: no member is running."}))
	g.Expect(Judge(Input{}).Headline).To(ContainSubstring("nothing can be said"))
	g.Expect(Judge(Input{}).NotJudged).To(HaveLen(len(rules)))
}

// What explains a cause comes before it in the table, and a cause does not explain itself by a detour.
func TestExplanationsPointDown(t *testing.T) {
	for i, r := range rules {
		for _, c := range r.explains {
			if at := position(c); at < 0 {
				t.Errorf("%s explains %s, which is no cause", r.cause, c)
			} else if at <= i {
				t.Errorf("%s explains %s, which is above it", r.cause, c)
			}
		}
	}
}

// A counter that falls, a histogram that changes its buckets, and numbers that make no sense are no evidence, and no panic.
func TestNonsenseIsNoEvidence(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		in := fast().Input
		for i := range in.Members {
			for name := range maps.Clone(in.Members[i].First.Metrics) {
				switch r.IntN(6) {
				case 0:
					delete(in.Members[i].First.Metrics, name)
				case 1:
					delete(in.Members[i].Second.Metrics, name)
				case 2:
					in.Members[i].First.Metrics[name] = []Series{{Value: r.Float64() * 1e9, Count: r.Float64() * 1e9, Buckets: []Bucket{{1, 2}}}}
				}
			}
			if r.IntN(3) == 0 {
				in.Members[i].First.Status = nil
			}
			if r.IntN(3) == 0 {
				in.Members[i].Pod = nil
			}
		}
		v := Judge(in)
		in.Figures()
		for _, f := range v.Findings {
			if len(f.Evidence) == 0 || f.Grade == "" {
				t.Fatalf("%+v", f)
			}
		}
	}
}

// Every message is a sentence or a figure that can be read.
func TestMessages(t *testing.T) {
	for _, r := range rows() {
		g := NewWithT(t)
		v := Judge(r.world.Input)
		g.Expect(v.Headline).To(MatchRegexp(`^[A-Zae].*\.$`), r.name)
		for _, f := range v.Findings {
			g.Expect(f.Advice).NotTo(BeEmpty(), string(f.Cause))
			for _, a := range f.Advice {
				g.Expect(a.Text).To(HaveSuffix("."), a.Text)
			}
			for _, e := range f.Evidence {
				g.Expect(e.String()).NotTo(MatchRegexp(`NaN|Inf|%!|e\+`), string(f.Cause))
			}
		}
	}
}

func TestFigure(t *testing.T) {
	for want, e := range map[string]Evidence{
		"m-0: p99 of fsyncs: more than 64 ms (threshold 16 ms; x)": {Member: "m-0", Signal: "p99 of fsyncs", Value: 64, Unit: "ms", AtLeast: true, Threshold: 16, Source: "x"},
		"voters that serve: 1 (threshold 2; x)":                    {Signal: "voters that serve", Value: 1, Threshold: 2, Source: "x"},
		"sent: 1.5 MiB/s":                                          {Signal: "sent", Value: 1.5 * (1 << 20), Unit: "B/s"},
		"took: 2.5 s":                                              {Signal: "took", Value: 2500, Unit: "ms"},
		"took: 1.2 µs":                                             {Signal: "took", Value: 0.0012, Unit: "ms"},
		"share: 93 %":                                              {Signal: "share", Value: 93.2, Unit: "%"},
		"writes: 12,345/s":                                         {Signal: "writes", Value: 12345, Unit: "/s"},
		"serves: no (x)":                                           {Signal: "serves", Unit: yesOrNo, Source: "x"},
		"alarm: yes":                                               {Signal: "alarm", Unit: yesOrNo, Value: 1},
	} {
		NewWithT(t).Expect(e.String()).To(Equal(want))
	}
}

// What a member says that is no number does no harm, and a time beyond the last bucket is more than that.
func TestFiguresOfAMemberThatLies(t *testing.T) {
	g := NewWithT(t)
	const name = "etcd_disk_wal_fsync_duration_seconds"
	m, err := ParseMetrics("# TYPE "+name+" histogram\n"+name+"_bucket{le=\"8.192\"} 0\n"+name+"_bucket{le=\"+Inf\"} 60\n"+name+"_sum NaN\n"+name+"_count 60\n", nil)
	g.Expect(err).NotTo(HaveOccurred())
	w := fast()
	w.Members[0].First.Metrics[name], w.Members[0].Second.Metrics[name] = nil, m[name]
	w.Members[0].Second.Metrics["etcd_disk_wal_write_duration_seconds"] = m[name]
	w.Members[0].First.Metrics["etcd_disk_wal_write_duration_seconds"] = nil
	v := Judge(w.Input)
	g.Expect(v.Findings[0].Cause).To(Equal(SlowDisk))
	raw, err := json.Marshal(v)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(raw)).NotTo(ContainSubstring("NaN"))
	g.Expect(w.Figures()[0].Fsync).To(Equal("> 8.2 s"))
}

// Whatever members say of themselves, the verdict can be printed, and what it rests on are figures.
func TestMembersThatLie(t *testing.T) {
	g := NewWithT(t)
	values := []string{"NaN", "+Inf", "-Inf", "-1", "0", "1e308", "1e-308", "18446744073709551615", "0.5", "1", "1000"}
	r := rand.New(rand.NewPCG(3, 4))
	pick := func() string { return values[r.IntN(len(values))] }
	// The parser refuses counts below zero.
	count := func() string { return strings.TrimPrefix(pick(), "-") }
	page := func() string {
		var out strings.Builder
		for _, name := range families {
			switch r.IntN(3) {
			case 0:
				fmt.Fprintf(&out, "# TYPE %s gauge\n%s{Remote=\"\x1b[2J\"} %s\n", name, name, pick())
			case 1:
				fmt.Fprintf(&out, "# TYPE %s histogram\n", name)
				for range r.IntN(5) {
					fmt.Fprintf(&out, "%s_bucket{le=%q} %s\n", name, pick(), count())
				}
				fmt.Fprintf(&out, "%s_sum %s\n%s_count %s\n", name, pick(), name, count())
			}
		}
		return out.String()
	}
	parsed := 0
	for range 1000 {
		in := fast().Input
		for i := range in.Members {
			for _, s := range []*Sample{&in.Members[i].First, &in.Members[i].Second} {
				if m, err := ParseMetrics(page(), nil); err == nil {
					s.Metrics, s.Agent, s.Kubelet, parsed = m, m, m, parsed+1
				}
				s.Status.Term, s.Status.Committed, s.Status.Applied = r.Uint64(), r.Uint64(), r.Uint64()
			}
		}
		v := Judge(in)
		raw, err := json.Marshal(v)
		g.Expect(err).NotTo(HaveOccurred(), "%+v", v)
		g.Expect(string(raw)).NotTo(ContainSubstring("[2J"))
		for _, f := range v.Findings {
			for _, e := range f.Evidence {
				g.Expect(e.String()).NotTo(MatchRegexp(`NaN|Inf|e\+|: -`), string(f.Cause))
				g.Expect(len(e.String())).To(BeNumerically("<", 300))
			}
		}
		g.Expect(fmt.Sprint(in.Figures())).NotTo(MatchRegexp(`NaN|Inf`))
	}
	g.Expect(parsed).To(BeNumerically(">", 1000))
}

// A histogram whose buckets are missing, change or fall says nothing, and one without an end no more than its last bound.
func TestHistogramsThatDoNotBelongTogether(t *testing.T) {
	g := NewWithT(t)
	whole := []Bucket{{0.1, 10}, {0.2, 90}, {math.Inf(1), 100}}
	for name, c := range map[string]struct {
		first, second Series
		count, above  float64
	}{
		"from zero":                  {Series{}, Series{Count: 100, Sum: 9, Buckets: whole}, 100, 0.2},
		"grew":                       {Series{Count: 50, Sum: 1, Buckets: []Bucket{{0.1, 5}, {0.2, 45}, {math.Inf(1), 50}}}, Series{Count: 100, Sum: 9, Buckets: whole}, 50, 0.2},
		"fell":                       {Series{Count: 100, Sum: 9, Buckets: whole}, Series{Count: 50, Sum: 1, Buckets: []Bucket{{0.1, 5}, {0.2, 45}, {math.Inf(1), 50}}}, 0, 0},
		"fell, and grew beyond":      {Series{Count: 50, Sum: 1, Buckets: []Bucket{{0.1, 50}, {0.2, 50}, {math.Inf(1), 50}}}, Series{Count: 100, Sum: 9, Buckets: whole}, 0, 0},
		"other buckets":              {Series{Count: 50, Sum: 1, Buckets: []Bucket{{0.1, 5}, {0.3, 45}, {math.Inf(1), 50}}}, Series{Count: 100, Sum: 9, Buckets: whole}, 0, 0},
		"fewer buckets before":       {Series{Count: 50, Sum: 1}, Series{Count: 100, Sum: 9, Buckets: whole}, 0, 0},
		"no bucket at all":           {Series{}, Series{Count: 100, Sum: 9}, 100, 0},
		"no last bucket":             {Series{}, Series{Count: 100, Sum: 9, Buckets: whole[:2]}, 100, 0.2},
		"beyond the last bound":      {Series{}, Series{Count: 100, Sum: 9, Buckets: []Bucket{{0.1, 0}, {math.Inf(1), 0}}}, 100, 0.1},
		"more in a bucket than ever": {Series{}, Series{Count: 100, Sum: 9, Buckets: []Bucket{{0.1, 101}, {math.Inf(1), 101}}}, 0, 0},
		"a sum that falls":           {Series{}, Series{Count: 100, Sum: -9, Buckets: whole}, 0, 0},
	} {
		d := between(c.first, c.second)
		above, _ := d.above(0.99)
		g.Expect([]float64{d.count, above}).To(Equal([]float64{c.count, c.above}), name)
	}
}

// Nothing that was counted is nothing that was written only if members say so, too.
func TestNothingCounted(t *testing.T) {
	g := NewWithT(t)
	missing := func(do func(*world)) []Missing {
		w := fast().all(func(int) {})
		w.Counted = &Counted{Member: "m-1", Watched: true}
		do(w)
		return Judge(w.Input).Missing
	}
	quiet := func(w *world) { w.all(func(i int) { w.set(i, "etcd_mvcc_put_total", 0, 0) }) }
	g.Expect(missing(quiet)).To(BeEmpty())
	g.Expect(missing(func(w *world) { w.Events = 5 })).To(BeEmpty())
	g.Expect(missing(func(w *world) { w.Counted = nil })).To(BeEmpty())
	g.Expect(missing(func(*world) {})).To(ConsistOf(And(
		HaveField("Signal", SignalPrefixes), HaveField("Why", "the watch on m-1 gave nothing, although m-2 carried out 3,000 puts and deletions"))))
	g.Expect(missing(func(w *world) { quiet(w); w.Members[1].FailedReads = 4 })).To(ConsistOf(
		HaveField("Why", "the watch on m-1 gave nothing: the member did not answer 4 reads in time")))
	g.Expect(missing(func(w *world) { w.Counted.Watched = false })).To(ConsistOf(HaveField("Why", HavePrefix("the agent of m-1 gave nothing, although"))))
}

// What was not seen is not acquitted either, and the next step is named if no cause shows.
func TestWhatWasNotSeenIsNotAcquitted(t *testing.T) {
	g := NewWithT(t)
	v := Judge(fast().Input)
	g.Expect(v.Headline).To(Equal("etcd answers in 2 ms: it is not etcd."))
	g.Expect(v.Advice).To(ConsistOf(HaveField("Command", "kubectl etcdtask diagnose etcd-main -n demo --for 10m --logs")))
	w := fast()
	m := &w.Members[1]
	m.Linearizable, m.Serializable, m.Second.Metrics = nil, nil, nil
	g.Expect(Judge(w.Input).Headline).To(Equal("etcd answers in 2 ms where it could be measured. Nothing is known of the speed of m-1."))

	w = fast()
	w.Members[1].Second = Sample{}
	v = Judge(w.Input)
	g.Expect(v.Headline).To(Equal("etcd answers in 2 ms where it could be measured. At the end of the measurement, m-1 did not answer."))
	g.Expect(v.Advice).To(ConsistOf(HaveField("Command", "kubectl etcdtask status etcd-main -n demo")))
	w.Members = w.Members[1:2]
	g.Expect(Judge(w.Input).Headline).To(Equal("etcd answers in 2 ms where it could be measured. At the end of the measurement, m-1 did not answer."))

	w = fast().set(0, "etcd_server_proposals_pending", 90, 90)
	g.Expect(Judge(w.Input).Advice).To(ConsistOf(HaveField("Command", "kubectl etcdtask diagnose etcd-main -n demo --for 2m --logs")))
	w.Tasks = []Task{{Name: "t", Type: "QuorumAwareRollout"}}
	g.Expect(Judge(w.Input).Advice).To(ConsistOf(HaveField("Command", "kubectl etcdtask describe t -n demo")))
	g.Expect(Judge(fast().slowSyncs(1).Input).Advice).To(BeEmpty(), "the finding has its own")
	v = Judge(again(fast()).Input)
	g.Expect(v.Missing).To(ConsistOf(And(HaveField("Signal", SignalMetrics), HaveField("Member", "m-1"))))
	g.Expect(v.Findings[0].Advice[0].Command).To(Equal("kubectl logs -n demo m-1 -c etcd --previous --tail 20"))
}

func TestAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{-time.Second: "0s", 3 * time.Second: "3s", 59 * time.Second: "59s", 12*time.Minute + 10*time.Second: "12m", 20 * time.Hour: "20h0m"} {
		NewWithT(t).Expect(ago(d)).To(Equal(want))
	}
}

// Each cause comes with something to do, and a command that begins it where there is one.
func TestAdviceHasCommands(t *testing.T) {
	without := map[Cause]bool{Passwords: true, Watches: true, FileDescriptors: true}
	for _, r := range rows() {
		for _, f := range Judge(r.world.Input).Findings {
			has := slices.ContainsFunc(f.Advice, func(a Advice) bool { return a.Command != "" })
			if known := len(r.world.HotPrefixes) > 0; !has && !without[f.Cause] && !known {
				t.Errorf("%s of %q has no command", f.Cause, r.name)
			}
			for _, a := range f.Advice {
				if strings.Contains(a.Command, "POD") || strings.Contains(a.Command, "  ") {
					t.Errorf("%q is no command", a.Command)
				}
			}
		}
	}
}
