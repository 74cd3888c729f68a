//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// The releases of etcd on the local Kubernetes.
var releases = []string{"3.5.35", "3.6.16", "3.7.3"}

// A cluster goes from 3.5 to 3.6 to 3.7 under load, each time with a full snapshot first, and nothing is lost. Skipping a
// minor version is blocked with a sentence, and costs no pod.
func TestMinorVersions(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t)
	c.store("backups")
	c.begin(3, withStore(time.Minute), func(_ *cluster, e *v1alpha1.Etcd) { e.Spec.Etcd.Image = etcdImage(releases[0]) })
	c.untilVersion(releases[0])
	c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)

	c.patch(func(e *v1alpha1.Etcd) { e.Spec.Etcd.Image = etcdImage(releases[2]) })
	skip := c.until("held", func(t v1alpha1.EtcdOperatorTask) bool {
		r := t.Status.Rollout
		return r != nil && r.HeldBy != nil && r.HeldBy.Guard == v1alpha1.GuardVersionsCompatible
	})
	c.Expect(skip.Status.Rollout.HeldBy.Message).To(ContainSubstring("one minor version at a time"))
	c.Expect(skip.Status.Rollout.Pods).To(BeEmpty())

	for _, release := range releases[1:] {
		c.patch(func(e *v1alpha1.Etcd) { e.Spec.Etcd.Image = etcdImage(release) })
		done := c.untilUpdated()
		c.Expect(replaced(done)).To(HaveLen(3))
		c.Expect(done.Status.Rollout.Snapshot).NotTo(BeNil(), "a full snapshot comes first")
		c.Expect(done.Status.Rollout.Snapshot.Name).NotTo(BeEmpty())
		c.ready()
		c.untilVersion(release)
		// etcd 3.7 does not start if the log still has entries of 3.5 (docs/rollout.md, Known limits).
		c.putMany(12_000)
	}
	c.neverTookTheQuorum()
	c.writesSurvive()
}

func etcdImage(release string) *string { return ptr.To("localhost/etcd:v" + release) }

// untilUpdated waits for the success of the rollout to the newest template. The one before it may be of the same second.
func (c *cluster) untilUpdated() (done v1alpha1.EtcdOperatorTask) {
	c.t.Helper()
	c.Eventually(func(g Gomega) {
		g.Expect(c.etcd(g).Status.ObservedGeneration).To(Equal(c.etcd(g).Generation))
		all, target := c.rollouts(g), c.statefulSet(g).Status.UpdateRevision
		i := slices.IndexFunc(all, func(t v1alpha1.EtcdOperatorTask) bool {
			return t.Status.State == v1alpha1.TaskStateSucceeded && t.Status.Rollout.TargetRevision == target
		})
		g.Expect(i).To(BeNumerically(">=", 0), "no rollout to %s has succeeded: %+v", target, all[len(all)-1].Status)
		done = all[i]
	}).Should(Succeed())
	return done
}

// untilVersion waits until every member runs that release, and the cluster's version is its minor version.
func (c *cluster) untilVersion(release string) {
	c.t.Helper()
	c.Eventually(func(g Gomega) {
		for i := range 3 {
			status := c.status(g, i)
			g.Expect(status.Version).To(Equal(release))
			if status.StorageVersion != "" {
				g.Expect(status.StorageVersion).To(HavePrefix(release[:strings.LastIndex(release, ".")]))
			}
		}
	}).Should(Succeed())
}

// putMany writes n entries through member 0.
func (c *cluster) putMany(n int) {
	c.t.Helper()
	const writers = 50
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	etcd := c.etcdClient()
	failed := make(chan error, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range n / writers {
				if _, err := etcd.Put(ctx, fmt.Sprintf("many/%d/%d", w, i), "x"); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(failed)
	c.Expect(<-failed).NotTo(HaveOccurred())
}
