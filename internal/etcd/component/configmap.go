// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	"github.com/etcd-foreman/etcd-foreman/internal/job/survey"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// ConfigMap builds the configuration that the members share. The cluster ID is another key, which is not applied here: it is
// recorded once known, even while other changes are suspended.
func ConfigMap(in Input) (*corev1ac.ConfigMapApplyConfiguration, error) {
	config, err := sharedConfig(in)
	if err != nil {
		return nil, err
	}
	bootstrap, err := Bootstrap(in.Etcd, in.Replicas, in.PeerTLS)
	if err != nil {
		return nil, err
	}
	accept, err := acceptance(in.Etcd)
	if err != nil {
		return nil, err
	}
	name := in.Etcd.ConfigMapName(in.Manager)
	object := corev1ac.ConfigMap(name, in.Etcd.Namespace).
		WithLabels(in.labels(v1alpha1.ComponentConfigMap, name)).
		WithOwnerReferences(owner(in.Etcd)).
		WithData(map[string]string{member.KeyConfig: config, member.KeyBootstrap: bootstrap})
	if accept != "" {
		object.WithData(map[string]string{member.KeyAccept: accept})
	}
	if urls := clientURLs(in.Etcd); urls != "" {
		object.WithData(map[string]string{member.KeyClientURLs: urls})
	}
	if in.PeerTLS != PeerTLSOff {
		object.WithAnnotations(map[string]string{v1alpha1.AnnotationPeerTLS: string(in.PeerTLS)})
	}
	return object, nil
}

// sharedConfig renders the part of etcd's configuration that all members share. A change of it replaces every pod.
func sharedConfig(in Input) (string, error) {
	if in.config != "" {
		return in.config, nil
	}
	etcd := in.Etcd
	spec := etcd.Spec.Etcd
	shared := ptr.Deref(etcd.Spec.SharedConfig, v1alpha1.SharedConfig{})
	values := map[string]any{
		"data-dir":                  member.DataDir,
		"listen-client-urls":        fmt.Sprintf("%s://0.0.0.0:%d", clientScheme(etcd), etcd.ClientPort()),
		"listen-peer-urls":          fmt.Sprintf("%s://0.0.0.0:%d", scheme(in.PeerTLS == PeerTLSOn), peerPort(etcd)),
		"listen-metrics-urls":       fmt.Sprintf("http://0.0.0.0:%d", metricsPort(etcd)),
		"metrics":                   ptr.Deref(spec.Metrics, v1alpha1.MetricsBasic),
		"quota-backend-bytes":       Quota(in.Etcd),
		"snapshot-count":            ptr.Deref(spec.SnapshotCount, 10000),
		"auto-compaction-mode":      ptr.Deref(shared.AutoCompactionMode, v1alpha1.CompactionPeriodic),
		"auto-compaction-retention": ptr.Deref(shared.AutoCompactionRetention, "30m"),
		"strict-reconfig-check":     true,
		"logger":                    "zap",
		"log-level":                 "info",
	}
	if t := spec.BackendBboltFreelistType; t != nil {
		values["backend-bbolt-freelist-type"] = *t
	}
	if enabled := spec.EnableGRPCGateway; enabled != nil {
		values["enable-grpc-gateway"] = *enabled
	}
	transportSecurity(values, in)
	config, err := yaml.Marshal(values)
	if err != nil {
		return "", fmt.Errorf("rendering the configuration of Etcd %s/%s: %w", etcd.Namespace, etcd.Name, err)
	}
	return string(config), nil
}

// Bootstrap renders what only a member without data uses. It lists the given number of members, or more: all that the cluster is known to
// have, and up to the one that a recovery began with, by which members know the recovered cluster. The token separates the members of an
// Etcd from those of a deleted Etcd of the same name. While the cluster is stopped, the list has the members that will be started: a
// recovery that begins then derives from it which cluster the previous recovery has made.
func Bootstrap(etcd *v1alpha1.Etcd, members int32, peerTLS PeerTLS) (string, error) {
	config, err := yaml.Marshal(bootstrap(etcd, Reaching(etcd, cmp.Or(members, known(etcd))), peerTLS == PeerTLSOn))
	if err != nil {
		return "", fmt.Errorf("rendering the initial cluster of Etcd %s/%s: %w", etcd.Namespace, etcd.Name, err)
	}
	return string(config), nil
}

// BootstrappedID returns the ID, in hex, of the cluster that a number of members of an Etcd bootstrap.
func BootstrappedID(etcd *v1alpha1.Etcd, members int32, peerTLS PeerTLS) string {
	s := member.Shared{Bootstrap: bootstrap(etcd, members, peerTLS == PeerTLSOn)}
	return member.ClusterID(s.Token(), s.InitialCluster())
}

func bootstrap(etcd *v1alpha1.Etcd, members int32, peerTLS bool) map[string]any {
	var entries []string
	for i := range members {
		entries = append(entries, etcd.MemberName(etcd.PodName(i))+"="+PeerURL(etcd, i, peerTLS))
	}
	return map[string]any{"initial-cluster": strings.Join(entries, ","), "initial-cluster-token": string(etcd.UID)}
}

// PeerURL returns the URL under which the member of an ordinal listens to its peers.
func PeerURL(etcd *v1alpha1.Etcd, ordinal int32, peerTLS bool) string {
	return fmt.Sprintf("%s://%s:%d", scheme(peerTLS), etcd.MemberHost(etcd.PodName(ordinal)), peerPort(etcd))
}

// Lineage returns what the ID of the next cluster of an Etcd is derived from, as its members read it. Only the scheme of the peer URLs can
// change, and IDs are computed for both schemes.
func Lineage(etcd *v1alpha1.Etcd) member.Shared {
	return member.Shared{Bootstrap: bootstrap(etcd, known(etcd), false), ClusterID: etcd.Status.ClusterID, Recovery: Recovery(etcd.Status.Recovery)}
}

// known returns how many members an Etcd is known to have, or may have.
func known(etcd *v1alpha1.Etcd) int32 {
	return Reaching(etcd, max(etcd.Spec.Replicas, 1))
}

// Reaching returns a number of members, or more: as many as the cluster is known to have, since someone may have scaled the StatefulSet
// down, and a member that is listed alone would restore a backup although the others have its data; and up to the one from which the
// recorded recovery starts, which may have joined while no operator was running.
func Reaching(etcd *v1alpha1.Etcd, members int32) int32 {
	members = max(members, etcd.Status.ClusterSize)
	if r := etcd.Status.Recovery; r != nil {
		for i := members; i < survey.MaxMembers; i++ {
			if etcd.MemberName(etcd.PodName(i)) == r.Member {
				return i + 1
			}
		}
	}
	return members
}

// RecordClusterID returns the command with which a person records the ID, in hex, of the cluster whose data an Etcd has.
func RecordClusterID(etcd types.NamespacedName, id string) string {
	return fmt.Sprintf(`kubectl patch etcd %s -n %s --subresource=status --type=merge -p '{"status":{"clusterID":"%s"}}'`, etcd.Name, etcd.Namespace, id)
}

// WithdrawRecovery returns the command with which a person withdraws the recovery that the status of an Etcd records.
func WithdrawRecovery(etcd types.NamespacedName) string {
	return fmt.Sprintf(`kubectl patch etcd %s -n %s --subresource=status --type=merge -p '{"status":{"recovery":null}}'`, etcd.Name, etcd.Namespace)
}

// Recovery returns what the members read of a recovery; nil when there is none.
func Recovery(r *v1alpha1.ClusterRecovery) *member.Recovery {
	if r == nil {
		return nil
	}
	recovery := &member.Recovery{
		Task: string(r.TaskUID), TaskName: r.Task, Member: r.Member, Source: member.RecoverySource(r.Source),
		PreviousClusterID: r.PreviousClusterID, EarlierClusterIDs: r.EarlierClusterIDs,
		Revision: r.Revision, HighestRevision: r.HighestRevision, HadData: r.HadData,
	}
	if to := r.Restore; to != nil {
		recovery.Restore = &member.RestorePoint{Base: to.Base, Prefix: to.Prefix, Revision: to.Revision, Hash: uint32(to.Hash), Bytes: to.Bytes, Kept: to.KeptData, Bump: to.Bump}
	}
	return recovery
}

// clientURLs renders the client URLs of the members that advertise further ones; empty if none does.
func clientURLs(etcd *v1alpha1.Etcd) string {
	further := etcd.AdvertisedClientURLs()
	var lines strings.Builder
	for i := range max(etcd.Status.ClusterSize, etcd.Spec.Replicas) {
		pod := etcd.PodName(i)
		name := etcd.MemberName(pod)
		urls := further.Of(name)
		if len(urls) > 0 && !further.Overrides(name) {
			urls = slices.Insert(urls, 0, fmt.Sprintf("%s://%s:%d", clientScheme(etcd), etcd.MemberHost(pod), etcd.ClientPort()))
		}
		if len(urls) > 0 {
			fmt.Fprintf(&lines, "%s: %q\n", name, strings.Join(urls, ","))
		}
	}
	return lines.String()
}

// checksum of a configuration, short enough to compare by eye.
func checksum(config string) string {
	sum := sha256.Sum256([]byte(config))
	return hex.EncodeToString(sum[:8])
}

// acceptance returns, for the members' ConfigMap, which unverified snapshots a restore may use.
func acceptance(etcd *v1alpha1.Etcd) (string, error) {
	spec := ptr.Deref(etcd.Signing(), v1alpha1.SigningSpec{})
	accept := member.Acceptance{Revision: ptr.Deref(spec.AcceptRevision, 0)}
	if spec.AcceptUnsignedUntil != nil {
		accept.UnsignedUntil = spec.AcceptUnsignedUntil.UTC().Format(time.RFC3339)
	}
	if encryption := etcd.Encryption(); encryption != nil && encryption.AcceptPlainUntil != nil {
		accept.PlainUntil = encryption.AcceptPlainUntil.UTC().Format(time.RFC3339)
	}
	return accept.Encode()
}

// Quota is the maximum size of the database of each member, in bytes.
func Quota(etcd *v1alpha1.Etcd) int64 {
	quota := job.Quota(etcd)
	return quota.Value()
}
