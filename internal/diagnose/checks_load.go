// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

// advise adds advice to a result that has evidence.
func (r result) advise(advice ...Advice) result {
	if len(r.evidence) > 0 {
		r.advice = advice
	}
	return r
}

// first returns the first member that a result is about; empty if it is about none.
func (r result) first() string {
	for _, e := range r.evidence {
		if e.Member != "" {
			return e.Member
		}
	}
	return ""
}

// above returns a figure that reaches its threshold.
func (r reading) above(signal string, value, threshold float64, unit, source string) []Evidence {
	if value < threshold {
		return nil
	}
	return []Evidence{{Member: r.Name, Signal: signal, Value: value, Unit: unit, Threshold: threshold, Source: source}}
}

func passwords(s *state) result {
	var r result
	for _, m := range s.members {
		logins := m.grewWith("grpc_server_handled_total", map[string]string{"grpc_method": "Authenticate"}) / max(m.window.Seconds(), 1)
		found := m.above("log-ins by password", logins, loginsThreshold, "/s", ours)
		if len(found) == 0 {
			continue
		}
		// A log-in takes about 0.1 s of a core.
		found = append(found, m.above("share of the used CPU that log-ins take, at 100 ms each (bcrypt)", 100*min(logins*0.1/max(m.cpu(), 0.01), 1), 30, "%", ours)...)
		r.evidence = append(r.evidence, append(found, m.slowReads()...)...)
	}
	return r.advise(Advice{"Let clients keep their connections, or authenticate them by certificates. Each log-in is a bcrypt hash (etcd-io/etcd#14692).", ""})
}

func largeRanges(s *state) result {
	var r result
	for _, m := range s.members {
		var found []Evidence
		if n, _ := m.snapshotsRead(); n == 0 {
			// A snapshot would count among what was sent.
			sent := m.sent()
			found = m.above("sent to clients for ranges", sent/max(m.window.Seconds(), 1), sentThreshold, "B/s", ours)
			found = append(found, m.above("sent for each range", m.sentPerRange(), perRange, "B", ours)...)
		}
		if m.Logs != nil {
			found = append(found, m.above("largest answer to a range, in the log", float64(m.Logs.LargestAnswer), perRange, "B", ours)...)
		}
		if len(found) == 0 {
			continue
		}
		// A range that is small is slow, too, where a member stands still.
		found = append(found, m.logged("slow ranges in the log", func(l *Logs) int { return l.SlowRanges }, 3)...)
		found = append(found, m.slowHistogram("ranges", "etcd_server_range_duration_seconds", rangeThreshold, rangeSource)...)
		r.evidence = append(r.evidence, found...)
	}
	return r.advise(
		Advice{"Find the client that lists much: let it page with a limit, watch instead of listing again, or read from a cache (the API server's, with resourceVersion=0).", ""},
		Advice{"The log of etcd names the range of each slow request; keys are tenants' data.", "kubectl logs -n " + s.Namespace + " " + r.first() + " -c etcd --since 15m | grep 'read-only range'"})
}

// meanPut is the mean size of a put, in bytes.
func (r reading) meanPut() float64 {
	return r.grew("etcd_debugging_mvcc_total_put_size_in_bytes") / max(r.grew("etcd_mvcc_put_total"), 1)
}

// snapshotPart is the size of the parts in which etcd sends a snapshot, in bytes.
const snapshotPart = 32 << 10

// snapshotSent is how much of snapshots a member sent, in bytes.
func (r reading) snapshotSent() float64 { return snapshotPart * r.grew("grpc_server_msg_sent_total") }

// perAnswer is more than etcd answers to a put or a transaction, in bytes.
const perAnswer = 4 << 10

// sent is how many bytes a member sent to clients for ranges: without snapshots, answers to writes, and what watchers got, of which
// each event has a key and its value, and the value before if the watcher asked for that.
func (r reading) sent() float64 {
	watched := r.grew("etcd_debugging_mvcc_events_total") * 2 * r.meanPut()
	written := perAnswer * (r.grew("etcd_mvcc_put_total") + r.grew("etcd_mvcc_txn_total"))
	return max(r.grew("etcd_network_client_grpc_sent_bytes_total")-watched-written-r.snapshotSent(), 0)
}

// sentPerRange is how many bytes a member sent for each range.
func (r reading) sentPerRange() float64 { return r.sent() / max(r.grew("etcd_mvcc_range_total"), 1) }

func largeValues(s *state) result {
	var r result
	for _, m := range s.members {
		if m.grew("etcd_mvcc_put_total") < minObservations/5 {
			continue
		}
		found := m.above("mean size of a put", m.meanPut(), putThreshold, "B", ours)
		if len(found) == 0 {
			continue
		}
		found = append(found, m.above("written to the log of raft", m.rate("etcd_disk_wal_write_bytes_total"), 1<<20, "B/s", ours)...)
		found = append(found, m.logged("requests that are too large, in the log", func(l *Logs) int { return l.TooLarge }, 1)...)
		found = append(found, m.slowSyncs()...)
		r.evidence = append(r.evidence, found...)
	}
	return r.advise(Advice{"Find the client, by the prefix below which most bytes are written, and keep large values elsewhere: etcd is made for values of a few KiB and refuses requests above 1.5 MiB by default.", s.hot()})
}

// leaseShare is the share of grants and revocations of leases in what the members agreed on, in percent; 0 if that is not known.
func (r reading) leaseShare() float64 {
	first, second := r.First.Status, r.Second.Status
	if first == nil || second == nil || second.Committed <= first.Committed {
		return 0
	}
	changes := r.grew("etcd_debugging_lease_granted_total") + r.grew("etcd_debugging_lease_revoked_total")
	return min(100*changes/float64(second.Committed-first.Committed), 100)
}

func leases(s *state) result {
	var r result
	for _, m := range s.members {
		threshold, share := float64(leasesThreshold), m.leaseShare()
		if len(s.symptoms) > 0 && share >= leaseShareThreshold {
			// How many are too many depends on the machine: here, the members do little else, and are slow.
			threshold = leasesWhenSlow
		}
		found := m.above("leases granted", m.rate("etcd_debugging_lease_granted_total"), threshold, "/s", ours)
		gone := max(m.rate("etcd_debugging_lease_revoked_total"), m.rate("etcd_debugging_server_lease_expired_total"))
		if found = append(found, m.above("leases expired or revoked", gone, threshold, "/s", ours)...); len(found) > 0 {
			found = append(found, m.above("share of leases in what the members agree on", share, leaseShareThreshold, "%", ours)...)
		}
		r.evidence = append(r.evidence, found...)
	}
	return r.advise(Advice{"Find the client, by the prefix of the keys that expire with their leases; it should use longer TTLs, and one lease for many keys. etcd 3.7 revokes leases before other requests when it is under load.", s.hot()})
}

// slowWatchers is how many watchers were behind at both samples.
func (r reading) slowWatchers() float64 {
	before, _ := r.First.Metrics.total("etcd_debugging_mvcc_slow_watcher_total", nil)
	after, _ := r.now("etcd_debugging_mvcc_slow_watcher_total")
	return min(before, after)
}

const watchersBehind = "watchers that are behind, at both samples"

func watches(s *state) result {
	var r result
	for _, m := range s.members {
		found := m.above(watchersBehind, m.slowWatchers(), 1, "", ours)
		if len(found) == 0 {
			continue
		}
		// One watcher may be a client that is slow; many are enough.
		found[0].proves = found[0].Value >= watchersThreshold
		pending, _ := m.now("etcd_debugging_mvcc_pending_events_total")
		found = append(found, m.above("events that wait for watchers", pending, eventsThreshold, "", ours)...)
		found = append(found, m.slowHistogram("sends to watchers", "etcd_debugging_server_watch_send_loop_watch_stream_duration_seconds", rangeThreshold, ours)...)
		r.evidence = append(r.evidence, found...)
	}
	return r.advise(Advice{"Find the client whose watches do not keep up: fewer watchers per stream, without prevKV, and read faster. Upgrade etcd: 3.5 and 3.6 have fixes (etcd-io/etcd#17529, #18109, #19064).", ""})
}

// writes is how many puts, transactions and deletions a member carries out per second.
func (r reading) writes() float64 {
	return r.rate("etcd_mvcc_put_total") + r.rate("etcd_mvcc_delete_total") + r.rate("etcd_mvcc_txn_total")
}

func writeStorm(s *state) result {
	if len(s.symptoms) == 0 {
		// Members that are fast take what they are asked for.
		return result{}
	}
	var r result
	for _, m := range s.members {
		found := m.above("puts, deletions and transactions", m.writes(), writesThreshold, "/s", ours)
		if len(found) == 0 {
			continue
		}
		pending, _ := m.now("etcd_server_proposals_pending")
		found = append(found, m.above("proposals that wait", pending, pendingThreshold, "", ours)...)
		r.evidence = append(r.evidence, found...)
	}
	if len(r.evidence) > 0 {
		r.evidence = append(r.evidence, s.hottest()...)
	}
	return r.advise(Advice{"Find the client that writes so much. The prefix that is written most names the kind of object, and the audit log of the API server the client.", s.hot()})
}

// hot returns a command line that shows what is written most; empty if that is known.
func (s *state) hot() string {
	if len(s.HotPrefixes) > 0 {
		return ""
	}
	return s.verb("diagnose", "--hot-prefixes")
}

// hottest returns the prefix that more than half of all events are below.
func (s *state) hottest() []Evidence {
	if len(s.HotPrefixes) == 0 || s.Events == 0 {
		return nil
	}
	first := s.HotPrefixes[0]
	return reading{Member: &Member{}}.above("events below "+first.Prefix, 100*float64(first.Events)/float64(s.Events), hotThreshold, "%", ours)
}
