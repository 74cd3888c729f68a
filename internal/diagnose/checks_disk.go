// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"
	"strings"
)

func compaction(s *state) result {
	var r result
	old := false
	for _, m := range s.members {
		pauses := m.distribution("etcd_debugging_mvcc_db_compaction_pause_duration_milliseconds")
		above, _ := pauses.above(0.99)
		syncs := m.distribution("etcd_disk_wal_fsync_duration_seconds")
		if usual, known := syncs.above(0.5); above < pauseThreshold || known && usual >= fsyncThreshold || len(m.starvedNode()) > 0 {
			// A disk that is slow all the time makes the pauses long, too, and so does a node that is busy.
			continue
		}
		r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "p99 of pauses by the compaction", Value: above, Unit: "ms", AtLeast: true, Threshold: pauseThreshold, Source: ours},
			Evidence{Member: m.Name, Signal: "pauses", Value: pauses.count})
		if status := m.Second.Status; status != nil && compactsSlowly(status.Version) {
			old = true
			r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "etcd " + status.Version + " compacts slowly", Value: 1, Unit: yesOrNo, Source: "etcd-io/etcd#19406, fixed in 3.5.19"})
		}
	}
	advice := []Advice{{"Compact more often, and so in smaller steps: lower spec.sharedConfig.autoCompactionRetention.", s.edit()}}
	if old {
		advice = slices.Insert(advice, 0, Advice{"Upgrade etcd to 3.5.19 or newer (spec.etcd.image): 3.5.16 to 3.5.18 compact slowly.", ""})
	}
	return r.advise(advice...)
}

// compactsSlowly reports whether a version is one of those whose compaction is slow.
func compactsSlowly(version string) bool {
	return version == "3.5.16" || version == "3.5.17" || version == "3.5.18"
}

func slowDisk(s *state) result {
	var r result
	var nodes []string
	written := 0.0
	for _, m := range s.members {
		if m.usuallyFast() && len(m.starvedNode()) > 0 {
			// The process waits for its CPU once the disk is done.
			continue
		}
		found := m.slowSyncs()
		found = append(found, m.logged("calls of fdatasync above a second, in the log", func(l *Logs) int { return l.SlowSyncs }, 1)...)
		if waits, known := m.pressure("container_pressure_io_waiting_seconds_total"); known {
			found = append(found, m.above("time that etcd waited for the disk", waits, pressureThreshold, "%", ours)...)
		}
		if len(found) == 0 {
			// Commits alone prove nothing: they also take the CPU, and the fsyncs beside them are fast.
			continue
		}
		found = append(found, m.slowHistogram("commits of the database", "etcd_disk_backend_commit_duration_seconds", commitThreshold, commitSource)...)
		if d := m.distribution("etcd_disk_wal_write_duration_seconds"); d.count >= enoughForMedian && len(m.starved())+len(m.starvedNode()) == 0 {
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
	return r.advise(Advice{"Find out what else writes to that disk, or give etcd a faster volume: with another spec.storageClass, the volumes move one after the other." + s.scope(nodes), s.edit()})
}

// scope says what it means where something happens.
func (s *state) scope(nodes []string) string {
	switch {
	case len(s.members) == 1 || len(nodes) == 0:
		return ""
	case len(nodes) == len(s.members):
		return " Every member is affected: look at the storage class, or at the load."
	}
	return fmt.Sprintf(" Only some members are affected: look at the disks of %s.", strings.Join(nodes, " and "))
}

func diskFull(s *state) result {
	var r result
	for _, m := range s.members {
		if m.Logs != nil && m.Logs.NoSpace > 0 {
			r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "lines «no space left on device» in the log", Value: float64(m.Logs.NoSpace), proves: true})
		}
		r.evidence = append(r.evidence, m.volumeInUse(fullThreshold)...)
	}
	return r.advise(s.grow())
}

func volumeSpace(s *state) result {
	var r result
	for _, m := range s.members {
		r.evidence = append(r.evidence, m.volumeInUse(volumeThreshold)...)
	}
	return r.advise(s.grow())
}

func (s *state) grow() Advice {
	return Advice{"Grow the volume: raise spec.storageCapacity.", s.edit()}
}

// volumeInUse returns how much of the volume of a member is in use if that is above a threshold, in percent.
func (r reading) volumeInUse(threshold float64) []Evidence {
	free, known := r.Second.Kubelet.total("kubelet_volume_stats_available_bytes", nil)
	size, too := r.Second.Kubelet.total("kubelet_volume_stats_capacity_bytes", nil)
	if !known || !too || size <= 0 {
		return nil
	}
	found := r.above("volume in use", 100*(size-free)/size, threshold, "%", ours)
	for i := range found {
		found[i].proves = true
	}
	return found
}

func pageCache(s *state) result {
	var r result
	for _, m := range s.members {
		slow := m.slowHistogram("ranges", "etcd_server_range_duration_seconds", rangeThreshold, rangeSource)
		fresh := m.Pod != nil && m.Pod.Running > 0 && m.Pod.Running < justStarted
		sent := m.sentPerRange()
		if len(slow) > 0 && fresh && sent < perRange && len(m.starved())+len(m.starvedNode()) == 0 {
			r.evidence = append(r.evidence, slow...)
		}
	}
	return r.advise(Advice{"Measure again in ten minutes: etcd started a short time ago and reads its database from the disk. If it stays so, raise the memory limit above the size of the database.", s.verb("diagnose")})
}
