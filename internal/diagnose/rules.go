// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

// Cause is the name of a cause.
type Cause string

// The causes.
const (
	NoQuorum        Cause = "NoQuorum"
	AlarmNoSpace    Cause = "AlarmNoSpace"
	AlarmCorrupt    Cause = "AlarmCorrupt"
	Restarts        Cause = "Restarts"
	MemberDown      Cause = "MemberDown"
	DiskFull        Cause = "DiskFull"
	Defragmentation Cause = "Defragmentation"
	Backup          Cause = "Backup"
	Passwords       Cause = "Passwords"
	LargeRanges     Cause = "LargeRanges"
	LargeValues     Cause = "LargeValues"
	Leases          Cause = "Leases"
	WriteStorm      Cause = "WriteStorm"
	Watches         Cause = "Watches"
	Memory          Cause = "Memory"
	CPU             Cause = "CPU"
	Compaction      Cause = "Compaction"
	SlowDisk        Cause = "SlowDisk"
	PageCache       Cause = "PageCache"
	Network         Cause = "Network"
	PeerConnections Cause = "PeerConnections"
	NodeCPU         Cause = "NodeCPU"
	FollowerBehind  Cause = "FollowerBehind"
	LearnerBehind   Cause = "LearnerBehind"
	Elections       Cause = "Elections"
	VolumeSpace     Cause = "VolumeSpace"
	Quota           Cause = "Quota"
	Fragmentation   Cause = "Fragmentation"
	FileDescriptors Cause = "FileDescriptors"
	Clock           Cause = "Clock"
)

// kind is what a cause does to clients.
type kind int

const (
	// outage: etcd refuses requests.
	outage kind = iota
	// slows: requests take longer.
	slows
	// remark: worth knowing, but no reason for slow requests.
	remark
)

type rule struct {
	cause Cause
	title string
	kind  kind
	// atMost is the best grade that the figures can reach.
	atMost Grade
	// explains are the causes whose figures follow from this one.
	explains []Cause
	// needs are the signals of which one is enough to judge.
	needs []Signal
	check func(s *state) result
}

// consequences of a member that gets too little of something.
var consequences = []Cause{SlowDisk, Network, PeerConnections, FollowerBehind, LearnerBehind, Elections}

// rules are all causes, in the order in which they explain each other.
var rules = []rule{
	// The voters that serve are no quorum.
	{NoQuorum, "Quorum is lost", outage, Sure, append([]Cause{MemberDown}, consequences...), []Signal{SignalStatus, SignalReported}, noQuorum},
	// The data of a member differs.
	{AlarmCorrupt, "The data of a member differs from that of the others", outage, Sure, nil, []Signal{SignalStatus}, alarmCorrupt},
	// A volume is full.
	{DiskFull, "A volume is full", outage, Sure, append([]Cause{Restarts, MemberDown, VolumeSpace}, consequences...), []Signal{SignalLogs, SignalKubelet}, diskFull},
	// The database has reached its quota.
	{AlarmNoSpace, "The database is full: etcd refuses writes", outage, Sure, []Cause{Quota}, []Signal{SignalStatus}, alarmNoSpace},
	// A member rewrites its database.
	{Defragmentation, "A member is being defragmented", slows, Sure, append([]Cause{CPU, MemberDown}, consequences...), []Signal{SignalMetrics}, defragmentation},
	// A snapshot of the database is read.
	{Backup, "A backup is being taken", slows, Likely, []Cause{LargeRanges, CPU, SlowDisk, PageCache, NodeCPU}, []Signal{SignalMetrics, SignalAgent}, backup},
	// Clients log in by password again and again.
	{Passwords, "Clients authenticate by password again and again", slows, Sure, append([]Cause{CPU, NodeCPU}, consequences...), []Signal{SignalMetrics}, passwords},
	// Clients read much at once.
	{LargeRanges, "Clients read large ranges", slows, Sure, append([]Cause{CPU, NodeCPU, Memory, PageCache}, consequences...), []Signal{SignalMetrics}, largeRanges},
	// Clients write large values.
	{LargeValues, "Clients write large values", slows, Sure, append([]Cause{CPU, NodeCPU, WriteStorm}, consequences...), []Signal{SignalMetrics}, largeValues},
	// Leases come and go.
	{Leases, "Leases are granted and expire in masses", slows, Likely, append([]Cause{CPU, NodeCPU, WriteStorm}, consequences...), []Signal{SignalMetrics}, leases},
	// Watchers do not keep up.
	{Watches, "Watchers do not keep up", slows, Likely, []Cause{CPU, Memory}, []Signal{SignalMetrics}, watches},
	// Clients write more than the members can take.
	{WriteStorm, "Clients write much", slows, Likely, []Cause{CPU, NodeCPU, FollowerBehind, LearnerBehind}, []Signal{SignalMetrics}, writeStorm},
	// The memory limit is too low.
	{Memory, "etcd is short of memory", slows, Sure, append([]Cause{Restarts, MemberDown, CPU, PageCache}, consequences...), []Signal{SignalPod, SignalMetrics}, memory},
	// A process has ended, and no task did that.
	{Restarts, "etcd ended and started again", slows, Sure, []Cause{MemberDown, PageCache, Network, PeerConnections, FollowerBehind, LearnerBehind, Elections}, []Signal{SignalMetrics}, restarts},
	// A voter does not serve.
	{MemberDown, "A member does not serve", slows, Sure, []Cause{Network, PeerConnections, FollowerBehind, Elections}, []Signal{SignalStatus, SignalReported, SignalReads}, memberDown},
	// The process does not get its CPU.
	{CPU, "etcd does not get enough CPU", slows, Sure, consequences, []Signal{SignalMetrics, SignalKubelet}, cpu},
	// Old revisions are removed.
	{Compaction, "A compaction pauses requests", slows, Likely, []Cause{SlowDisk}, []Signal{SignalMetrics}, compaction},
	// Writes wait for the disk.
	{SlowDisk, "The disk is slow", slows, Sure, []Cause{PageCache, PeerConnections, FollowerBehind, LearnerBehind, Elections}, []Signal{SignalMetrics}, slowDisk},
	// The database is not in memory.
	{PageCache, "The database is not in the page cache", slows, Hint, nil, []Signal{SignalMetrics}, pageCache},
	// Members reach each other late.
	{Network, "The network between members is slow", slows, Sure, []Cause{PeerConnections, FollowerBehind, LearnerBehind, Elections}, []Signal{SignalMetrics, SignalStatus}, network},
	// Members do not reach each other.
	{PeerConnections, "Connections between members fail", slows, Likely, []Cause{FollowerBehind, LearnerBehind, Elections}, []Signal{SignalMetrics, SignalLogs}, peerConnections},
	// Everything on the node of a member waits for its CPUs.
	{NodeCPU, "The node is short of CPU", slows, Likely, []Cause{FollowerBehind, LearnerBehind, Elections}, []Signal{SignalMetrics, SignalAgent, SignalKubelet}, nodeCPU},
	// A voter has not applied what is committed.
	{FollowerBehind, "A member is far behind", slows, Sure, nil, []Signal{SignalStatus}, followerBehind},
	// A learner does not catch up.
	{LearnerBehind, "A learner does not catch up", remark, Likely, nil, []Signal{SignalStatus}, learnerBehind},
	// Leadership has changed.
	{Elections, "Leadership changes", slows, Sure, nil, []Signal{SignalMetrics, SignalStatus}, elections},
	// Much of the file is free.
	{Fragmentation, "Much of the database file is free", remark, Sure, []Cause{Quota}, []Signal{SignalMetrics}, fragmentation},
	// The volume will be full.
	{VolumeSpace, "A volume is nearly full", remark, Sure, nil, []Signal{SignalKubelet}, volumeSpace},
	// The database will reach its quota.
	{Quota, "The database is close to its quota", remark, Sure, nil, []Signal{SignalMetrics}, quota},
	// Connections will be refused.
	{FileDescriptors, "etcd runs out of file descriptors", remark, Sure, nil, []Signal{SignalMetrics}, fileDescriptors},
	// Certificates may seem to be invalid.
	{Clock, "The clocks of nodes differ", remark, Hint, nil, []Signal{SignalLogs}, clock},
}
