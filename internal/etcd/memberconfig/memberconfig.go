// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package memberconfig writes the instructions of the members of an Etcd into their ConfigMap: the ID of their cluster, whether they may
// begin it, how it is recovered, how their list changes, and whose requests their agents accept.
package memberconfig

import (
	"context"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/auth"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/base/asread"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Writer writes what members read in their ConfigMap.
type Writer struct {
	state.Access
	// AgentTrust returns whose requests the agents of an Etcd accept; if nil, nothing is written about it.
	AgentTrust func(*v1alpha1.Etcd) auth.Trust
}

// Write writes to the ConfigMap what the status of an Etcd says: the ID of the cluster, so that no member begins a second one, and a
// recovery. This is not part of what is applied, since it must also reach members while the spec is suspended. The reader reads what is
// written so far. The live Etcd must agree with the given one: members that start by an outdated record would belong to another cluster.
func (i Writer) Write(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd, objects *apply.Session) error {
	config, err := ConfigMap(ctx, reader, etcd, objects.Manager)
	if err == nil && config == nil && etcd.Status.ClusterID != "" {
		// The cache does not have a foreign ConfigMap, which lacks the labels. It is reported if it has replaced that of a cluster.
		_, err = objects.Owned(ctx)
	}
	if err != nil || config == nil {
		// Its creation triggers a reconcile.
		return err
	}
	trust := i.trust(etcd)
	if data, err := i.lacks(ctx, reader, etcd, trust, config.Data); err != nil || len(data) == 0 {
		return err
	}
	if owned, err := objects.Owned(ctx); err != nil || !owned {
		return err
	}
	if err := i.confirm(ctx, etcd); err != nil {
		return err
	}
	// It may have been applied by this reconcile.
	if config, err = ConfigMap(ctx, i.API, etcd, objects.Manager); err != nil || config == nil {
		return err
	}
	data, err := i.lacks(ctx, i.API, etcd, trust, config.Data)
	if err != nil || len(data) == 0 || ownership.Of(etcd, "ConfigMap", config) != nil {
		return err
	}
	return i.patch(ctx, config, data)
}

// Instructions returns all instructions that follow from the status of an Etcd, for a ConfigMap that is created; nil before the cluster has
// served. A ConfigMap that was deleted must come back complete: with a part of it, members would start with data of a previous cluster, or
// remove data that is to be kept.
func (i Writer) Instructions(ctx context.Context, etcd *v1alpha1.Etcd) (map[string]string, error) {
	if etcd.Status.ClusterID == "" {
		return nil, nil
	}
	if err := i.confirm(ctx, etcd); err != nil {
		return nil, err
	}
	data := map[string]string{}
	if etcd.Status.Recovery == nil {
		data[member.KeyKept] = "true" // unless no task keeps anything
	}
	change, err := i.lacks(ctx, i.API, etcd, i.trust(etcd), data)
	if err != nil {
		return nil, err
	}
	for key, value := range change {
		if text, ok := value.(string); ok {
			data[key] = text
		} else {
			delete(data, key)
		}
	}
	return data, nil
}

// confirm returns state.ErrBehind unless the live Etcd records the same cluster and recovery as the given one.
func (i Writer) confirm(ctx context.Context, etcd *v1alpha1.Etcd) error {
	live, err := i.Live().Etcd(ctx, etcd)
	if err != nil {
		return err
	}
	if live.Status.ClusterID != etcd.Status.ClusterID || !equality.Semantic.DeepEqual(live.Status.Recovery, etcd.Status.Recovery) ||
		live.SourceStays() != etcd.SourceStays() || !equality.Semantic.DeepEqual(live.Source(), etcd.Source()) {
		return state.Behind(ctx, "Etcd %s records another cluster, or another recovery, or has another source", client.ObjectKeyFromObject(etcd))
	}
	return nil
}

// trust returns, in the agents' format, whose requests the agents of an Etcd accept; empty if nothing is to be written about it.
func (i Writer) trust(etcd *v1alpha1.Etcd) string {
	if i.AgentTrust == nil {
		return ""
	}
	return i.AgentTrust(etcd).String()
}

// lacks returns what is missing in the data of the ConfigMap, and KeyKept if members keep what they have set aside for a task although no
// recovery is recorded. That happens if the only member is restored from the backup: the successor of its cluster ends the record before
// the task is deleted. Or a later recovery was withdrawn.
func (i Writer) lacks(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd, trust string, data map[string]string) (map[string]any, error) {
	change, err := missing(etcd, trust, data)
	_, recovers := data[member.KeyRecovery]
	_, keeps := data[member.KeyKept]
	if err != nil || etcd.Status.Recovery != nil || !recovers && !keeps {
		return change, err
	}
	tasks, err := etcdtasks.List(ctx, reader, etcd)
	if err != nil {
		return nil, fmt.Errorf("reading whether a task keeps data: %w", err)
	}
	switch wanted := etcdtasks.AnySetsAside(tasks); {
	case wanted && !keeps:
		change[member.KeyKept] = "true"
	case !wanted && keeps:
		change[member.KeyKept] = nil
	}
	return change, nil
}

// Permit permits the members of an Etcd to begin its cluster; nil withdraws the permission. The caller has decided this on the given live
// reads.
func (i Writer) Permit(ctx context.Context, reads state.Live, etcd *v1alpha1.Etcd, manager string, permit *member.FirstStart) error {
	return i.set(ctx, reads, etcd, manager, member.KeyFirstStart, func(string) (any, error) {
		if permit == nil {
			return nil, nil
		}
		return permit.Encode()
	})
}

// Announce announces to the members of an Etcd how their list is about to change, for the cluster that its status records. The
// caller has decided and recorded it on the given live reads. An announcement with an older generation than the present one is not written: an
// agent that confirms a generation must have read that very announcement.
func (i Writer) Announce(ctx context.Context, reads state.Live, etcd *v1alpha1.Etcd, manager string, members member.Members) error {
	members.Etcd, members.ClusterID = string(etcd.UID), etcd.Status.ClusterID
	return i.set(ctx, reads, etcd, manager, member.KeyMembers, func(current string) (any, error) {
		before, err := member.ParseMembers(current)
		if err == nil && before != nil && before.Etcd == members.Etcd && before.Generation > members.Generation {
			return nil, state.Behind(ctx, "the members of Etcd %s were told generation %d of their changes, which is newer than %d", client.ObjectKeyFromObject(etcd), before.Generation, members.Generation)
		}
		return members.Encode()
	})
}

// set sets a key of the Etcd's own ConfigMap to what a function returns for its present value; nil removes it. An unchanged value is not
// written.
func (i Writer) set(ctx context.Context, reads state.Live, etcd *v1alpha1.Etcd, manager, key string, next func(current string) (any, error)) error {
	config, err := ConfigMap(ctx, reads, etcd, manager)
	if err != nil {
		return err
	}
	if config == nil {
		return state.Behind(ctx, "Etcd %s has no ConfigMap yet", client.ObjectKeyFromObject(etcd))
	}
	if foreign := ownership.Of(etcd, "ConfigMap", config); foreign != nil {
		return coded.Error(v1alpha1.ErrForeignObject, fmt.Errorf("instructing the members: %s", foreign))
	}
	current, exists := config.Data[key]
	value, err := next(current)
	if err != nil || value == nil && !exists || value == any(current) && exists {
		return err
	}
	if err := reads.Fresh(ctx); err != nil {
		return err
	}
	return i.patch(ctx, config, map[string]any{key: value})
}

// patch changes keys of the ConfigMap as it was read; a nil value is removed.
func (i Writer) patch(ctx context.Context, config *corev1.ConfigMap, data map[string]any) error {
	err := i.Client.Patch(ctx, config, asread.Merge(map[string]any{"data": data}), apply.Manager)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("instructing the members by ConfigMap %s: %w", client.ObjectKeyFromObject(config), err)
	}
	return nil
}

// Instructed reports whether, by a live read, the ConfigMap instructs the members to recover their cluster as the status of the Etcd
// records.
func Instructed(ctx context.Context, live client.Reader, etcd *v1alpha1.Etcd, manager string) (bool, error) {
	wanted, details, err := encode(etcd.Status.Recovery)
	if err != nil {
		return false, err
	}
	config, err := ConfigMap(ctx, live, etcd, manager)
	if err != nil || config == nil {
		return false, err
	}
	return wanted != "" && config.Data[member.KeyRecovery] == wanted && config.Data[member.KeyRecoveryDetails] == details, nil
}

// ConfigMap returns the ConfigMap that the members of an Etcd read; nil if there is none. It need not be the Etcd's own.
func ConfigMap(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd, manager string) (*corev1.ConfigMap, error) {
	return lookup.Get[corev1.ConfigMap](ctx, reader, "ConfigMap", types.NamespacedName{Namespace: etcd.Namespace, Name: etcd.ConfigMapName(manager)})
}

// missing returns the keys to write into the ConfigMap; one with a nil value is to be removed. It is pure.
func missing(etcd *v1alpha1.Etcd, trust string, data map[string]string) (map[string]any, error) {
	status := &etcd.Status
	recovery, details, err := encode(status.Recovery)
	if err != nil {
		return nil, err
	}
	source, err := encodeSource(etcd)
	if err != nil {
		return nil, err
	}
	change := map[string]any{}
	for key, value := range map[string]string{member.KeySource: source, member.KeyRecovery: recovery, member.KeyRecoveryDetails: details} {
		if before, ok := data[key]; value != "" && before != value {
			change[key] = value
		} else if value == "" && ok {
			change[key] = nil
		}
	}
	if id := status.ClusterID; id != "" && data[member.KeyClusterID] != id {
		change[member.KeyClusterID] = id
	}
	if _, ok := data[member.KeyFirstStart]; ok && status.ClusterID != "" {
		// The cluster has begun, and no member begins it a second time.
		change[member.KeyFirstStart] = nil
	}
	if trust != "" && data[member.KeyAgentAPI] != trust {
		change[member.KeyAgentAPI] = trust
	}
	return change, nil
}

// encodeSource encodes the source cluster for the members; empty if there is none.
func encodeSource(etcd *v1alpha1.Etcd) (string, error) {
	source := etcd.Source()
	if source == nil {
		return "", nil
	}
	return member.Source{ClientEndpoints: source.ClientEndpoints, Leads: etcd.SourceStays()}.Encode()
}

// encode encodes a recovery and its details for the members; empty if there is none.
func encode(r *v1alpha1.ClusterRecovery) (text, details string, err error) {
	if r == nil {
		return "", "", nil
	}
	recovery := component.Recovery(r)
	if text, err = recovery.Encode(); err == nil {
		details, err = recovery.EncodeDetails()
	}
	if err != nil {
		return "", "", fmt.Errorf("encoding the recovery for the members: %w", err)
	}
	return text, details, nil
}
