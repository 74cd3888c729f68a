// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package observe is the only reader of a cluster's state. It queries the API server and etcd, and makes a cluster.Snapshot from their
// answers.
package observe

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrNoStatefulSet says that an Etcd has no StatefulSet of its own.
var ErrNoStatefulSet = errors.New("the Etcd has no StatefulSet")

// ErrTooManyReplicas says that a StatefulSet has more than MaxReplicas.
var ErrTooManyReplicas = errors.New("the StatefulSet has too many replicas")

// askTimeout bounds the answer of one member. A slower member counts as down.
const askTimeout = 2 * time.Second

// askUnreadyTimeout bounds the answer of a member whose probe fails, as long as another one knows a leader. It most likely hangs, and a
// rollout would wait for it each time; one that serves although its probe fails mostly answers in milliseconds.
const askUnreadyTimeout = 300 * time.Millisecond

// observeTimeout bounds all queries for one Snapshot. It leaves time to act on the Snapshot before another operator may have taken over.
const observeTimeout = 3 * time.Second

// MaxReplicas is how many replicas a StatefulSet may have to be observed. A user who may scale it can choose any number.
const MaxReplicas = etcdclient.MaxMembers

// clientPortName is the name of the container port of etcd's client port.
const clientPortName = "client"

// Interface takes Snapshots. Tests replace the Observer by other implementations.
type Interface interface {
	// Observe takes a Snapshot of an Etcd from what a reader has and what its members answer.
	Observe(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd) (*cluster.Snapshot, error)
}

// Confirming is an Interface that also confirms Snapshots.
type Confirming interface {
	Interface
	// Confirm turns a Snapshot that rests on a cache into one that rests on the API server.
	Confirm(ctx context.Context, live client.Reader, etcd *v1alpha1.Etcd, s *cluster.Snapshot) (*cluster.Snapshot, error)
	// Reads adds to a Snapshot what agents have read about the members that come and go.
	Reads(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd, s *cluster.Snapshot) error
}

// Observer takes Snapshots.
type Observer struct {
	dialer      etcdclient.Dialer
	credentials *certificates.Credentials
	clock       clock.PassiveClock
	renewals    renewals
	// surroundings is nil if nodes and volumes are not read.
	surroundings client.Reader
	// afar: see FromAfar.
	afar bool
	rule replacer.Rule
}

// Option changes an Observer.
type Option func(*Observer)

// WithSurroundings makes an Observer read nodes, claims and volumes too. Volumes, and the nodes of ready pods, are read through a cache:
// they change slowly, and reading them from the API server for each decision would cost more requests than everything else.
func WithSurroundings(cache client.Reader) Option {
	return func(o *Observer) { o.surroundings = cache }
}

// WithCredentials makes an Observer reach members that listen for clients with TLS.
func WithCredentials(credentials *certificates.Credentials) Option {
	return func(o *Observer) { o.credentials = credentials }
}

// WithRule sets the Rule by which a Snapshot reports whether the operator may replace the pods of a StatefulSet. The default is
// replacer.Operator.
func WithRule(rule replacer.Rule) Option {
	return func(o *Observer) { o.rule = rule }
}

// FromAfar is for a user who observes once, from elsewhere: members that are not ready get as much time as the others, and the times in
// leases are believed, since there is no time to see a renewal.
func FromAfar() Option {
	return func(o *Observer) { o.afar, o.renewals.asWritten = true, true }
}

// New makes an Observer.
func New(dialer etcdclient.Dialer, clock clock.PassiveClock, options ...Option) *Observer {
	o := &Observer{dialer: dialer, clock: clock, rule: replacer.Operator{}}
	for _, option := range options {
		option(o)
	}
	return o
}

// Observe takes a Snapshot of an Etcd. The reader is the API server or a cache, whose objects are neither copied nor modified; the members
// are always queried. It returns ErrNoStatefulSet if there is none.
func (o *Observer) Observe(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd) (*cluster.Snapshot, error) {
	f, err := o.read(ctx, reader, etcd)
	if err != nil {
		return nil, err
	}
	return o.askAndBuild(ctx, reader, etcd, f)
}

// Confirm turns a Snapshot that was just taken from a cache into one that rests on the API server. If the API server has the same objects,
// the members' answers stand, and the Snapshot itself is returned. Otherwise, and if no member answered, it calls Observe.
func (o *Observer) Confirm(ctx context.Context, live client.Reader, etcd *v1alpha1.Etcd, s *cluster.Snapshot) (*cluster.Snapshot, error) {
	f, err := o.read(ctx, live, etcd)
	if err != nil {
		return nil, err
	}
	if s.Cluster.Reachable && f.confirm(s) {
		return s, nil
	}
	return o.askAndBuild(ctx, live, etcd, f)
}

// read reads the input of a Snapshot without the answers of the members.
func (o *Observer) read(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd) (input, error) {
	statefulSet, pods := &appsv1.StatefulSet{}, &corev1.PodList{}
	key := client.ObjectKeyFromObject(etcd)
	var setErr, podsErr error
	var both sync.WaitGroup
	both.Go(func() { setErr = reader.Get(ctx, key, statefulSet, client.UnsafeDisableDeepCopy) })
	both.Go(func() {
		podsErr = reader.List(ctx, pods, client.InNamespace(etcd.Namespace), client.MatchingLabels{v1alpha1.LabelPartOf: etcd.Name}, client.UnsafeDisableDeepCopy)
	})
	both.Wait()
	switch {
	case apierrors.IsNotFound(setErr):
		return input{}, fmt.Errorf("reading StatefulSet %s: %w", key, ErrNoStatefulSet)
	case setErr != nil:
		return input{}, fmt.Errorf("reading StatefulSet %s: %w", key, setErr)
	case podsErr != nil:
		return input{}, fmt.Errorf("listing the pods of StatefulSet %s: %w", key, podsErr)
	case !metav1.IsControlledBy(statefulSet, etcd):
		return input{}, fmt.Errorf("reading StatefulSet %s: %w%s", key, ErrNoStatefulSet, whose(etcd, statefulSet))
	}
	if n := ptr.Deref(statefulSet.Spec.Replicas, 1); n > MaxReplicas {
		return input{}, fmt.Errorf("reading StatefulSet %s: it has %d replicas, more than %d: %w", key, n, MaxReplicas, ErrTooManyReplicas)
	}
	f := input{at: o.clock.Now(), statefulSet: describeStatefulSet(statefulSet), lineage: lineageOf(etcd), lastVoters: int(etcd.Status.Voters)}
	f.statefulSet.Objection = o.rule.Objection(etcd, statefulSet)
	if foreign := o.rule.Foreign(etcd, "StatefulSet", statefulSet); foreign != nil {
		f.statefulSet.Foreign = foreign.String()
	}
	f.ordinals, f.surplus = ordinals(etcd, statefulSet, pods.Items)
	sourceLeaves := etcd.Source() != nil && !etcd.SourceStays()
	f.changing = len(f.ordinals) > 0 && etcd.Spec.Replicas > 0 && (len(f.ordinals) != int(etcd.Spec.Replicas) || sourceLeaves)
	return f, o.readSurroundings(ctx, reader, key, statefulSet.Spec.Template.Spec, f.ordinals)
}

// whose says whose a StatefulSet is that an Etcd does not control.
func whose(etcd *v1alpha1.Etcd, statefulSet *appsv1.StatefulSet) string {
	if foreign := ownership.Of(etcd, "StatefulSet", statefulSet); foreign != nil {
		return fmt.Sprintf(" of its own: %s", foreign)
	}
	return " that it controls"
}

// IsForeign reports whether the StatefulSet of an Etcd is not that of an operator that manages Etcds, as before an adoption from etcd-druid
// and once that is back: etcd-druid then does all else itself. The cache may lag: tasks are rejected by a live read.
func IsForeign(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd) (bool, error) {
	set, err := lookup.Get[appsv1.StatefulSet](ctx, reader, "StatefulSet", client.ObjectKeyFromObject(etcd), client.UnsafeDisableDeepCopy)
	return set != nil && replacer.Operator{}.Foreign(etcd, "StatefulSet", set) != nil, err
}

func (o *Observer) askAndBuild(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd, f input) (*cluster.Snapshot, error) {
	if err := o.ask(ctx, etcd, &f); err != nil {
		return nil, err
	}
	if len(f.answers) == 0 {
		// Only then do leases matter.
		if err := o.readLeases(ctx, reader, etcd, f.ordinals); err != nil {
			return nil, err
		}
	}
	return build(f), nil
}

// ordinals assigns the pods of a StatefulSet to its ordinals. Other pods with the labels of an Etcd, such as those of a backup Job, are not
// controlled by the StatefulSet.
func ordinals(etcd *v1alpha1.Etcd, statefulSet *appsv1.StatefulSet, pods []corev1.Pod) ([]cluster.Ordinal, []string) {
	replicas := int(ptr.Deref(statefulSet.Spec.Replicas, 1))
	result := make([]cluster.Ordinal, replicas)
	for i := range result {
		pod := fmt.Sprintf("%s-%d", statefulSet.Name, i)
		result[i] = cluster.Ordinal{Name: pod, Member: etcd.MemberName(pod), Class: v1alpha1.ClassMissing, Role: v1alpha1.RoleUnknown, LeaseRole: v1alpha1.RoleUnknown}
	}
	var surplus []string
	for i := range pods {
		pod := &pods[i]
		if !metav1.IsControlledBy(pod, statefulSet) {
			continue
		}
		n, err := strconv.Atoi(strings.TrimPrefix(pod.Name, statefulSet.Name+"-"))
		if err != nil || n < 0 || n >= replicas {
			surplus = append(surplus, pod.Name)
			continue
		}
		class, trouble := classify(pod)
		result[n].Class = class
		result[n].Pod = describePod(pod, trouble)
		result[n].Pod.AgentOutdated = agentImage(pod.Spec) != agentImage(statefulSet.Spec.Template.Spec)
	}
	return result, surplus
}
