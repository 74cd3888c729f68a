// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/auth"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/hotprefix"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/diagnose"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// maxPrefixes and maxPrefix bound what is taken from an answer, which anyone between may have written.
	maxPrefixes = 200
	maxPrefix   = 512
)

// readHotPrefixes asks an agent which prefixes of keys are written most. The agent of a follower asks that of the leader.
func (g *gatherer) readHotPrefixes(ctx context.Context) {
	if g.key == nil || g.members == nil {
		return
	}
	err := kube.Failure("no pod has an agent that answers")
	for _, t := range g.targets {
		pod := g.pods[t.Name]
		base, config, failed := g.agent(ctx, pod)
		if base == "" || failed != nil {
			continue
		}
		c := api.Client{
			BaseURL: base, TLS: config, Timeouts: api.Timeouts{Header: scrapeTimeout},
			Authorize: func(r *http.Request) error { return auth.Sign(g.key, string(g.etcd.UID), r, g.clock.Now()) },
			Dial:      func(ctx context.Context, _, address string) (net.Conn, error) { return g.members.Connect(ctx, address) },
		}
		if err = g.askForPrefixes(ctx, c); err == nil {
			g.in.Counted = &diagnose.Counted{Member: t.Name}
			return
		}
	}
	g.miss(diagnose.SignalPrefixes, err, "a backup store, and agents of this version: they count the events that they collect for deltas")
}

func (g *gatherer) askForPrefixes(ctx context.Context, c api.Client) error {
	withKeys := g.ShowKeys && g.maySeeKeys(ctx)
	report, err := c.HotPrefixes(ctx, withKeys)
	if err != nil {
		return err
	}
	g.tell(report)
	if withKeys && len(report.Keys) == 0 {
		g.miss(diagnose.SignalKeys, kube.Failure("the agent told none"), "agents of this version, and clients that write")
	}
	return nil
}

func bounded(told []hotprefix.Prefix) []diagnose.HotPrefix {
	var all []diagnose.HotPrefix
	for _, p := range told[:min(len(told), maxPrefixes)] {
		all = append(all, diagnose.HotPrefix{Prefix: sanitize.Text(p.Prefix, maxPrefix), Events: max(p.Events, 0), Bytes: max(p.Bytes, 0)})
	}
	return all
}

// showKeys is the verb on etcds of those who may see whole keys.
const showKeys = "show-keys"

// maySeeKeys asks the API server whether the user may see whole keys. Where that is not known, the user may not.
func (g *gatherer) maySeeKeys(ctx context.Context) bool {
	clients, err := kubernetes.NewForConfig(g.cluster.Config)
	if err == nil {
		var review *authorizationv1.SelfSubjectAccessReview
		review, err = clients.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: g.etcd.Namespace, Verb: showKeys, Group: v1alpha1.GroupVersion.Group, Resource: "etcds", Name: g.etcd.Name},
		}}, metav1.CreateOptions{})
		if err == nil && !review.Status.Allowed {
			err = kube.Failure("you may not see the keys of Etcd %s", g.etcd.Name)
		}
	}
	if err != nil {
		g.miss(diagnose.SignalKeys, err, "the verb "+showKeys+" on etcds, as the ClusterRole etcd-foreman-show-keys has it")
	}
	return err == nil
}

// The bounds of a watch: its time, what it receives in bytes, and by how many revisions it may be behind. A watcher that does not keep up
// costs the member more than one that does.
const (
	maxWatch       = 30 * time.Second
	maxWatched     = 50 << 20
	maxWatchBehind = 1000
)

// watchPrefixes counts which prefixes are written most where no agent does, since there is no backup store: by a watch at one of the members
// that serve, if possible not the leader.
func (g *gatherer) watchPrefixes(ctx context.Context) {
	if !g.HotPrefixes || g.etcd.BackupStore() != nil || len(g.targets) == 0 {
		return
	}
	err := kube.Failure("no member serves")
	// One that is cut off would report that nothing is written.
	targets := slices.DeleteFunc(slices.Clone(g.targets), func(t Target) bool { return !g.is(t.Name, func(m diagnose.Member) bool { return m.Serving }) })
	leads := func(t Target) int {
		if g.is(t.Name, func(m diagnose.Member) bool { return m.Leader }) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(targets, func(a, b Target) int { return cmp.Compare(leads(a), leads(b)) })
	withKeys, until := g.ShowKeys && g.maySeeKeys(ctx), g.clock.Now().Add(min(g.Window, maxWatch))
	for _, t := range targets {
		watcher, ok := t.Etcd.(etcdclient.Watcher)
		left := until.Sub(g.clock.Now())
		if !ok || left <= 0 {
			continue
		}
		var report hotprefix.Report
		if report, err = watched(ctx, watcher, left, g.clock, withKeys); err == nil {
			g.tell(report)
			g.in.Counted = &diagnose.Counted{Member: t.Name, Watched: true}
			return
		}
		err = fmt.Errorf("the watch on %s gave nothing: %w", t.Name, err)
	}
	g.miss(diagnose.SignalPrefixes, err, "a client certificate that may read, where etcd has users; or a backup store: then agents count what they collect for deltas")
}

// is reports whether a member is known, and is so.
func (g *gatherer) is(name string, so func(diagnose.Member) bool) bool {
	return slices.ContainsFunc(g.in.Members, func(m diagnose.Member) bool { return m.Name == name && so(m) })
}

// watched counts what is written for a while, within the bounds.
func watched(ctx context.Context, watcher etcdclient.Watcher, window time.Duration, clock clock.PassiveClock, withKeys bool) (hotprefix.Report, error) {
	var recent hotprefix.Recent
	ctx, cancel := context.WithTimeout(ctx, window)
	defer cancel()
	left := int64(maxWatched)
	err := watcher.Watch(ctx, func(c etcdclient.Change) bool {
		recent.Add(c.Key, c.Revision, c.Bytes, clock.Now())
		left -= c.Bytes
		return left > 0 && c.Behind <= maxWatchBehind
	})
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && !errors.Is(err, etcdclient.ErrNotWatched) {
		err = nil
	}
	return recent.Report(clock.Now(), withKeys), err
}

// tell adds what was counted.
func (g *gatherer) tell(report hotprefix.Report) {
	g.in.Events = max(report.Events, 0)
	g.in.HotPrefixes, g.in.HotKeys = bounded(report.Prefixes), bounded(report.Keys)
}

// readKey reads the operator's key if hot prefixes were asked for, and agents count them. It also makes the token of the agents' metrics.
func (g *gatherer) readKey(ctx context.Context) {
	if !g.HotPrefixes || g.etcd.BackupStore() == nil {
		return
	}
	key, err := g.signingKey(ctx)
	if err != nil {
		g.miss(diagnose.SignalPrefixes, err, "the right to get Secret "+auth.KeySecret+" in namespace "+kube.OperatorNamespace+", whose holder can ask the agents for anything that the operator can")
		return
	}
	g.key = key
	g.AgentToken = cmp.Or(g.AgentToken, auth.MetricsToken(key, string(g.etcd.UID)))
}

// signingKey reads the operator's key.
func (g *gatherer) signingKey(ctx context.Context) (ed25519.PrivateKey, error) {
	secret := &corev1.Secret{}
	if err := g.cluster.Get(ctx, client.ObjectKey{Namespace: kube.OperatorNamespace, Name: auth.KeySecret}, secret); err != nil {
		return nil, fmt.Errorf("reading the operator's signing key: %w", err)
	}
	seed := secret.Data[auth.KeySeed]
	if len(seed) != ed25519.SeedSize {
		return nil, kube.Failure("Secret %s/%s has no key", kube.OperatorNamespace, auth.KeySecret)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}
