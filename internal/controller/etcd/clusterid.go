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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tellMembers tells the members the ID of their cluster, so that none of them makes a second one, and of a recovery, by
// which the cluster begins anew, and whom their agents let in. It is not part of what is applied: it has to get there also
// while the spec is suspended.
func (r *Reconciler) tellMembers(ctx context.Context, etcd *v1alpha1.Etcd) error {
	recovery, err := instruction(etcd.Status.Recovery)
	if err != nil {
		return err
	}
	key := types.NamespacedName{Namespace: etcd.Namespace, Name: component.ConfigMapName(etcd.Name)}
	config := &corev1.ConfigMap{}
	if err := r.Client.Get(ctx, key, config); err != nil {
		// When it is missing, the event of its creation leads here.
		return client.IgnoreNotFound(err)
	}
	data := map[string]any{}
	if id := etcd.Status.ClusterID; id != "" && config.Data[member.KeyClusterID] != id {
		data[member.KeyClusterID] = id
	}
	if told, ok := config.Data[member.KeyRecovery]; recovery != "" && told != recovery {
		data[member.KeyRecovery] = recovery
	} else if recovery == "" && ok {
		data[member.KeyRecovery] = nil
	}
	if r.AgentTrust != nil {
		if trust := r.AgentTrust(etcd).String(); config.Data[member.KeyAgentAPI] != trust {
			data[member.KeyAgentAPI] = trust
		}
	}
	if len(data) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return fmt.Errorf("encoding what the members of Etcd %s are told: %w", client.ObjectKeyFromObject(etcd), err)
	}
	if err := r.Client.Patch(ctx, config, client.RawPatch(types.MergePatchType, patch), fieldOwner); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("telling the members by ConfigMap %s: %w", key, err)
	}
	return nil
}
