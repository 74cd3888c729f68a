// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// versioned serves one lease, and refuses a patch of another version of it than there is.
type versioned struct {
	lease   coordinationv1.Lease
	version int
	// between runs before a patch is looked at, for as often as it is set. gone: there is no lease.
	between func()
	gone    bool
	patches int
	// lost: the answer to a patch is lost.
	lost bool
}

func serveOne(t *testing.T) (*versioned, *rest.Config) {
	s := &versioned{lease: coordinationv1.Lease{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}}}
	s.lease.Annotations = map[string]string{"other": "stays"}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, &rest.Config{Host: server.URL}
}

// change changes the lease, as another writer does.
func (s *versioned) change(do func(*coordinationv1.Lease)) {
	do(&s.lease)
	s.version++
}

func (s *versioned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fail := func(reason metav1.StatusReason, code int32) {
		w.WriteHeader(int(code))
		_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Reason: reason, Code: code})
	}
	if s.gone {
		fail(metav1.StatusReasonNotFound, http.StatusNotFound)
		return
	}
	if r.Method == http.MethodPatch {
		s.patches++
		if s.between != nil {
			s.between()
		}
		patch := struct {
			Metadata struct {
				ResourceVersion string
				Annotations     map[string]string
			}
			Spec coordinationv1.LeaseSpec
		}{}
		_ = json.NewDecoder(r.Body).Decode(&patch)
		if patch.Metadata.ResourceVersion != strconv.Itoa(s.version) {
			fail(metav1.StatusReasonConflict, http.StatusConflict)
			return
		}
		s.change(func(l *coordinationv1.Lease) {
			maps.Copy(l.Annotations, patch.Metadata.Annotations)
			if patch.Spec.HolderIdentity != nil {
				l.Spec = patch.Spec
			}
		})
		if s.lost {
			fail(metav1.StatusReasonTimeout, http.StatusGatewayTimeout)
			return
		}
	}
	s.lease.ResourceVersion = strconv.Itoa(s.version)
	_ = json.NewEncoder(w).Encode(s.lease)
}

// A snapshot whose record is late does not take the place of one that was taken after it: a compaction records such. One that a clock wrote that
// was ahead does not stay.
func TestALaterSnapshotStaysRecorded(t *testing.T) {
	g, at := NewWithT(t), time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	s, config := serveOne(t)
	l, err := NewSnapshotLease(config, "ns", "full")
	g.Expect(err).NotTo(HaveOccurred())
	compacted := func(lease *coordinationv1.Lease) {
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = ptr.To("90"), ptr.To(metav1.NewMicroTime(at.Add(time.Minute)))
	}
	records := func(revision int64, created, now time.Time) string {
		g.Expect(l.Record(t.Context(), backup.Snapshot{Kind: backup.Full, LastRevision: revision, Created: created}, now)).To(Succeed())
		return *s.lease.Spec.HolderIdentity
	}
	g.Expect(records(7, at, at)).To(Equal("7"))
	g.Expect(s.lease.Spec.RenewTime.Time).To(BeTemporally("==", at))
	s.change(compacted)
	g.Expect(records(7, at, at.Add(time.Hour))).To(Equal("90"))
	g.Expect(records(95, at.Add(2*time.Minute), at.Add(time.Hour))).To(Equal("95"))
	s.change(func(lease *coordinationv1.Lease) { *lease = coordinationv1.Lease{TypeMeta: lease.TypeMeta} })
	s.between = func() { s.between = nil; s.change(compacted) }
	g.Expect(records(7, at, at.Add(time.Hour))).To(Equal("90"), "it was recorded after the lease was read")
	s.change(func(lease *coordinationv1.Lease) { lease.Spec.RenewTime.Time = at.Add(24 * time.Hour) })
	g.Expect(records(7, at, at.Add(time.Hour))).To(Equal("7"))
	s.change(compacted)
	g.Expect(records(91, at, at.Add(time.Hour))).To(Equal("91"), "a leader whose clock was ahead recorded less")
	s.gone = true
	g.Expect(l.Record(t.Context(), backup.Snapshot{Kind: backup.Full, LastRevision: 8, Created: at}, at)).To(MatchError(ContainSubstring("reading lease full")))
}
