// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// node is a machine with its kubelet.
type node struct {
	world *World
	name  string
	// off: it has no power. cut: it runs, and nothing reaches it but the nodes that were cut off with it, which have its zone. apart: members elsewhere
	// do not reach those on it, and all else does.
	off, cut, apart bool
	// zone is 0 for a node that was cut off alone.
	zone int
	// waiting is what its kubelet does once it is there again.
	waiting []func()
	// losses counts how often it was lost.
	losses int
}

func (n *node) silent() bool { return n.off || n.cut }

// isSplit reports whether members on a node may serve together with others, out of sight of the rest.
func (n *node) isSplit() bool { return n.zone != 0 }

// lose cuts a node off, or takes its power. 40 s later Kubernetes notices; the word of its kubelet stays.
func (n *node) lose(power bool) {
	n.off, n.cut = n.off || power, n.cut || !power
	n.losses++
	if power {
		for _, p := range n.world.on(n) {
			p.kill()
			if p.disk != nil {
				p.disk.LosePower()
			}
			p.prepared = false
		}
	}
	n.stillLost(n.world.between(40_000, 45_000), func() { n.report(corev1.ConditionUnknown) })
	n.stillLost(n.world.between(340_000, 350_000), n.taint)
}

// stillLost has the node controller do something if a node that is lost now has not been back by then.
func (n *node) stillLost(after time.Duration, do func()) {
	at := n.losses
	n.world.After(after, n.name, "", func() {
		n.world.controller(fmt.Sprintf("node controller, %s, %d, %s", n.name, at, after), 0, func() {
			if n.silent() && n.losses == at {
				do()
			}
		})
	})
}

// taint has the pods of a node deleted that has been lost for as long as pods tolerate by default. They are there until the node is back.
func (n *node) taint() {
	for _, p := range apiserver.Of[*corev1.Pod](n.world.API.Live()) {
		if p.Spec.NodeName != n.name || p.DeletionTimestamp != nil {
			continue
		}
		edit(n.world, p.Namespace, p.Name, "status", func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager"})
		})
		n.world.Log("node controller", "deletes pod "+p.Name)
		n.world.remove(p)
	}
}

// renewals is how often a kubelet renews the Lease of its node.
const renewals = 10 * time.Second

// renew has the kubelet renew the Lease of its node, and again after a while.
func (n *node) renew() {
	if !n.silent() {
		n.world.must(n.world.API.Stamp(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: n.name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &n.name, LeaseDurationSeconds: ptr.To(int32(4 * renewals / time.Second))},
		}))
	}
	n.world.After(renewals, n.name, "", n.renew)
}

// comeBack ends what lose has begun.
func (n *node) comeBack() {
	restarted := n.off
	n.off, n.cut, n.zone = false, false, 0
	n.losses++
	n.report(corev1.ConditionTrue)
	waiting := n.waiting
	n.waiting = nil
	for _, do := range waiting {
		do()
	}
	for _, p := range n.world.on(n) {
		if restarted {
			p.begin()
		} else {
			p.report()
		}
	}
}

// report has the node's condition written, and the pods of one that is lost marked.
func (n *node) report(is corev1.ConditionStatus) {
	n.world.Log(n.name, fmt.Sprintf("is ready: %s", is))
	edit(n.world, "", n.name, "status", func(o *corev1.Node) {
		o.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: is}}
	})
	if is == corev1.ConditionTrue {
		return
	}
	for _, p := range apiserver.Of[*corev1.Pod](n.world.API.Live()) {
		if p.Spec.NodeName == n.name {
			edit(n.world, p.Namespace, p.Name, "status", func(p *corev1.Pod) {
				for i := range p.Status.Conditions {
					if p.Status.Conditions[i].Type == corev1.PodReady {
						p.Status.Conditions[i].Status = corev1.ConditionFalse
					}
				}
			})
		}
	}
}

// on returns the pods on a node, by name.
func (w *World) on(n *node) (on []*pod) {
	for _, p := range w.pods {
		if p.node == n {
			on = append(on, p)
		}
	}
	slices.SortFunc(on, compare)
	return on
}

func (w *World) node(name string) *node {
	if i := slices.IndexFunc(w.nodes, func(n *node) bool { return n.name == name }); i >= 0 {
		return w.nodes[i]
	}
	return nil
}

// schedule binds a pod to a node: that of its volume, or else the ready one with the fewest pods.
func (w *World) schedule(name string) {
	p := apiserver.Find[*corev1.Pod](w.API.Live(), Namespace, name)
	if p == nil || p.Spec.NodeName != "" || p.DeletionTimestamp != nil {
		return
	}
	claim := w.claimOf(p)
	at := w.place(claim)
	if at == nil {
		w.After(w.between(1000, 2000), "scheduler", "", func() { w.schedule(name) })
		return
	}
	if claim != nil && claim.Spec.VolumeName == "" {
		w.bind(claim, at)
	}
	edit(w, p.Namespace, p.Name, "", func(p *corev1.Pod) { p.Spec.NodeName = at.name })
}

func (w *World) claimOf(p *corev1.Pod) *corev1.PersistentVolumeClaim {
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			return apiserver.Find[*corev1.PersistentVolumeClaim](w.API.Live(), p.Namespace, v.PersistentVolumeClaim.ClaimName)
		}
	}
	return nil
}

func (w *World) place(claim *corev1.PersistentVolumeClaim) (at *node) {
	if claim != nil && claim.Spec.VolumeName != "" {
		volume := apiserver.Find[*corev1.PersistentVolume](w.API.Live(), "", claim.Spec.VolumeName)
		if n := w.node(volume.Labels[corev1.LabelHostname]); w.isReady(n) && !n.isCordoned() {
			return n
		}
		return nil
	}
	for _, n := range w.nodes {
		if w.isReady(n) && !n.isCordoned() && (at == nil || len(w.on(n)) < len(w.on(at))) {
			at = n
		}
	}
	return at
}

// isReady reports whether Kubernetes takes a node for ready.
func (w *World) isReady(n *node) bool {
	o := apiserver.Find[*corev1.Node](w.API.Live(), "", n.name)
	return o != nil && len(o.Status.Conditions) > 0 && o.Status.Conditions[0].Status == corev1.ConditionTrue
}

// isCordoned reports whether no pod is bound to a node.
func (n *node) isCordoned() bool {
	return apiserver.Find[*corev1.Node](n.world.API.Live(), "", n.name).Spec.Unschedulable
}

func (n *node) cordon(is bool) {
	edit(n.world, "", n.name, "", func(o *corev1.Node) { o.Spec.Unschedulable = is })
}

// bind makes a volume for a claim, on a node.
func (w *World) bind(claim *corev1.PersistentVolumeClaim, at *node) {
	name := "pv-" + string(claim.UID)
	w.disks[name] = &members.Disk{}
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	capacity := corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(size.Value(), resource.BinarySI)}
	w.must(w.writer.Create(context.Background(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: at.name}},
		Spec: corev1.PersistentVolumeSpec{Capacity: capacity, NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{at.name}}},
		}}}}},
	}))
	edit(w, claim.Namespace, claim.Name, "", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = name })
	edit(w, claim.Namespace, claim.Name, "status", func(c *corev1.PersistentVolumeClaim) {
		c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: capacity}
	})
}
