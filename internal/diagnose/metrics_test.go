// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const scrape = `# HELP etcd_mvcc_put_total Total number of puts seen by this member.
# TYPE etcd_mvcc_put_total counter
etcd_mvcc_put_total 42
# TYPE etcd_disk_wal_fsync_duration_seconds histogram
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.001"} 1
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.002"} 3
etcd_disk_wal_fsync_duration_seconds_bucket{le="+Inf"} 4
etcd_disk_wal_fsync_duration_seconds_sum 0.5
etcd_disk_wal_fsync_duration_seconds_count 4
# TYPE grpc_server_handled_total counter
grpc_server_handled_total{grpc_code="OK",grpc_method="Authenticate",grpc_service="etcdserverpb.Auth",grpc_type="unary"} 7
grpc_server_handled_total{grpc_code="OK",grpc_method="Range",grpc_service="etcdserverpb.KV",grpc_type="unary"} 7
# TYPE secret_of_a_tenant gauge
secret_of_a_tenant{key="/registry/secrets/a"} 1
# TYPE go_gc_duration_seconds summary
go_gc_duration_seconds{quantile="0"} 0.001
go_gc_duration_seconds{quantile="1"} 0.2
go_gc_duration_seconds_sum 1
go_gc_duration_seconds_count 12
# TYPE container_cpu_cfs_periods_total counter
container_cpu_cfs_periods_total{container="etcd",pod="a"} 10
container_cpu_cfs_periods_total{container="etcd",pod="b"} 20
`

func TestParseMetrics(t *testing.T) {
	g := NewWithT(t)
	m, err := ParseMetrics(scrape, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(m).NotTo(HaveKey("secret_of_a_tenant"))
	total := func(name string, labels map[string]string) float64 { n, _ := m.total(name, labels); return n }
	g.Expect(total("etcd_mvcc_put_total", nil)).To(Equal(42.0))
	g.Expect(total("grpc_server_handled_total", nil)).To(Equal(7.0), "log-ins alone are read")
	g.Expect(total("go_gc_duration_seconds", nil)).To(Equal(0.2))
	g.Expect(total("container_cpu_cfs_periods_total", map[string]string{"pod": "b"})).To(Equal(20.0))
	_, known := m.total("etcd_mvcc_txn_total", nil)
	g.Expect(known).To(BeFalse())
	h := m.histogram("etcd_disk_wal_fsync_duration_seconds", nil)
	g.Expect(h.Count).To(Equal(4.0))
	g.Expect(h.Buckets).To(HaveLen(3))

	of, err := ParseMetrics(scrape, map[string]string{"pod": "a"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(of).To(HaveLen(1))

	_, err = ParseMetrics("etcd_mvcc_put_total{ 1\n", nil)
	g.Expect(err).To(HaveOccurred())
}

// The families are searched by halves.
func TestFamiliesAreSorted(t *testing.T) {
	NewWithT(t).Expect(slices.IsSorted(families)).To(BeTrue())
}

// Each family is read by a rule: what is parsed in vain is left out.
func TestFamiliesAreRead(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".go") && !strings.HasSuffix(e.Name(), "_test.go") && e.Name() != "metrics.go" {
			raw, err := os.ReadFile(e.Name())
			if err != nil {
				t.Fatal(err)
			}
			code.Write(raw)
		}
	}
	for _, f := range families {
		if !strings.Contains(code.String(), `"`+f+`"`) {
			t.Errorf("no rule reads %s", f)
		}
	}
}

// Of what a kubelet says, the container's series are kept and the CPU of the node, with the times at which they were measured.
func TestParseContainer(t *testing.T) {
	g := NewWithT(t)
	scrape := func(used float64, at int64) Metrics {
		m, err := ParseContainer(fmt.Sprintf("# TYPE container_cpu_usage_seconds_total counter\n"+
			"container_cpu_usage_seconds_total{id=\"/\",pod=\"\"} %v %d\ncontainer_cpu_usage_seconds_total{id=\"/x\",pod=\"\"} 7 1\ncontainer_cpu_usage_seconds_total{id=\"/y\",pod=\"m-0\"} 9 1\n"+
			"# TYPE container_cpu_cfs_periods_total counter\ncontainer_cpu_cfs_periods_total{id=\"/y\",pod=\"m-0\"} 5 1\ncontainer_cpu_cfs_periods_total{id=\"/z\",pod=\"m-1\"} 6 1\n"+
			"# TYPE machine_cpu_cores gauge\nmachine_cpu_cores{machine_id=\"a\"} 2\n", used, at), map[string]string{"pod": "m-0"})
		g.Expect(err).NotTo(HaveOccurred())
		return m
	}
	r := reading{Member: &Member{First: Sample{Kubelet: scrape(100, 10_000)}, Second: Sample{Kubelet: scrape(120, 20_000)}}, window: 30e9}
	for name, want := range map[string]float64{"container_cpu_cfs_periods_total": 5, nodeCores: 2} {
		got, _ := r.Second.Kubelet.total(name, nil)
		g.Expect(got).To(Equal(want), name)
	}
	rate, known := r.kubeletRate(nodeUsage)
	g.Expect(known).To(BeTrue())
	g.Expect(rate).To(Equal(2.0), "the kubelet measured ten seconds apart, whatever the window")
	r.Second.Kubelet = scrape(100, 10_000)
	_, known = r.kubeletRate(nodeUsage)
	g.Expect(known).To(BeFalse(), "it has not measured again")
}

// A scrape that anyone may answer is no reason to fail.
func FuzzParseMetrics(f *testing.F) {
	f.Add(scrape)
	f.Fuzz(func(_ *testing.T, text string) {
		m, err := ParseMetrics(text, nil)
		if err != nil {
			return
		}
		in := Input{Window: 1e9, Members: []Member{{Name: "m", First: Sample{Metrics: m}, Second: Sample{Metrics: m}}}}
		Judge(in)
		in.Figures()
	})
}
