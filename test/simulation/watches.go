// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// cachedKinds are the kinds that the operator has in its cache.
var cachedKinds = map[string]bool{
	"Etcd": true, "EtcdOperatorTask": true, "StatefulSet": true, "Pod": true, "ConfigMap": true, "Service": true, "ServiceAccount": true, "Role": true, "RoleBinding": true,
	"PodDisruptionBudget": true, "Lease": true, "PersistentVolumeClaim": true, "PersistentVolume": true, "Node": true, "Namespace": true, "EtcdFleetPolicy": true,
}

// wakes reports whether a change that a cache shows wakes a controller, and after which pause. It says what the Setups of the controllers say. Of the
// predicates, those are the real ones that keep the Etcd controller from following each status of a task; without the others, a controller may be woken in vain.
func wakes(controller string, c apiserver.Change) (after time.Duration, wakes bool) {
	settled := c.Kind == "Pod" || c.Kind == "StatefulSet"
	switch controller {
	case "etcd":
		switch c.Kind {
		case "Etcd", "PodDisruptionBudget":
			return 0, !onlyStatus(c)
		case "Pod", "StatefulSet":
			if settled && onlyStatus(c) || c.Kind == "Pod" {
				return time.Second, true
			}
			return 0, true
		case "EtcdOperatorTask":
			if passes(etcd.ReplacesPods, c) {
				after = time.Second
			}
			return after, passes(etcd.TaskChanged(), c)
		case "ConfigMap", "Service", "ServiceAccount", "Role", "RoleBinding", "PersistentVolumeClaim":
			return 0, true
		}
	case "upkeep", "membership":
		return 0, c.Kind == "Etcd" || c.Kind == "EtcdOperatorTask"
	case "rollout":
		return 0, c.Kind == "StatefulSet" || c.Kind == "EtcdOperatorTask" || c.Kind == "Pod" && (c.Before == nil || !onlyStatus(c))
	case "task":
		return 0, c.Kind == "EtcdOperatorTask" || c.Kind == "StatefulSet" || c.Kind == "Pod" || c.Kind == "Etcd" && !onlyStatus(c)
	case "fleet":
		return 0, c.Kind == "EtcdOperatorTask" || c.Kind == "EtcdFleetPolicy" && !onlyStatus(c)
	}
	return 0, false
}

// passes reports whether a predicate lets a change through.
func passes(p predicate.Predicate, c apiserver.Change) bool {
	switch {
	case c.Before == nil:
		return p.Create(event.CreateEvent{Object: c.After})
	case c.After == nil:
		return p.Delete(event.DeleteEvent{Object: c.Before})
	}
	return p.Update(event.UpdateEvent{ObjectOld: c.Before, ObjectNew: c.After})
}

// concerns reports whether a change may be about the Etcd of a controller: its name is part of those of its objects.
func (c *controller) concerns(change apiserver.Change) bool {
	if t, ok := change.Object().(*v1alpha1.EtcdOperatorTask); ok && c.etcd != "" {
		return t.Spec.OwnerEtcdReference.Name == c.etcd
	}
	of := func(etcd string) bool { return slices.Contains(strings.Split(change.Key.Name, "-"), etcd) }
	return c.etcd == "" || of(c.etcd) || !slices.ContainsFunc(names, of)
}

// onlyStatus reports whether neither the spec nor the annotations of an object have changed.
func onlyStatus(c apiserver.Change) bool {
	return c.Before != nil && c.After != nil && c.Before.GetGeneration() == c.After.GetGeneration() && maps.Equal(c.Before.GetAnnotations(), c.After.GetAnnotations())
}
