// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/component"
	"github.com/etcd-foreman/etcd-foreman/internal/member"
	"github.com/etcd-foreman/etcd-foreman/internal/ownership"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tellMembers tells the members the ID of their cluster, so that none of them makes a second one, and of a recovery, by
// which the cluster begins anew, and which requests their agents admit. It is not part of what is applied: it has to get there also while the spec is
// suspended. The reader says what they have been told. The live Etcd has to say the same as the given one: members that start
// with what was recorded once, and is not any more, are taken for another cluster.
func (r *Reconciler) tellMembers(ctx context.Context, p *pass, reader client.Reader, etcd *v1alpha1.Etcd) error {
	key := types.NamespacedName{Namespace: etcd.Namespace, Name: component.ConfigMapName(etcd.Name)}
	config := &corev1.ConfigMap{}
	if err := reader.Get(ctx, key, config); err != nil {
		// When it is missing, the event of its creation leads here.
		return client.IgnoreNotFound(err)
	}
	trust := ""
	if r.AgentTrust != nil {
		trust = r.AgentTrust(etcd).String()
	}
	if data, err := untold(&etcd.Status, trust, config.Data); err != nil || len(data) == 0 {
		return err
	}
	if owned, err := r.owns(ctx, p); err != nil || !owned {
		return err
	}
	live, err := readLive(r).etcd(ctx, etcd)
	if err != nil {
		return err
	}
	// It may have been applied in this pass.
	if err := r.APIReader.Get(ctx, key, config); err != nil {
		return client.IgnoreNotFound(err)
	}
	data, err := untold(&etcd.Status, trust, config.Data)
	if err != nil || len(data) == 0 || ownership.Of(etcd, "ConfigMap", config) != nil {
		return err
	}
	if live.Status.ClusterID != etcd.Status.ClusterID || !equality.Semantic.DeepEqual(live.Status.Recovery, etcd.Status.Recovery) {
		return behind(ctx, "Etcd %s records another cluster, or another recovery", client.ObjectKeyFromObject(etcd))
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": config.UID, "resourceVersion": config.ResourceVersion}, "data": data,
	})
	if err != nil {
		return fmt.Errorf("encoding what the members of Etcd %s are told: %w", client.ObjectKeyFromObject(etcd), err)
	}
	if err := r.Client.Patch(ctx, config, client.RawPatch(types.MergePatchType, patch), fieldOwner); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("telling the members by ConfigMap %s: %w", key, err)
	}
	return nil
}

// untold is what the members have not been told of a status, and of the requests that their agents admit, given what they were;
// nil is what they are no longer told. It is pure.
func untold(status *v1alpha1.EtcdStatus, trust string, told map[string]string) (map[string]any, error) {
	recovery, err := instruction(status.Recovery)
	if err != nil {
		return nil, err
	}
	data := map[string]any{}
	if id := status.ClusterID; id != "" && told[member.KeyClusterID] != id {
		data[member.KeyClusterID] = id
	}
	if before, ok := told[member.KeyRecovery]; recovery != "" && before != recovery {
		data[member.KeyRecovery] = recovery
	} else if recovery == "" && ok {
		data[member.KeyRecovery] = nil
	}
	if trust != "" && told[member.KeyAgentAPI] != trust {
		data[member.KeyAgentAPI] = trust
	}
	return data, nil
}
