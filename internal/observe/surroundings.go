// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"cmp"
	"context"
	"fmt"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lookAround puts into the pods what is known of their nodes and volumes.
func (o *Observer) lookAround(ctx context.Context, namespace string, ordinals []cluster.Ordinal) error {
	if o.surroundings == nil {
		return nil
	}
	for i := range ordinals {
		pod := ordinals[i].Pod
		if pod == nil || pod.Node.Name == "" {
			continue
		}
		var err error
		if pod.Node, err = o.node(ctx, pod.Node.Name); err != nil {
			return err
		}
		for _, claim := range pod.Claims {
			trouble, err := o.claimTrouble(ctx, client.ObjectKey{Namespace: namespace, Name: claim}, pod.Node)
			if err != nil {
				return err
			}
			pod.VolumeTrouble = cmp.Or(pod.VolumeTrouble, trouble)
		}
	}
	return nil
}

func (o *Observer) node(ctx context.Context, name string) (cluster.Node, error) {
	node := &corev1.Node{}
	if err := o.surroundings.Get(ctx, client.ObjectKey{Name: name}, node, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		return cluster.Node{Name: name, Trouble: "gone"}, nil
	} else if err != nil {
		return cluster.Node{}, fmt.Errorf("reading node %s: %w", name, err)
	}
	return describeNode(node), nil
}

func describeNode(node *corev1.Node) cluster.Node {
	n := cluster.Node{Name: node.Name, Trouble: "not ready", Cordoned: node.Spec.Unschedulable}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			n.Trouble = ""
		}
	}
	return n
}

// claimTrouble is why the replacement of a pod on a node could not have a claim and its volume as they are; empty when
// it could.
func (o *Observer) claimTrouble(ctx context.Context, key client.ObjectKey, node cluster.Node) (string, error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := o.surroundings.Get(ctx, key, claim, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		return fmt.Sprintf("its claim %s does not exist any more: its replacement would start with an empty volume", key.Name), nil
	} else if err != nil {
		return "", fmt.Errorf("reading claim %s: %w", key, err)
	}
	switch {
	case claim.DeletionTimestamp != nil:
		return fmt.Sprintf("its claim %s is being deleted, and goes with its data once no pod uses it", key.Name), nil
	case claim.Status.Phase == corev1.ClaimLost:
		return fmt.Sprintf("its claim %s has lost its volume %s: its replacement could not start", key.Name, claim.Spec.VolumeName), nil
	case claim.Spec.VolumeName == "":
		return "", nil
	}
	volume := &corev1.PersistentVolume{}
	if err := o.surroundings.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		return fmt.Sprintf("volume %s of its claim %s does not exist any more", claim.Spec.VolumeName, key.Name), nil
	} else if err != nil {
		return "", fmt.Errorf("reading volume %s: %w", claim.Spec.VolumeName, err)
	}
	switch by := volume.Spec.ClaimRef; {
	case by != nil && by.UID != claim.UID:
		return fmt.Sprintf("volume %s of its claim %s is bound to another claim", volume.Name, key.Name), nil
	case node.Trouble == "" && !node.Cordoned:
		// Where a volume is now, it can be again.
		return "", nil
	}
	nodes := &corev1.NodeList{}
	if volume.Spec.NodeAffinity != nil {
		if err := o.surroundings.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
			return "", fmt.Errorf("listing nodes: %w", err)
		}
	}
	return unreachable(volume, nodes.Items, node)
}

// unreachable is why no node takes a volume now; empty when one does, or when the volume does not care.
func unreachable(volume *corev1.PersistentVolume, nodes []corev1.Node, at cluster.Node) (string, error) {
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return "", nil
	}
	selector, err := nodeaffinity.NewNodeSelector(volume.Spec.NodeAffinity.Required)
	if err != nil {
		return "", fmt.Errorf("reading the node affinity of volume %s: %w", volume.Name, err)
	}
	for i := range nodes {
		n := describeNode(&nodes[i])
		if selector.Match(&nodes[i]) && n.Trouble == "" && !n.Cordoned {
			return "", nil
		}
	}
	return fmt.Sprintf("its volume %s can only be used where no node takes pods now (node %s is %s)", volume.Name, at.Name, cmp.Or(at.Trouble, "cordoned")), nil
}
