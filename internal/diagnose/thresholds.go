// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import "time"

// The thresholds. Their sources are in docs/diagnose.md. Histograms of etcd double from bucket to bucket, so a threshold is the next
// bound above what the source says.
const (
	// fsyncThreshold and commitThreshold are 99th percentiles, in seconds.
	fsyncThreshold  = 0.016
	commitThreshold = 0.032
	fsyncSource     = "etcd's FAQ: below 10 ms"
	commitSource    = "etcd's FAQ: below 25 ms"
	// writeThreshold is the mean of writes into the page cache, in seconds: they wait for the CPU, not for the disk.
	writeThreshold = 0.002
	// smallWrite is the mean size of writes up to which that holds, in bytes.
	smallWrite  = 16 << 10
	writeSource = "a copy into memory takes less than 0.1 ms"
	// roundTripThreshold is the median of round trips between members, in seconds.
	roundTripThreshold = 0.0512
	roundTripSource    = "half of etcd's default heartbeat interval, 100 ms"
	// readThreshold is the median of reads, without the path to the member.
	readThreshold = 25 * time.Millisecond
	// spikeThreshold is the 90th percentile of reads.
	spikeThreshold = 150 * time.Millisecond
	readSource     = "etcd's mixin alerts above 150 ms"
	// rangeThreshold is the 99th percentile of ranges, in seconds.
	rangeThreshold = 0.1024
	rangeSource    = "etcd logs requests that take longer than 100 ms"
	// sentThreshold is what a member sends to clients, in bytes per second, and perRange what it sends for a range.
	sentThreshold = 50 << 20
	perRange      = 1 << 20
	// throttledThreshold is the share of CPU periods that were throttled, cpuThreshold that of the limit, both in percent.
	// From provenThrottled on, no other signal is needed.
	throttledThreshold = 5
	provenThrottled    = 25
	cpuThreshold       = 90
	// nodeThreshold is the share of the cores of a node that is in use, in percent, and wakeupThreshold the 99th percentile of how late
	// timers fire, in seconds.
	nodeThreshold     = 95
	wakeupThreshold   = 0.016
	wakeupSource      = "where CPUs are free, less than 1 ms"
	pressureThreshold = 10
	volumeThreshold   = 90
	fullThreshold     = 99
	memoryThreshold   = 90
	gcThreshold       = 0.1
	// putThreshold is the mean size of a put, in bytes.
	putThreshold = 100 << 10
	// writesThreshold and leasesThreshold are per second, pendingThreshold are proposals.
	writesThreshold  = 1000
	pendingThreshold = 50
	leasesThreshold  = 1000
	// leasesWhenSlow is that of leases where something is slow and leaseShareThreshold, in percent, of what members agree on are leases.
	leasesWhenSlow      = 200
	leaseShareThreshold = 50
	// hotThreshold is the share of events below one prefix, in percent.
	hotThreshold    = 50
	loginsThreshold = 1
	// watchersThreshold is how many watchers that are behind are more than one client that reads slowly.
	watchersThreshold = 10
	// eventsThreshold is how many events wait for slow watchers.
	eventsThreshold = 10000
	// lagThreshold is how many raft entries a member may be behind.
	lagThreshold = 5000
	lagSource    = "etcd refuses writes at 5,000"
	// quotaThreshold, inUseThreshold and filesThreshold are in percent.
	quotaThreshold  = 80
	inUseThreshold  = 50
	filesThreshold  = 80
	minFragmented   = 100 << 20
	fragmentedUsage = "etcd's mixin alerts below 50 % above 100 MiB"
	// pauseThreshold is the 99th percentile of how long a compaction pauses other requests, in milliseconds.
	pauseThreshold = 64
	// justStarted is how long etcd runs before its database is in the page cache.
	justStarted = 10 * time.Minute
	// noticedShare is the part of the window, in percent, that slow requests take to be noticed: the timed reads are judged by their 90th
	// percentile, histograms by their 99th.
	noticedShare = 2
	// recent is how long ago the end of a container still matters.
	recent = 24 * time.Hour

	ours = "etcd-foreman's own"
)
