// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
)

// panel of the dashboard.
type panel struct {
	title, about, kind, unit string
	width                    int
	queries                  []query
}

type query struct{ expr, legend string }

// row is a line of panels under a title.
type row struct {
	title  string
	panels []panel
}

const (
	stat       = "stat"
	timeseries = "timeseries"
	table      = "table"
	// here selects one cluster.
	here = `etcd_namespace="$namespace",etcd="$etcd"`
	// pods of one cluster.
	pods = `namespace="$namespace",pod=~"$etcd-[0-9]+"`
)

var rows = []row{
	{"Fleet", []panel{
		{"Operator active", "1 while one instance is active.", stat, "none", 4, []query{{`sum(etcd_foreman_active)`, ""}}},
		{"Etcds without quorum", "", stat, "none", 4, []query{{`count(etcd_foreman_etcd_condition{condition="Ready",reason="QuorumLost"} == 0) or vector(0)`, ""}}},
		{"Rollouts now", "", stat, "none", 4, []query{{`sum(etcd_foreman_tasks{type="QuorumAwareRollout",state="InProgress"}) or vector(0)`, ""}}},
		{"Rollouts stalled", "", stat, "none", 4, []query{{`sum(etcddruid_rollout_stalled) or vector(0)`, ""}}},
		{"Failed tasks", "Tasks that have failed, until they are deleted.", stat, "none", 4, []query{{`sum(etcd_foreman_tasks{state="Failed"}) or vector(0)`, ""}}},
		{"Backups not ready", "", stat, "none", 4, []query{{`count(etcd_foreman_etcd_condition{condition="BackupReady"} == 0) or vector(0)`, ""}}},
		{"Rollouts blocked now, by guard", "", timeseries, "none", 12, []query{{`sum by (guard) (etcd_foreman_rollout_held)`, "{{guard}}"}}},
		{"Time blocked, by guard", "How much of the time rollouts were blocked.", timeseries, "s", 12, []query{{`sum by (guard) (rate(etcddruid_rollout_held_seconds_total[$__rate_interval]))`, "{{guard}}"}}},
		{"Slowest pod replacements", "Until the replacement participates, 95th percentile.", table, "s", 12, []query{{`topk(10, histogram_quantile(0.95, sum by (le, etcd_namespace, etcd) (rate(etcddruid_rollout_pod_replacement_seconds_bucket[1d]))))`, "{{etcd_namespace}}/{{etcd}}"}}},
		{"Longest queues", "Time for which a task has waited to start.", table, "s", 12, []query{{`topk(10, time() - etcd_foreman_task_oldest_waiting_timestamp_seconds)`, "{{etcd_namespace}}/{{etcd}}"}}},
		{"Tasks that ended, by state", "", timeseries, "none", 12, []query{{`sum by (type, state) (increase(etcddruid_operator_tasks_total[$__rate_interval]))`, "{{type}} {{state}}"}}},
		{"Task duration, 95th percentile", "", timeseries, "s", 12, []query{{`histogram_quantile(0.95, sum by (le, type) (rate(etcddruid_operator_task_duration_seconds_bucket[$__rate_interval])))`, "{{type}}"}}},
	}},
	{"Policies of the fleet", []panel{
		{"Paused", "Policies that have paused a change that failed, or are invalid.", stat, "none", 4, []query{{`sum(etcd_foreman_fleet_paused) or vector(0)`, ""}}},
		{"Tasks that wait for a policy", "", stat, "none", 4, []query{{`sum(etcd_foreman_fleet_waiting) or vector(0)`, ""}}},
		{"Longest time without a slot", "How long tasks have waited while a policy gave none.", stat, "s", 4, []query{{`max(time() - (etcd_foreman_fleet_slot_awaited_since_timestamp_seconds > 0)) or vector(0)`, ""}}},
		{"Slots in use", "And the limit of each policy.", timeseries, "none", 12, []query{{`max by (policy) (etcd_foreman_fleet_slots_used)`, "{{policy}}"}, {`max by (policy) (etcd_foreman_fleet_slots)`, "{{policy}}: limit"}}},
		{"Tasks that wait, by policy", "", timeseries, "none", 12, []query{{`max by (policy) (etcd_foreman_fleet_waiting)`, "{{policy}}"}}},
		{"Wait for a slot, 95th percentile", "", timeseries, "s", 12, []query{{`histogram_quantile(0.95, sum by (le) (rate(etcd_foreman_fleet_slot_wait_seconds_bucket[$__rate_interval])))`, ""}}},
	}},
	{"Cluster $namespace/$etcd", []panel{
		{"Conditions", "1 is True, 0 False, -1 Unknown.", timeseries, "none", 12, []query{{`max by (condition) (etcd_foreman_etcd_condition{` + here + `})`, "{{condition}}"}}},
		{"Rollout blocked by", "The timeline of the running rollout: which guard blocked it when.", timeseries, "none", 12, []query{{`max by (guard) (etcd_foreman_rollout_held{` + here + `})`, "{{guard}}"}, {`etcddruid_rollout_stalled{` + here + `}`, "stalled"}}},
		{"Leader changes", "Seen by each member.", timeseries, "none", 8, []query{{`increase(etcd_server_leader_changes_seen_total{` + pods + `}[$__rate_interval])`, "{{pod}}"}}},
		{"Has a leader", "", timeseries, "none", 8, []query{{`etcd_server_has_leader{` + pods + `}`, "{{pod}}"}}},
		{"Database size and quota", "", timeseries, "bytes", 16, []query{{`etcd_mvcc_db_total_size_in_bytes{` + pods + `}`, "{{pod}}"}, {`max(etcd_server_quota_backend_bytes{` + pods + `})`, "quota"}}},
		{"Age of the newest snapshot", "", timeseries, "s", 8, []query{{`time() - etcd_foreman_backup_snapshot_timestamp_seconds{` + here + `}`, "{{kind}}"}}},
	}},
	{"Where the time goes", []panel{
		{"Write latency: WAL fsync, 99th percentile", "Each write waits for it. Above 10 ms, the disk is slow, or etcd does not get its CPU: `kubectl etcdtask diagnose` tells one from the other.", timeseries, "s", 8, []query{{`histogram_quantile(0.99, sum by (le, pod) (rate(etcd_disk_wal_fsync_duration_seconds_bucket{` + pods + `}[$__rate_interval])))`, "{{pod}}"}}},
		{"Backend commit, 99th percentile", "Above 25 ms, as for fsyncs.", timeseries, "s", 8, []query{{`histogram_quantile(0.99, sum by (le, pod) (rate(etcd_disk_backend_commit_duration_seconds_bucket{` + pods + `}[$__rate_interval])))`, "{{pod}}"}}},
		{"Round trip to peers, median", "Smoothed by etcd, and observed every 30 s. Above half a heartbeat (50 ms), the network is slow.", timeseries, "s", 8, []query{{`histogram_quantile(0.5, sum by (le, pod) (rate(etcd_network_peer_round_trip_time_seconds_bucket{` + pods + `}[5m])))`, "{{pod}}"}}},
		{"Proposals that wait", "Writes that the members have not agreed on.", timeseries, "none", 8, []query{{`etcd_server_proposals_pending{` + pods + `}`, "{{pod}}"}}},
		{"Apply, 99th percentile", "From the decision of the members until a member has carried it out. Above 50 ms, it is the CPU, the disk, or large requests.", timeseries, "s", 8, []query{{`histogram_quantile(0.99, sum by (le, pod) (rate(etcd_server_apply_duration_seconds_bucket{` + pods + `}[$__rate_interval])))`, "{{pod}}"}}},
		{"Committed and not applied", "Entries of raft. At 5,000, etcd refuses writes.", timeseries, "none", 8, []query{{`etcd_server_proposals_committed_total{` + pods + `} - etcd_server_proposals_applied_total{` + pods + `}`, "{{pod}}"}}},
		{"CPU", "Cores that etcd uses. At its limit, everything takes longer.", timeseries, "none", 8, []query{{`rate(process_cpu_seconds_total{` + pods + `}[$__rate_interval])`, "{{pod}}"}}},
		{"Reads that the agents time, 99th percentile", "Of a key that does not exist, from within the pod. Linearizable reads take the way to the leader and its peers besides.", timeseries, "s", 8, []query{{`histogram_quantile(0.99, sum by (le, pod, kind) (rate(etcd_agent_read_duration_seconds_bucket{` + pods + `}[5m])))`, "{{pod}} {{kind}}"}}},
		{"Timers of the agents: how late, 99th percentile", "Above 16 ms, the node is short of CPU, whatever etcd does.", timeseries, "s", 8, []query{{`histogram_quantile(0.99, sum by (le, pod) (rate(etcd_agent_wakeup_delay_seconds_bucket{` + pods + `}[$__rate_interval])))`, "{{pod}}"}}},
	}},
}

// panelHeight is that of all panels but stat panels, in units of Grafana's grid, which is 24 wide.
const panelHeight, statHeight, gridWidth = 8, 4, 24

type object = map[string]any

// datasource is what the dashboard's user has chosen.
var datasource = object{"type": "prometheus", "uid": "${datasource}"}

func (p panel) object(id int, at object) object {
	var targets []object
	for i, q := range p.queries {
		t := object{"refId": string(rune('A' + i)), "expr": q.expr, "legendFormat": q.legend, "datasource": datasource}
		if p.kind != timeseries {
			t["instant"] = true
		}
		if p.kind == table {
			t["format"] = "table"
		}
		targets = append(targets, t)
	}
	return object{
		"id": id, "type": p.kind, "title": p.title, "description": p.about, "datasource": datasource, "targets": targets,
		"fieldConfig": object{"defaults": object{"unit": p.unit}, "overrides": []object{}}, "gridPos": at,
	}
}

func dashboardFile() ([]byte, error) {
	var panels []object
	id, y := 0, 0
	for _, r := range rows {
		id++
		panels = append(panels, object{"id": id, "type": "row", "title": r.title, "collapsed": false, "panels": []object{}, "gridPos": object{"x": 0, "y": y, "w": gridWidth, "h": 1}})
		y++
		x, height := 0, 0
		for _, p := range r.panels {
			if x+p.width > gridWidth {
				x, y = 0, y+height
			}
			id++
			height = panelHeight
			if p.kind == stat {
				height = statHeight
			}
			panels = append(panels, p.object(id, object{"x": x, "y": y, "w": p.width, "h": height}))
			x += p.width
		}
		y += height
	}
	variable := func(name, expr string) object {
		return object{
			"name": name, "type": "query", "datasource": datasource, "refresh": 2, "sort": 1,
			"query": object{"query": fmt.Sprintf("label_values(%s)", expr), "refId": name},
		}
	}
	content, err := json.MarshalIndent(object{
		"title": "etcd-foreman", "uid": "etcd-foreman", "tags": []string{"etcd"}, "schemaVersion": 39, "editable": true,
		"time": object{"from": "now-6h", "to": "now"}, "refresh": "30s", "panels": panels,
		"templating": object{"list": []object{
			{"name": "datasource", "type": "datasource", "query": "prometheus"},
			variable("namespace", "etcd_foreman_etcd_condition, etcd_namespace"),
			variable("etcd", `etcd_foreman_etcd_condition{etcd_namespace="$namespace"}, etcd`),
		}},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the dashboard: %w", err)
	}
	return append(content, '\n'), nil
}
