// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics are the families that rules read, by name.
type Metrics map[string][]Series

// Series is one series of a family: a number, or a histogram.
type Series struct {
	Labels map[string]string
	// Value of a counter or gauge; of a summary, that of its highest quantile.
	Value float64
	// Count, Sum and Buckets of a histogram. Buckets are cumulative, and ordered by their bounds.
	Count   float64
	Sum     float64
	Buckets []Bucket
	// At is when it was measured, in seconds of an unknown clock; 0 if that is when it was asked for.
	At float64
}

// Bucket of a histogram: how many observations were at most Bound.
type Bucket struct{ Bound, Count float64 }

// families are what the rules read. Everything else is dropped when metrics are parsed.
var families = []string{
	"container_cpu_cfs_periods_total", "container_cpu_cfs_throttled_periods_total", "container_cpu_usage_seconds_total",
	"container_pressure_io_waiting_seconds_total", "container_pressure_memory_waiting_seconds_total",
	"etcd_agent_read_duration_seconds", "etcd_agent_wakeup_delay_seconds",
	"etcd_debugging_lease_granted_total", "etcd_debugging_lease_revoked_total",
	"etcd_debugging_mvcc_db_compaction_pause_duration_milliseconds", "etcd_debugging_mvcc_events_total",
	"etcd_debugging_mvcc_pending_events_total", "etcd_debugging_mvcc_slow_watcher_total", "etcd_debugging_mvcc_total_put_size_in_bytes",
	"etcd_debugging_server_lease_expired_total",
	"etcd_debugging_server_watch_send_loop_watch_stream_duration_seconds",
	"etcd_disk_backend_commit_duration_seconds", "etcd_disk_backend_defrag_duration_seconds", "etcd_disk_backend_snapshot_duration_seconds",
	"etcd_disk_defrag_inflight", "etcd_disk_wal_fsync_duration_seconds", "etcd_disk_wal_write_bytes_total", "etcd_disk_wal_write_duration_seconds",
	"etcd_mvcc_db_total_size_in_bytes", "etcd_mvcc_db_total_size_in_use_in_bytes", "etcd_mvcc_delete_total", "etcd_mvcc_put_total",
	"etcd_mvcc_range_total", "etcd_mvcc_txn_total",
	"etcd_network_active_peers", "etcd_network_client_grpc_sent_bytes_total", "etcd_network_known_peers",
	"etcd_network_peer_round_trip_time_seconds", "etcd_network_peer_sent_failures_total",
	"etcd_network_snapshot_send_failures", "etcd_network_snapshot_send_inflights_total", "etcd_network_snapshot_send_success",
	"etcd_server_heartbeat_send_failures_total", "etcd_server_leader_changes_seen_total",
	"etcd_server_proposals_pending", "etcd_server_quota_backend_bytes", "etcd_server_range_duration_seconds",
	"etcdbr_snapshot_duration_seconds", "go_gc_duration_seconds", "grpc_server_handled_total", "grpc_server_msg_sent_total",
	"kubelet_volume_stats_available_bytes", "kubelet_volume_stats_capacity_bytes",
	"machine_cpu_cores",
	"process_cpu_seconds_total", "process_max_fds", "process_open_fds", "process_resident_memory_bytes", "process_start_time_seconds",
}

// ParseMetrics parses the text format. It keeps what rules read, and of that the series that have the labels.
func ParseMetrics(text string, labels map[string]string) (Metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	parsed, err := parser.TextToMetricFamilies(strings.NewReader(kept(text)))
	if err != nil {
		return nil, fmt.Errorf("parsing metrics: %w", err)
	}
	metrics := Metrics{}
	for name, family := range parsed {
		for _, m := range family.GetMetric() {
			if s := seriesOf(m); hasLabels(s.Labels, labels) {
				metrics[name] = append(metrics[name], s)
			}
		}
	}
	return metrics, nil
}

// ParseContainer parses what a kubelet says of the containers of its node. It keeps the series that have the labels, and the CPU of the
// whole node.
func ParseContainer(text string, labels map[string]string) (Metrics, error) {
	metrics, err := ParseMetrics(text, labels)
	if err != nil {
		return nil, err
	}
	noPod, err := ParseMetrics(text, map[string]string{"pod": ""})
	if err != nil {
		return nil, err
	}
	delete(metrics, nodeUsage)
	for _, s := range noPod[nodeUsage] {
		if s.Labels["id"] == "/" {
			metrics[nodeUsage] = append(metrics[nodeUsage], s)
		}
	}
	if cores := noPod[nodeCores]; len(cores) > 0 {
		metrics[nodeCores] = cores
	}
	return metrics, nil
}

// kept returns the lines of a scrape that ParseMetrics reads. A kubelet has hundreds of thousands of others.
func kept(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if isKept(line) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// oneMethod are the families by method of which rules read one.
var oneMethod = map[string]string{"grpc_server_handled_total": `"Authenticate"`, "grpc_server_msg_sent_total": `"Snapshot"`}

// isKept reports whether a line belongs to a family that rules read.
func isKept(line string) bool {
	name := strings.TrimPrefix(line, "# TYPE ")
	if end := strings.IndexAny(name, " {"); end > 0 {
		name = name[:end]
	}
	if method := oneMethod[name]; method != "" && !strings.HasPrefix(line, "# ") && !strings.Contains(line, method) {
		return false
	}
	return slices.ContainsFunc([]string{"", "_bucket", "_sum", "_count"}, func(suffix string) bool {
		_, found := slices.BinarySearch(families, strings.TrimSuffix(name, suffix))
		return found
	})
}

func seriesOf(m *dto.Metric) Series {
	s := Series{Labels: map[string]string{}, At: float64(m.GetTimestampMs()) / 1000}
	for _, l := range m.GetLabel() {
		s.Labels[l.GetName()] = l.GetValue()
	}
	switch {
	case m.GetHistogram() != nil:
		h := m.GetHistogram()
		s.Count, s.Sum = finite(float64(h.GetSampleCount())), h.GetSampleSum()
		for _, b := range h.GetBucket() {
			if bound := b.GetUpperBound(); math.IsInf(bound, 1) || bound == finite(bound) {
				s.Buckets = append(s.Buckets, Bucket{bound, float64(b.GetCumulativeCount())})
			}
		}
	case m.GetSummary() != nil:
		for _, q := range m.GetSummary().GetQuantile() {
			s.Value = max(s.Value, q.GetValue())
		}
	default:
		s.Value = m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
	}
	s.Value, s.Sum = finite(s.Value), finite(s.Sum)
	return s
}

// largest is more than any figure of an etcd, and 1/largest is less: a member that says otherwise lies.
const largest = 1e18

// finite returns a number, or 0 for what is none. No figure is negative.
func finite(n float64) float64 {
	if math.IsNaN(n) || n > largest || n < 1/largest {
		return 0
	}
	return n
}

func hasLabels(have, wanted map[string]string) bool {
	for name, value := range wanted {
		if have[name] != value {
			return false
		}
	}
	return true
}

// DatabaseMetrics are the metrics of a member that say how large its database is, for those who know only that. What is 0 is not known.
func DatabaseMetrics(size, inUse, quota int64) Metrics {
	metrics := Metrics{}
	for name, n := range map[string]int64{
		"etcd_mvcc_db_total_size_in_bytes": size, "etcd_mvcc_db_total_size_in_use_in_bytes": inUse, "etcd_server_quota_backend_bytes": quota,
	} {
		if n > 0 {
			metrics[name] = []Series{{Value: float64(n)}}
		}
	}
	return metrics
}

// total returns the sum of the series of a family; false if there is none.
func (m Metrics) total(name string, labels map[string]string) (float64, bool) {
	sum, found := 0.0, false
	for _, s := range m[name] {
		if hasLabels(s.Labels, labels) {
			sum, found = sum+s.Value+s.Count, true
		}
	}
	return sum, found
}

// at is when the series of a family were measured, in seconds; 0 if that is when they were asked for.
func (m Metrics) at(name string) float64 {
	latest := 0.0
	for _, s := range m[name] {
		latest = max(latest, s.At)
	}
	return latest
}

// histogram returns the series of a family that have the labels, added up.
func (m Metrics) histogram(name string, labels map[string]string) Series {
	var all Series
	for _, s := range m[name] {
		if !hasLabels(s.Labels, labels) {
			continue
		}
		all.Count, all.Sum = all.Count+s.Count, all.Sum+s.Sum
		for i, b := range s.Buckets {
			if i < len(all.Buckets) && all.Buckets[i].Bound == b.Bound {
				all.Buckets[i].Count += b.Count
			} else if i == len(all.Buckets) {
				all.Buckets = append(all.Buckets, b)
			}
		}
	}
	return all
}
