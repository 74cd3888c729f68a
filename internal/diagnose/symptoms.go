// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

// findSymptoms returns the figures that show that etcd is slow, whatever the cause.
func (s *state) findSymptoms() []Evidence {
	var all []Evidence
	for _, m := range s.members {
		all = append(all, m.starts()...)
		all = append(all, m.slowReads()...)
		all = append(all, m.lateAnswers()...)
		all = append(all, m.slowSyncs()...)
		all = append(all, m.slowHistogram("ranges", "etcd_server_range_duration_seconds", rangeThreshold, rangeSource)...)
		if n, known := m.now("etcd_server_proposals_pending"); known && n >= pendingThreshold {
			all = append(all, Evidence{Member: m.Name, Signal: "proposals that wait", Value: n, Threshold: pendingThreshold, Source: ours})
		}
		// One client that reads slowly makes etcd slow for no one else.
		all = append(all, m.above(watchersBehind, m.slowWatchers(), watchersThreshold, "", ours)...)
		all = append(all, m.leaderChanges(s.handovers())...)
	}
	if s.Quorum != nil && s.Quorum.Serving < s.Quorum.Voters {
		all = append(all, Evidence{Signal: "voters that serve", Value: float64(s.Quorum.Serving), Threshold: float64(s.Quorum.Voters), Source: s.Quorum.source("all voters")})
	}
	return all
}

// slowReads returns the timed reads that are slow.
func (r reading) slowReads() []Evidence {
	var all []Evidence
	if r.FailedReads > 0 && r.votes() {
		all = append(all, Evidence{Member: r.Name, Signal: "reads without an answer in time", Value: float64(r.FailedReads)})
	}
	all = append(all, timed(r.Name, "linearizable reads", r.linearizable(0.5), r.linearizable(0.9))...)
	all = append(all, timed(r.Name, "serializable reads", r.serializable(0.5), r.serializable(0.9))...)
	return all
}

// slowSyncs returns the slowest fsyncs if they are slow.
func (r reading) slowSyncs() []Evidence {
	return r.slowHistogram("fsyncs of the write-ahead log", "etcd_disk_wal_fsync_duration_seconds", fsyncThreshold, fsyncSource)
}

// slowHistogram returns the upper end of a histogram of durations if it is above a threshold, in seconds.
func (r reading) slowHistogram(what, name string, threshold float64, source string) []Evidence {
	d := r.distribution(name)
	above, quantile, ok := d.high()
	if !ok || above < threshold {
		return nil
	}
	return []Evidence{{Member: r.Name, Signal: quantile + " of " + what, Value: above * 1000, Unit: "ms", AtLeast: true, Threshold: threshold * 1000, Source: source}}
}
