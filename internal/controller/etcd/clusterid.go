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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tellMembers tells the members the ID of their cluster, so that none of them makes a second one, and of a recovery, by
// which the cluster begins anew. It is not part of what is applied: it has to get there also while the spec is
// suspended.
func (r *Reconciler) tellMembers(ctx context.Context, p *pass) error {
	etcd := p.etcd
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
	if len(untold(etcd, recovery, config)) == 0 {
		return nil
	}
	if owned, err := r.owns(ctx, p); err != nil || !owned {
		return err
	}
	// It may have been applied in this pass.
	if err := r.APIReader.Get(ctx, key, config); err != nil {
		return client.IgnoreNotFound(err)
	}
	if ownership.Of(etcd, "ConfigMap", config) != nil {
		return nil
	}
	data := untold(etcd, recovery, config)
	if len(data) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": config.UID, "resourceVersion": config.ResourceVersion}, "data": data})
	if err != nil {
		return fmt.Errorf("encoding what the members of Etcd %s are told: %w", client.ObjectKeyFromObject(etcd), err)
	}
	if err := r.Client.Patch(ctx, config, client.RawPatch(types.MergePatchType, patch), fieldOwner); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("telling the members by ConfigMap %s: %w", key, err)
	}
	return nil
}

// untold is what has to change of the data of a ConfigMap for the members to be told. It is pure.
func untold(etcd *v1alpha1.Etcd, recovery string, config *corev1.ConfigMap) map[string]any {
	data := map[string]any{}
	if id := etcd.Status.ClusterID; id != "" && config.Data[member.KeyClusterID] != id {
		data[member.KeyClusterID] = id
	}
	if told, ok := config.Data[member.KeyRecovery]; recovery != "" && told != recovery {
		data[member.KeyRecovery] = recovery
	} else if recovery == "" && ok {
		data[member.KeyRecovery] = nil
	}
	return data
}
