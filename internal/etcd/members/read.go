// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/base/servertime"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/memberconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/volumes"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// listTimeout bounds the request for the member list.
const listTimeout = 2 * time.Second

// Reader reads what is known about members.
type Reader struct {
	Observer    observe.Confirming
	Dialer      etcdclient.Dialer
	Credentials *certificates.Credentials
	Clock       clock.PassiveClock
	// Client asks the API server for the time.
	Client client.Client
}

// Read reads what is known about the members of an Etcd besides a Snapshot, which it completes. The reader is the API server or a cache.
func (r Reader) Read(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd, s *cluster.Snapshot) (Known, error) {
	k := Known{Etcd: etcd, Snapshot: s, Claims: map[int]*corev1.PersistentVolumeClaim{}}
	if err := r.Observer.Reads(ctx, reader, etcd, s); err != nil {
		return Known{}, err
	}
	k.List = r.List(ctx, etcd, s)
	if err := k.readClaims(ctx, reader); err != nil {
		return Known{}, err
	}
	set, err := state.StatefulSet(ctx, reader, etcd)
	if err != nil || set == nil {
		return k, err
	}
	k.Class, k.Capacity = volumes.TemplateClass(set), volumes.TemplateCapacity(set)
	data, err := readConfigMap(ctx, reader, etcd, set)
	if err != nil {
		return Known{}, err
	}
	if data != nil {
		k.readConfig(data)
	}
	k.BackedUp, err = r.backedUp(ctx, reader, etcd)
	return k, err
}

// readConfigMap returns the data of the Etcd's own ConfigMap; nil if there is none.
func readConfigMap(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) (map[string]string, error) {
	config, err := memberconfig.ConfigMap(ctx, reader, etcd, ownership.Manager(etcd, set))
	if err != nil || config == nil || ownership.Of(etcd, "ConfigMap", config) != nil {
		return nil, err
	}
	return config.Data, nil
}

// readConfig takes from the ConfigMap of the members what they were told. What cannot be read was not.
func (k *Known) readConfig(data map[string]string) {
	k.readTold(data)
	shared, err := member.ParseShared(data)
	if err != nil {
		return
	}
	for entry := range strings.SplitSeq(shared.InitialCluster(), ",") {
		name, _, _ := strings.Cut(entry, "=")
		k.Initial = append(k.Initial, name)
	}
}

func (k *Known) readTold(data map[string]string) {
	told, err := member.ParseMembers(data[member.KeyMembers])
	switch {
	case err != nil || told == nil || told.Etcd != string(k.Etcd.UID):
	case told.ClusterID != k.Etcd.Status.ClusterID, k.Etcd.Status.Recovery.LeavesBehind(told.ClusterID):
		k.Told.Generation = told.Generation
	default:
		k.Told, k.Announced = *told, true
	}
}

func (k *Known) readClaims(ctx context.Context, reader client.Reader) error {
	n := max(int32(k.ordinalsOfClaims()), k.Etcd.Status.ClusterSize)
	claims, err := state.Claims(ctx, reader, k.Etcd, n)
	if err != nil {
		return err
	}
	for i := range claims {
		for ordinal := range n {
			if claims[i].Name == k.Etcd.ClaimName(ordinal) {
				k.Claims[int(ordinal)] = &claims[i]
			}
		}
	}
	return nil
}

// maxClaims is how many ordinals are searched for claims that a larger cluster has left behind.
const maxClaims = 7

// LeftBehind reports whether something is there that only another task takes away. A claim was made for a further member, beyond the members of
// an Etcd: the task that would have deleted it was deleted, with an earlier Etcd, or by a user. One on which a task of the Etcd keeps data does
// not count. Or a member that stays was told that it leaves: its task was superseded before that member had left, or deleted.
func LeftBehind(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd, tasks []v1alpha1.EtcdOperatorTask) (bool, error) {
	claims, err := state.Claims(ctx, reader, etcd, maxClaims)
	if err != nil {
		return false, err
	}
	for i := etcd.Spec.Replicas; i < maxClaims; i++ {
		for j := range claims {
			if c := &claims[j]; c.Name == etcd.ClaimName(i) && c.DeletionTimestamp == nil && isTemporary(etcd, c) && etcdtasks.KeeperOf(tasks, c) == "" {
				return true, nil
			}
		}
	}
	return staysAlthoughTold(ctx, reader, etcd)
}

// staysAlthoughTold reports whether a member was told that it leaves, and the spec asks for it.
func staysAlthoughTold(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd) (bool, error) {
	set, err := state.StatefulSet(ctx, reader, etcd)
	if err != nil || set == nil {
		return false, err
	}
	data, err := readConfigMap(ctx, reader, etcd, set)
	if err != nil {
		return false, err
	}
	k := Known{Etcd: etcd}
	k.readTold(data)
	return slices.ContainsFunc(k.Told.Leaving, func(name string) bool {
		i := OrdinalOfName(etcd, name)
		return i >= 0 && i < int(etcd.Spec.Replicas)
	}), nil
}

// isTemporary reports whether a claim of an Etcd was made for a further member. A mark on a copy of that claim does not count.
func isTemporary(etcd *v1alpha1.Etcd, c *corev1.PersistentVolumeClaim) bool {
	return c.UID != "" && c.Annotations[v1alpha1.AnnotationTemporary] == string(c.UID) && ownership.OfClaim(etcd, c) == nil
}

// Joining returns a sentence if members change the list themselves, by what a Snapshot and the ConfigMap say; empty otherwise. The latter is
// only read if it decides.
func Joining(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd, set *appsv1.StatefulSet, s *cluster.Snapshot) (string, error) {
	k := Known{Etcd: etcd, Snapshot: s}
	if set == nil || s == nil || k.joining() == "" {
		return "", nil
	}
	data, err := readConfigMap(ctx, reader, etcd, set)
	if err != nil {
		return "", err
	}
	k.readTold(data)
	return k.joining(), nil
}

func (k *Known) ordinalsOfClaims() int {
	n := max(maxClaims, k.Snapshot.Replicas())
	for _, m := range k.List {
		n = max(n, Ordinal(k.Etcd, m)+1)
	}
	return n
}

// List returns the member list by a linearizable read from the leader, or else from any serving voter; nil if no member returns one, or the Snapshot
// has none: that knows neither what a rollout may remove nor whether foreign voters serve.
func (r Reader) List(ctx context.Context, etcd *v1alpha1.Etcd, s *cluster.Snapshot) (list []etcdclient.Member) {
	if len(s.Cluster.Voters) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	err := r.Ask(ctx, etcd, s, func(c etcdclient.Client) (err error) { list, err = c.ConfirmedMembers(ctx); return err })
	if err != nil {
		return nil
	}
	return list
}

// Ask sends a request to the leader, or else to a serving voter. If a member refuses because it considers others disconnected, the next one
// is tried: a leader may consider a member that has come back disconnected until one of their connections breaks.
func (r Reader) Ask(ctx context.Context, etcd *v1alpha1.Etcd, s *cluster.Snapshot, do func(etcdclient.Client) error) error {
	err := errors.New("no voter serves")
	for _, speaks := range spokesmen(etcd, s) {
		if err = r.ask(ctx, etcd, speaks, do); !etcdclient.IsUnhealthy(err) {
			return err
		}
	}
	return err
}

func (r Reader) ask(ctx context.Context, etcd *v1alpha1.Etcd, speaks spokesman, do func(etcdclient.Client) error) error {
	c, err := r.Credentials.Dial(ctx, r.Dialer, etcd, speaks.Pod, speaks.Endpoint)
	if err != nil {
		return fmt.Errorf("connecting to %s: %w", cmp.Or(speaks.Pod, speaks.Endpoint), err)
	}
	// Nothing depends on how the connection ends.
	defer func() { _ = c.Close() }()
	return do(c)
}

// spokesman is a member that gets requests to read and change the member list.
type spokesman struct {
	// Pod of the member; empty if it is one of the source cluster.
	Pod string
	// Endpoint of its client port.
	Endpoint string
}

// spokesmen returns the serving voters in the order in which they are tried: the leader, wherever it is, since some releases of etcd only
// promote there; then those of the Etcd; then those of the source cluster.
func spokesmen(etcd *v1alpha1.Etcd, s *cluster.Snapshot) []spokesman {
	var leader, own, source []spokesman
	for i := range s.Ordinals {
		o := &s.Ordinals[i]
		switch {
		case !o.Serves() || o.Role == v1alpha1.RoleLearner || o.Pod == nil || o.Pod.Endpoint == "":
		case o.Role == v1alpha1.RoleLeader:
			leader = append(leader, spokesman{o.Name, o.Pod.Endpoint})
		default:
			own = append(own, spokesman{o.Name, o.Pod.Endpoint})
		}
	}
	for _, v := range s.Cluster.Voters {
		switch {
		case v.Ordinal >= 0 || !v.Serving || !mayBeAsked(etcd, s, etcdclient.Member{ID: v.ID, Name: v.Name, PeerURLs: v.PeerURLs}):
		case v.ID == s.Cluster.Leader:
			leader = append(leader, spokesman{Endpoint: v.Endpoint})
		default:
			source = append(source, spokesman{Endpoint: v.Endpoint})
		}
	}
	return slices.Concat(leader, own, source)
}

// backupAge is the maximum age, in addition to twice the delta period, of the newest report that the store has everything. A report may be
// that far ahead of the operator's clock, since the next one shows whether snapshots are taken. A report that is further ahead would look
// new for too long.
const backupAge = 30 * time.Second

// defaultPeriod is the period for an Etcd that takes no deltas.
const defaultPeriod = time.Hour

// backedUp reports whether the store has everything except for the last minutes. It also holds without a store, since nothing can be backed
// up then.
func (r Reader) backedUp(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd) (bool, error) {
	if !etcd.HasBackupStore() {
		return true, nil
	}
	leases, err := observe.ReadSnapshotLeases(ctx, reader, etcd)
	if err != nil {
		return false, err
	}
	if leases.Full == nil || leases.Full.Spec.RenewTime == nil || leases.Full.Annotations[v1alpha1.AnnotationBackupError] != "" {
		return false, nil
	}
	period := component.DeltaSnapshotPeriod(etcd)
	if period <= 0 {
		period = defaultPeriod
	}
	newest := leases.Full.Spec.RenewTime.Time
	if leases.Delta != nil && ptr.Deref(leases.Delta.Spec.RenewTime, *leases.Full.Spec.RenewTime).After(newest) {
		newest = leases.Delta.Spec.RenewTime.Time
	}
	if current, err := time.Parse(time.RFC3339, leases.Full.Annotations[v1alpha1.AnnotationBackupsCurrent]); err == nil && current.After(newest) {
		newest = current
	}
	recent := func(now time.Time) bool {
		age := now.Sub(newest)
		return age >= -backupAge && age <= 2*period+backupAge
	}
	if recent(r.Clock.Now()) {
		return true, nil
	}
	// The clock of the operator or of the agent may be wrong.
	now, err := servertime.Now(ctx, r.Client)
	return err == nil && recent(now), err
}

func hostOf(peer string) string {
	u, err := url.Parse(peer)
	if err != nil {
		return ""
	}
	return u.Hostname()
}
