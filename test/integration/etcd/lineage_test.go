// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// shared returns what the members read.
func (w *world) shared(g Gomega) member.Shared {
	config := &corev1.ConfigMap{}
	w.Get(g, name+"-config", config)
	shared, err := member.ParseShared(config.Data)
	g.Expect(err).NotTo(HaveOccurred())
	return shared
}

// The only member is restored twice, as its configuration says: the operator records each ID, and tells the member.
func TestOnlyMemberThatIsRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.start()
	w.eventuallyWell()
	for range 2 {
		id := w.shared(w).SuccessorIDs()[0]
		w.Members.Rebuild(id)
		w.Change(annotate("test/look", id)) // which a healthy cluster is otherwise due for after half a minute
		w.Eventually(func(g Gomega) { g.Expect(w.Status(g).ClusterID).To(Equal(id)) }).Should(Succeed())
		w.eventuallyWell()
		w.Expect(w.Status(w).LastErrors).To(BeEmpty())
	}
}

// A cluster serves that is not the recorded one, and does not follow from it. It is reported, nothing is applied, and a further
// member is not added, until a user says which cluster it is.
func TestMembersThatServeAsAnotherCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	o := w.start()
	w.eventuallyWell()
	w.writesNothing(o) // what follows the status is written too
	recorded, before := w.Status(w).ClusterID, w.versions(w)
	w.Members.Rebuild("dead")
	w.Change(annotate("test/look", "dead"))
	w.Eventually(func(g Gomega) {
		all := w.Status(g).LastErrors
		g.Expect(all).To(HaveLen(1))
		g.Expect(all[0].Code).To(Equal(v1alpha1.ErrClusterID))
		g.Expect(all[0].Description).To(ContainSubstring("as cluster dead, but cluster %s is recorded", recorded))
	}).Should(Succeed())
	w.Change(func(e *v1alpha1.Etcd) {
		e.Spec.Replicas = 3
		e.Spec.Annotations = map[string]string{"changed": "yes"}
	})
	w.nudge(o)
	w.nudge(o)
	w.Expect(w.Status(w).ClusterID).To(Equal(recorded))
	w.Expect(w.versions(w)).To(Equal(before))

	// The command in the message.
	w.Expect(testEnv.Client.Status().Patch(t.Context(), w.Etcd, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"clusterID":"dead"}}`)))).To(Succeed())
	w.Eventually(func(g Gomega) {
		status := w.Status(g)
		g.Expect(status.LastErrors).To(BeEmpty())
		g.Expect(status.ClusterID).To(Equal("dead"))
		g.Expect(w.shared(g).ClusterID).To(Equal("dead"))
		g.Expect(w.versions(g)).NotTo(Equal(before), "the spec is applied")
	}).Should(Succeed())
}
