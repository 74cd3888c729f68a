// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/test/certs"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// single is a cluster of one member that serves.
func (c *cluster) single(g Gomega) *cluster {
	c.share(g, 1)
	c.start(g, 0, "new")
	c.awaitVoters(g, 1)
	return c
}

// enableAuth makes users with the role root, and enables auth.
func (c *cluster) enableAuth(g Gomega) {
	c.ask(g, 0, func(ctx context.Context, etcd *clientv3.Client) error {
		_, err := etcd.UserAdd(ctx, "root", "secret")
		g.Expect(err).NotTo(HaveOccurred())
		_, err = etcd.UserGrantRole(ctx, "root", "root")
		g.Expect(err).NotTo(HaveOccurred())
		_, err = etcd.AuthEnable(ctx)
		return err
	})
}

// A source with auth enabled refuses an operator without a certificate, and one whose certificate is not that of a root user. Nothing has
// begun by then.
func TestSourceWithAuth(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	source := newCluster(t, 1).single(g)
	m := declare(source, newCluster(t, 1))
	g.Expect(m.found().Refused).To(BeFalse())
	source.enableAuth(g)
	g.Expect(m.found().Refused).To(BeTrue())
}

// With a certificate of a root user, a source with auth enabled is joined and left, by members of its release or of the next one. Auth stays
// enabled.
func TestMigrationFromASourceWithAuth(t *testing.T) {
	t.Parallel()
	const v35, v36, v37 = "etcd-3.5/etcd", "etcd-3.6/etcd", "etcd"
	for _, release := range []struct{ source, own string }{{v35, v35}, {v35, v36}, {v36, v36}, {v36, v37}, {v37, v37}} {
		t.Run(release.source+" to "+release.own, func(t *testing.T) {
			t.Parallel()
			migrateWithAuth(t, machine.Program(t, release.source), machine.Program(t, release.own))
		})
	}
}

func migrateWithAuth(t *testing.T, theirs, ours string) {
	g := NewWithT(t)
	ca, err := certs.NewCA("both")
	g.Expect(err).NotTo(HaveOccurred())
	source, own := newCluster(t, 1), newCluster(t, 1)
	source.etcd, own.etcd = theirs, ours
	source.secure(g, ca, nil, ca)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}}
	own.secure(g, ca, []string{etcd.MemberHost("main-0")}, ca)
	source.single(g)
	source.put(g, "before")
	g.Expect(declare(source, own).found().Refused).To(BeFalse())
	source.enableAuth(g)
	g.Expect(declare(source, own).found().Refused).To(BeTrue(), "the certificate is not one of a user")

	root := source.clientConfig()
	root.Username, root.Password = "root", "secret"
	user := func(change func(ctx context.Context, etcd *clientv3.Client) error) { source.askAs(g, &root, change) }
	user(func(ctx context.Context, etcd *clientv3.Client) error {
		_, err := etcd.UserAddWithOptions(ctx, "etcd", "", &clientv3.UserAddOptions{NoPassword: true})
		return err
	})
	g.Expect(declare(source, own).found().Refused).To(BeTrue(), "the user has no role")
	user(func(ctx context.Context, etcd *clientv3.Client) error {
		_, err := etcd.UserGrantRole(ctx, "etcd", "root")
		return err
	})
	m := migrateTo(g, source, own)
	m.until(g, func() bool { return m.etcd.Status.BootstrapWithExistingCluster != nil })
	g.Expect(m.list(g)).To(Equal("m0 main-0?"))
	m.etcd.Spec.Etcd.BootstrapWithExistingCluster = nil
	m.until(g, func() bool { return m.ended })
	g.Expect(m.list(g)).To(Equal("main-0"))
	g.Expect(own.get(g, 0)).To(Equal("before"))
	own.ask(g, 0, func(ctx context.Context, etcd *clientv3.Client) error {
		r, err := etcd.AuthStatus(ctx)
		if err == nil {
			g.Expect(r.Enabled).To(BeTrue())
		}
		return err
	})
}

// A source that has run out of space says so, and how large its database is; nothing is said of it any more once it was put in order.
func TestSourceWithoutSpace(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	source := newCluster(t, 1)
	source.options = map[string]any{"quota-backend-bytes": 4 << 20}
	source.single(g)
	m := declare(source, newCluster(t, 1))
	g.Expect(m.found().Alarms).To(BeEmpty())
	value := strings.Repeat("v", 512<<10)
	source.ask(g, 0, func(ctx context.Context, etcd *clientv3.Client) error {
		// etcd looks at the size of the file, which grows with each commit of its backend.
		for i := range 1000 {
			if _, err := etcd.Put(ctx, fmt.Sprint(i), value); err != nil {
				g.Expect(errors.Is(err, rpctypes.ErrNoSpace)).To(BeTrue())
				return nil
			}
		}
		return errors.New("it takes everything")
	})
	found := m.found()
	g.Expect(found.Alarms).To(Equal([]etcdclient.Alarm{{MemberID: found.Members[0].ID, Kind: etcdclient.AlarmNoSpace}}))
	g.Expect(found.DatabaseSize).To(BeNumerically(">", 3<<20))

	source.ask(g, 0, func(ctx context.Context, etcd *clientv3.Client) error {
		r, err := etcd.Delete(ctx, "", clientv3.WithPrefix())
		g.Expect(err).NotTo(HaveOccurred())
		_, err = etcd.Compact(ctx, r.Header.Revision, clientv3.WithCompactPhysical())
		g.Expect(err).NotTo(HaveOccurred())
		_, err = etcd.Defragment(ctx, source.url(0, source.client))
		g.Expect(err).NotTo(HaveOccurred())
		_, err = etcd.AlarmDisarm(ctx, &clientv3.AlarmMember{})
		return err
	})
	found = m.found()
	g.Expect(found.Alarms).To(BeEmpty())
	g.Expect(found.DatabaseSize).To(BeNumerically("<", 1<<20))
}
