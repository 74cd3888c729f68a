// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"cmp"
	"context"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// readSurroundings adds the nodes and volumes to the pods. Claims are read by the same reader as the pods: a claim that is being deleted
// goes, with its data, once no pod uses it. So are the nodes of pods that are not ready: on a lost node, the kubelet's last report may no
// longer be true, and the node controller marks only pods that were ready. The spec is that of future pods.
func (o *Observer) readSurroundings(ctx context.Context, reader client.Reader, etcd types.NamespacedName, next corev1.PodSpec, ordinals []cluster.Ordinal) error {
	if o.surroundings == nil {
		return nil
	}
	allowed := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: next})
	claims, err := claimsOf(ctx, reader, etcd)
	if err != nil {
		return err
	}
	for i := range ordinals {
		pod := ordinals[i].Pod
		if pod == nil || pod.Node.Name == "" {
			continue
		}
		from := o.surroundings
		if !pod.Ready || !pod.AllContainersReady {
			from = reader
		}
		at, err := readNode(ctx, from, pod.Node.Name)
		if err != nil {
			return err
		}
		pod.Node = at.Node
		for _, name := range pod.Claims {
			claim, ok := claims[name]
			if !ok {
				if claim, err = readClaim(ctx, reader, client.ObjectKey{Namespace: etcd.Namespace, Name: name}); err != nil {
					return err
				}
			}
			trouble, err := o.claimTrouble(ctx, name, claim, at, allowed)
			if err != nil {
				return err
			}
			pod.VolumeTrouble = cmp.Or(pod.VolumeTrouble, trouble)
			pod.VolumeGoes = pod.VolumeGoes || claim != nil && claim.DeletionTimestamp != nil
		}
	}
	return nil
}

// claimsOf returns the claims with the labels of an Etcd, by name, in one request. A claim that existed before its Etcd has no labels.
func claimsOf(ctx context.Context, reader client.Reader, etcd types.NamespacedName) (map[string]*corev1.PersistentVolumeClaim, error) {
	list := &corev1.PersistentVolumeClaimList{}
	if err := reader.List(ctx, list, client.InNamespace(etcd.Namespace), client.MatchingLabels{v1alpha1.LabelPartOf: etcd.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the claims of Etcd %s: %w", etcd, err)
	}
	claims := map[string]*corev1.PersistentVolumeClaim{}
	for i := range list.Items {
		claims[list.Items[i].Name] = &list.Items[i]
	}
	return claims, nil
}

// readClaim returns nil if there is no such claim.
func readClaim(ctx context.Context, reader client.Reader, key client.ObjectKey) (*corev1.PersistentVolumeClaim, error) {
	return lookup.Get[corev1.PersistentVolumeClaim](ctx, reader, "claim", key, client.UnsafeDisableDeepCopy)
}

// place is the node of a pod. The object is nil if the node is gone.
type place struct {
	cluster.Node
	object *corev1.Node
}

// takes reports whether a node accepts new pods with a spec.
func (p place) takes(allowed nodeaffinity.RequiredNodeAffinity) (pods, these bool, err error) {
	if p.Trouble != "" || p.Cordoned {
		return false, false, nil
	}
	if these, err = allowed.Match(p.object); err != nil {
		return true, false, fmt.Errorf("reading the node affinity of the pod template: %w", err)
	}
	return true, these, nil
}

func readNode(ctx context.Context, reader client.Reader, name string) (place, error) {
	node, err := lookup.Get[corev1.Node](ctx, reader, "node", client.ObjectKey{Name: name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return place{}, err
	} else if node == nil {
		return place{Node: cluster.Node{Name: name, Trouble: "gone"}}, nil
	}
	return place{describeNode(node), node}, nil
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

// claimTrouble returns why the replacement of a pod at a place could not attach a claim's volume; empty if it could.
func (o *Observer) claimTrouble(ctx context.Context, name string, claim *corev1.PersistentVolumeClaim, at place, allowed nodeaffinity.RequiredNodeAffinity) (string, error) {
	if claim == nil {
		return fmt.Sprintf("its claim %s no longer exists: its replacement would start with an empty volume", name), nil
	}
	switch {
	case claim.DeletionTimestamp != nil:
		return fmt.Sprintf("its claim %s is being deleted, and goes with its data once no pod uses it", name), nil
	case claim.Status.Phase == corev1.ClaimLost:
		return fmt.Sprintf("its claim %s has lost its volume %s: its replacement could not start", name, claim.Spec.VolumeName), nil
	case claim.Spec.VolumeName == "":
		return "", nil
	}
	volume, err := lookup.Get[corev1.PersistentVolume](ctx, o.surroundings, "volume", client.ObjectKey{Name: claim.Spec.VolumeName}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return "", err
	} else if volume == nil {
		return fmt.Sprintf("volume %s of its claim %s no longer exists", claim.Spec.VolumeName, name), nil
	}
	if by := volume.Spec.ClaimRef; by != nil && by.UID != claim.UID {
		return fmt.Sprintf("volume %s of its claim %s is bound to another claim", volume.Name, name), nil
	}
	// A volume can be attached again where it is now, if the pod may run there.
	if _, again, err := at.takes(allowed); err != nil || again || volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return "", err
	}
	nodes := &corev1.NodeList{}
	if err := o.surroundings.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("listing nodes: %w", err)
	}
	return unreachable(volume, nodes.Items, at, allowed)
}

// unreachable returns why no node accepts a pod with this volume, which not every node can attach; empty if one does.
func unreachable(volume *corev1.PersistentVolume, nodes []corev1.Node, at place, allowed nodeaffinity.RequiredNodeAffinity) (string, error) {
	selector, err := nodeaffinity.NewNodeSelector(volume.Spec.NodeAffinity.Required)
	if err != nil {
		return "", fmt.Errorf("reading the node affinity of volume %s: %w", volume.Name, err)
	}
	excluded := ""
	for i := range nodes {
		if !selector.Match(&nodes[i]) {
			continue
		}
		pods, these, err := place{describeNode(&nodes[i]), &nodes[i]}.takes(allowed)
		if err != nil || these {
			return "", err
		}
		if pods {
			excluded = nodes[i].Name
		}
	}
	if excluded != "" {
		return fmt.Sprintf("its volume %s can only be used on nodes that the node affinity of the pod template excludes, such as %s: allow them, or move the volume first", volume.Name, excluded), nil
	}
	why := at.Trouble
	switch {
	case why != "":
	case at.Cordoned:
		why = "cordoned"
	default:
		why = "excluded by the node affinity of the pod template"
	}
	return fmt.Sprintf("its volume %s can only be used where no node takes pods now (node %s is %s)", volume.Name, at.Name, why), nil
}
