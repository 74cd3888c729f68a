// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package portforward asks the members of an Etcd through port-forwards, from wherever the API server is reachable.
package portforward

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // deprecated, and what package portforward takes
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// forwardTimeout is how long the port-forwards to all members may take together.
	forwardTimeout = 10 * time.Second
	// askTimeout is how long members may take to report their databases, and a cluster its alarms.
	askTimeout = 2 * time.Second
)

// Members are the members of an Etcd.
type Members struct {
	cluster     *kube.Cluster
	clock       clock.Clock
	etcd        *v1alpha1.Etcd
	through     *tunnels
	credentials *certificates.Credentials
}

// Open opens a port-forward to each running member. It fails only if the pods cannot be listed.
func Open(ctx context.Context, cluster *kube.Cluster, clock clock.Clock, etcd *v1alpha1.Etcd) (*Members, error) {
	through, err := openTunnels(ctx, cluster, etcd)
	if err != nil {
		return nil, err
	}
	return &Members{cluster, clock, etcd, through, &certificates.Credentials{Reader: cluster, Clock: clock}}, nil
}

// Close ends the port-forwards.
func (m *Members) Close() { m.through.close() }

func (m *Members) dialer() etcdclient.Dialer { return etcdclient.NewDialerThrough(m.through.connect) }

// Observe takes a snapshot of the cluster. If the user may not read nodes and volumes, which are cluster-scoped, it observes without
// them and returns the reason in unread.
func (m *Members) Observe(ctx context.Context, reader client.Reader) (s *cluster.Snapshot, unread string, err error) {
	observeWith := func(options ...observe.Option) (*cluster.Snapshot, error) {
		options = append(options, observe.FromAfar(), observe.WithRule(m.cluster.Rule), observe.WithCredentials(m.credentials))
		return observe.New(m.dialer(), m.clock, options...).Observe(ctx, reader, m.etcd)
	}
	s, err = observeWith(observe.WithSurroundings(m.cluster))
	if apierrors.IsForbidden(err) {
		unread = kube.Sentence(err)
		s, err = observeWith()
	}
	return s, unread, err
}

// Failure returns why no port-forward could be opened; nil if one was.
func (m *Members) Failure() error { return m.through.failure() }

// Unreachable returns why no member has answered for a snapshot; empty if one has.
func (m *Members) Unreachable(ctx context.Context, s *cluster.Snapshot) string {
	if s.Cluster.Reachable {
		return ""
	}
	_, untrusted := m.credentials.TLS(ctx, m.etcd, "", endpoint(s))
	if err := cmp.Or(m.through.failure(), untrusted); err != nil {
		return kube.Sentence(err)
	}
	return "no member answers"
}

// Databases returns the databases of the members, by the names of their pods. Members that do not answer are left out.
func (m *Members) Databases(ctx context.Context, s *cluster.Snapshot) map[string]etcdclient.Database {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	databases := map[string]etcdclient.Database{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, o := range s.Ordinals {
		if !o.Answers {
			continue
		}
		all.Go(func() {
			var d etcdclient.Database
			err := m.with(ctx, o, func(c etcdclient.Client) (err error) { d, err = c.Database(ctx); return err })
			if err == nil {
				mu.Lock()
				databases[o.Name] = d
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return databases
}

// Alarms asks a member that serves for the alarms of the cluster.
func (m *Members) Alarms(ctx context.Context, s *cluster.Snapshot) ([]etcdclient.Alarm, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for _, o := range s.Ordinals {
		if !o.Serving {
			continue
		}
		var alarms []etcdclient.Alarm
		err := m.with(ctx, o, func(c etcdclient.Client) (err error) { alarms, err = c.Alarms(ctx); return err })
		return alarms, err
	}
	return nil, kube.Failure("no member serves")
}

// Lost returns why requests to an address did not reach it: a port-forward has ended that had worked, and may have been opened again, or
// there is none; nil if neither is so.
func (m *Members) Lost(address string) error {
	return cmp.Or(m.through.whyLost(address), m.through.whyNone(address))
}

// Connect connects to a port of a member, by the address of its pod.
func (m *Members) Connect(ctx context.Context, address string) (net.Conn, error) {
	return m.through.connect(ctx, address)
}

// Dial makes a client for a member, which has an endpoint.
func (m *Members) Dial(ctx context.Context, o cluster.Ordinal) (etcdclient.Client, error) {
	return m.credentials.Dial(ctx, m.dialer(), m.etcd, o.Name, o.Pod.Endpoint)
}

// TLS returns the configuration for connections to a member, which has an endpoint; nil without TLS.
func (m *Members) TLS(ctx context.Context, o cluster.Ordinal) (*tls.Config, error) {
	return m.credentials.TLS(ctx, m.etcd, o.Name, o.Pod.Endpoint)
}

// with calls a function with a client for a member.
func (m *Members) with(ctx context.Context, o cluster.Ordinal, ask func(etcdclient.Client) error) error {
	c, err := m.Dial(ctx, o)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return ask(c)
}

// openTunnels opens a port-forward to each running member.
func openTunnels(ctx context.Context, cluster *kube.Cluster, etcd *v1alpha1.Etcd) (*tunnels, error) {
	pods := &corev1.PodList{}
	if err := cluster.List(ctx, pods, client.InNamespace(etcd.Namespace), client.MatchingLabels{v1alpha1.LabelPartOf: etcd.Name}); err != nil {
		return nil, fmt.Errorf("listing the pods of Etcd %s: %w", etcd.Name, err)
	}
	byIP := map[string]client.ObjectKey{}
	var addresses []string
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.PodIP != "" && pod.Status.Phase == corev1.PodRunning {
			byIP[pod.Status.PodIP] = client.ObjectKeyFromObject(pod)
			addresses = append(addresses, observe.ClientAddress(pod))
		}
	}
	through := newTunnels(func(pod client.ObjectKey) (httpstream.Dialer, error) { return dialerTo(cluster.Config, pod) }, byIP)
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	through.open(ctx, addresses)
	return through, nil
}

// endpoint returns the endpoint of a member; empty if there is none.
func endpoint(s *cluster.Snapshot) string {
	for _, o := range s.Ordinals {
		if o.Pod != nil && o.Pod.Endpoint != "" {
			return o.Pod.Endpoint
		}
	}
	return ""
}
