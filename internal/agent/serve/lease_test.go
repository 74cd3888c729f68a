// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// leaseServer serves leases by their names, and takes patches.
type leaseServer struct {
	leases  map[string]coordinationv1.LeaseSpec
	accept  string
	patched map[string]map[string]any
	broken  bool
}

func (s *leaseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	name := path.Base(r.URL.Path)
	spec, known := s.leases[name]
	switch {
	case s.broken:
		w.WriteHeader(http.StatusInternalServerError)
	case !known:
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
	case r.Method == http.MethodPatch:
		patch := map[string]any{}
		_ = json.NewDecoder(r.Body).Decode(&patch)
		s.patched[name+" by "+r.URL.Query().Get("fieldManager")] = patch
		fallthrough
	default:
		_ = json.NewEncoder(w).Encode(coordinationv1.Lease{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}, ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationAcceptRevision: s.accept}}, Spec: spec})
	}
}

func serving(t *testing.T, leases map[string]coordinationv1.LeaseSpec) (*leaseServer, *rest.Config) {
	s := &leaseServer{leases: leases, patched: map[string]map[string]any{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, &rest.Config{Host: server.URL}
}

// What a restore must reach is the newest snapshot that any of the leases records. What cannot be read is no record.
func TestRecorded(t *testing.T) {
	g, at := NewWithT(t), time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	records := func(revision string, at time.Time) coordinationv1.LeaseSpec {
		return coordinationv1.LeaseSpec{HolderIdentity: &revision, RenewTime: ptr.To(metav1.NewMicroTime(at))}
	}
	s, config := serving(t, map[string]coordinationv1.LeaseSpec{"full": records("7", at), "delta": records("9", at.Add(time.Minute)), "new": {}, "odd": records("many", at), "renewed": records("5", at.Add(time.Hour))})
	record := func(names ...string) (backup.Record, error) {
		read, err := Recorded(config, "ns", names...)
		g.Expect(err).NotTo(HaveOccurred())
		return read(t.Context())
	}
	for _, names := range [][]string{{"full", "delta"}, {"gone", "delta"}, {"new", "delta"}} {
		r, err := record(names...)
		g.Expect(err).NotTo(HaveOccurred(), "%v", names)
		g.Expect(r.Revision).To(Equal(int64(9)), "%v", names)
		g.Expect(r.Created).To(BeTemporally("==", at.Add(time.Minute)))
	}
	r, err := record("full", "renewed")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r).To(Equal(backup.Record{Revision: 7, Created: at}), "a Lease of deltas that etcd-druid has renewed without a new one")
	for accept, want := range map[string]int64{"5": 5, "": 0, "five": 0} {
		s.accept = accept
		for _, names := range [][]string{{"full", "gone"}, {"full", "delta"}} {
			r, err := record(names...)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(r.Accepted).To(Equal(want), "%v: %q", names, accept)
		}
	}
	s.accept = "5"
	r, err = record("gone", "new")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r).To(BeZero())
	r, err = record("full", "odd")
	g.Expect(err).To(MatchError(ContainSubstring("reading lease ns/odd")))
	g.Expect(r).To(BeZero())
	s.broken = true
	r, err = record("full")
	g.Expect(err).To(MatchError(ContainSubstring("reading lease ns/full")))
	g.Expect(r).To(BeZero())
}

// A renewal writes holder and time, and for how long they are valid where that ends; nothing else.
func TestRenewals(t *testing.T) {
	g, at := NewWithT(t), time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	s, config := serving(t, map[string]coordinationv1.LeaseSpec{"main-0": {}, "full": {}})
	lease := func(name string, lifetime time.Duration) Lease {
		l, err := newLease(config, "ns", name, lifetime)
		g.Expect(err).NotTo(HaveOccurred())
		return l
	}
	g.Expect(lease("main-0", time.Minute).Renew(t.Context(), "1:2:Leader", at)).To(Succeed())
	g.Expect(s.patched["main-0 by etcd-agent"]).To(Equal(map[string]any{"spec": map[string]any{"holderIdentity": "1:2:Leader", "renewTime": "2026-07-01T12:00:00.000000Z", "leaseDurationSeconds": 60.0}}))
	g.Expect(lease("full", 0).Renew(t.Context(), "7", at)).To(Succeed())
	g.Expect(s.patched["full by etcd-agent"]).To(Equal(map[string]any{"spec": map[string]any{"holderIdentity": "7", "renewTime": "2026-07-01T12:00:00.000000Z"}}))
	g.Expect(lease("full", 0).Annotate(t.Context(), "a", "b")).To(Succeed())
	g.Expect(s.patched["full by etcd-agent"]).To(Equal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": "b"}}}))
	for holder, want := range map[string]bool{"7": true, "": false} {
		s.leases["full"] = coordinationv1.LeaseSpec{HolderIdentity: &holder}
		l, err := NewSnapshotLease(config, "ns", "full")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(l.Report(t.Context(), map[string]string{"a": "b", "c": ""})).To(Equal(want))
		g.Expect(s.patched["full by etcd-agent"]).To(Equal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": "b", "c": ""}}}))
	}
	l, err := NewSnapshotLease(config, "ns", "gone")
	g.Expect(err).NotTo(HaveOccurred())
	_, err = l.Report(t.Context(), nil)
	g.Expect(err).To(MatchError(ContainSubstring("patching lease gone")))
	g.Expect(lease("gone", 0).Renew(t.Context(), "7", at)).To(MatchError(ContainSubstring("patching lease gone")))
}

// The lease of a member says whether it uses TLS among peers, by the annotation that etcd-druid's has.
func TestMemberLeaseSaysWhetherPeersUseTLS(t *testing.T) {
	for urls, want := range map[string]string{"https://0.0.0.0:2380": "true", "http://0.0.0.0:2380": "false"} {
		g := NewWithT(t)
		s, config := serving(t, map[string]coordinationv1.LeaseSpec{"m-0": {}})
		shared := member.Shared{Config: map[string]any{"listen-peer-urls": urls}}
		l, err := NewMemberLease(config, "ns", "m-0", time.Minute, shared)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(l.Renew(t.Context(), "a:Leader", time.Now())).To(Succeed())
		g.Expect(s.patched["m-0 by etcd-agent"]).To(And(HaveKey("spec"),
			HaveKeyWithValue("metadata", HaveKeyWithValue("annotations", HaveKeyWithValue("member.etcd.gardener.cloud/tls-enabled", want)))))
	}
}

// The lease of a member says with each renewal that its agent reports what it reads of members, and what it has read last, also if the
// API server did not take that at once.
func TestMemberLeaseSaysWhatWasRead(t *testing.T) {
	g := NewWithT(t)
	s, config := serving(t, map[string]coordinationv1.LeaseSpec{"m-0": {}})
	l, err := NewMemberLease(config, "ns", "m-0", time.Minute, member.Shared{Bootstrap: map[string]any{"initial-cluster-token": "uid"}})
	g.Expect(err).NotTo(HaveOccurred())
	renewed := func() any {
		g.Expect(l.Renew(t.Context(), "a:Leader", time.Now())).To(Succeed())
		return s.patched["m-0 by etcd-agent"]["metadata"].(map[string]any)["annotations"].(map[string]any)["druid.gardener.cloud/members-read"]
	}
	g.Expect(renewed()).To(Equal(`{"etcd":"uid","generation":0}`))
	s.broken = true
	g.Expect(l.Annotate(t.Context(), "druid.gardener.cloud/members-read", "more")).NotTo(Succeed())
	s.broken = false
	g.Expect(renewed()).To(Equal("more"))
}
