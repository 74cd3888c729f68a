// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/inplace/revisions"
	"github.com/etcd-foreman/etcd-foreman/internal/observe"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// forwardTimeout is how long the port-forwards to all members may take together.
const forwardTimeout = 10 * time.Second

// observation is what can be observed of a cluster from here.
type observation struct {
	snapshot *cluster.Snapshot
	// unreachable is why no member answered; empty if one did.
	unreachable string
	// pods are those that were observed, whole.
	pods *revisions.Reader
	// surroundings is why nodes and volumes could not be read; empty if they were.
	surroundings string
}

// observeCluster observes a cluster, its members through port-forwards.
func observeCluster(ctx context.Context, cluster *kube.Cluster, clock clock.Clock, etcd *v1alpha1.Etcd) (*observation, error) {
	through, err := openTunnels(ctx, cluster, etcd)
	if err != nil {
		return nil, err
	}
	defer through.close()
	credentials := &certificates.Credentials{Reader: cluster, Clock: clock}
	observer := func(options ...observe.Option) *observe.Observer {
		dialer := etcdclient.NewDialerThrough(through.connect)
		return observe.New(dialer, clock, append(options, observe.FromAfar(), observe.WithCredentials(credentials))...)
	}
	o := &observation{pods: &revisions.Reader{Reader: cluster}}
	o.snapshot, err = observer(observe.WithSurroundings(cluster)).Observe(ctx, o.pods, etcd)
	if apierrors.IsForbidden(err) {
		// Nodes and volumes are cluster-scoped, and the user may not be allowed to read them.
		o.surroundings = kube.Sentence(err)
		o.snapshot, err = observer().Observe(ctx, o.pods, etcd)
	}
	if err != nil {
		return nil, err
	}
	if !o.snapshot.Cluster.Reachable {
		o.unreachable = "no member answers"
		_, untrusted := credentials.TLS(ctx, etcd, "", o.endpoint())
		if err := cmp.Or(through.failure(), untrusted); err != nil {
			o.unreachable = kube.Sentence(err)
		}
	}
	return o, nil
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
	through := newTunnels(cluster.Config, byIP)
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	through.open(ctx, addresses)
	return through, nil
}

// endpoint returns the endpoint of a member; empty if there is none.
func (o *observation) endpoint() string {
	for _, o := range o.snapshot.Ordinals {
		if o.Pod != nil && o.Pod.Endpoint != "" {
			return o.Pod.Endpoint
		}
	}
	return ""
}
