// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMemoryOfALostQuorum(t *testing.T) {
	g := NewWithT(t)
	var w statusWriter
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "etcd-main"}}
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	later := noon.Add(time.Minute)
	g.Expect(w.lostFor(etcd, true, noon)).To(BeZero())
	g.Expect(w.lostFor(etcd, false, noon)).To(BeZero())
	g.Expect(w.lostFor(etcd, false, later)).To(Equal(time.Minute))
	g.Expect(w.lostFor(etcd, true, later)).To(BeZero())
	g.Expect(w.lostFor(etcd, false, later)).To(BeZero())
}
