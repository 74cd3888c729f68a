// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/ownership"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// recheckObstruction is how long the API server is not asked again whose the objects of an Etcd are, once one of them was
// somebody else's. The end of one that the cache does not have is no event.
const recheckObstruction = 10 * time.Second

// maxNote bounds the note of an event, which has at most 1024 bytes.
const maxNote = 1000

// obstruction is what was last found of an Etcd whose objects are not all its own.
type obstruction struct {
	// etcd is its UID: another of its name has objects of its own.
	etcd    types.UID
	at      time.Time
	foreign []ownership.Foreign
}

func (r *Reconciler) writer() apply.Writer {
	return apply.Writer{Client: r.Client, Live: r.APIReader}
}

// owns reports whether each object of the Etcd that exists is its own, as the API server says. A stage asks before it
// writes, and the answer holds for the pass: either all are written, or none.
func (r *Reconciler) owns(ctx context.Context, p *pass) (bool, error) {
	if p.proof != nil {
		return p.proof.Owned(), nil
	}
	key := client.ObjectKeyFromObject(p.etcd)
	if o := r.memory.of(key).obstruction; o.etcd == p.etcd.UID && r.Clock.Now().Sub(o.at) < recheckObstruction {
		p.proof = &apply.Proof{Foreign: o.foreign}
		return false, nil
	}
	proof, err := r.writer().Prove(ctx, p.etcd)
	if err != nil {
		return false, err
	}
	p.proof = proof
	r.rememberObstruction(p)
	return proof.Owned(), nil
}

// recallObstruction has a pass that follows one which found an object of somebody else look whether it is still there: the
// status is to tell of it, and of its end, also where nothing has to be written.
func (r *Reconciler) recallObstruction(ctx context.Context, p *pass) error {
	if o := r.memory.of(client.ObjectKeyFromObject(p.etcd)).obstruction; o.etcd != p.etcd.UID {
		return nil
	}
	_, err := r.owns(ctx, p)
	return err
}

// rememberObstruction keeps what a proof says of objects that are not the Etcd's own, if any.
func (r *Reconciler) rememberObstruction(p *pass) {
	next := obstruction{}
	if !p.proof.Owned() {
		next = obstruction{etcd: p.etcd.UID, at: r.Clock.Now(), foreign: p.proof.Foreign}
	}
	r.memory.change(client.ObjectKeyFromObject(p.etcd), func(m *remembered) { m.obstruction = next })
}

// obstructedBy are the objects that keep those of the Etcd from being written.
func (p *pass) obstructedBy() []ownership.Foreign {
	if p.proof == nil {
		return nil
	}
	return p.proof.Foreign
}

// objectsOwned says whether each object of an Etcd is its own: those in the way keep the others from being written, and the
// claims among those in use are left alone. It is pure.
func objectsOwned(inTheWay, inUse []ownership.Foreign) metav1.Condition {
	inUse = slices.DeleteFunc(slices.Clone(inUse), func(f ownership.Foreign) bool { return slices.Contains(inTheWay, f) })
	all := append(slices.Clone(inTheWay), inUse...)
	switch {
	case len(all) == 0:
		return condition(v1alpha1.ConditionObjectsOwned, metav1.ConditionTrue, v1alpha1.ReasonObjectsOwned, "Each object of the Etcd is its own.")
	case len(inTheWay) == 0:
		return condition(v1alpha1.ConditionObjectsOwned, metav1.ConditionFalse, all[0].Reason,
			"Claims under the names of its members are not this Etcd's own; the operator neither grows, records nor deletes them. "+sentences(inUse))
	}
	return condition(v1alpha1.ConditionObjectsOwned, metav1.ConditionFalse, all[0].Reason,
		"The operator writes no object of this Etcd until each of them is its own. "+sentences(all))
}

func sentences(all []ownership.Foreign) string {
	said := make([]string, 0, len(all))
	for _, f := range all {
		said = append(said, f.String()+".")
	}
	return strings.Join(said, " ")
}

// ownership is the condition ObjectsOwned; false when nothing was looked at.
func (p *pass) ownership() (c metav1.Condition, known bool) {
	if p.proof == nil && !p.compared {
		return c, false
	}
	return objectsOwned(p.obstructedBy(), p.foreignClaims), true
}

// tellOfOwnership tells in an event that an object is in the way.
func (r *Reconciler) tellOfOwnership(etcd *v1alpha1.Etcd, before, after *v1alpha1.EtcdStatus) {
	c := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionObjectsOwned)
	if c == nil || c.Status != metav1.ConditionFalse || meta.IsStatusConditionFalse(before.Conditions, v1alpha1.ConditionObjectsOwned) {
		return
	}
	r.Recorder.Eventf(etcd, nil, corev1.EventTypeWarning, c.Reason, "ApplyObjects", "%s", note(c.Message))
}

// note is a message as far as an event has room for it.
func note(message string) string {
	if len(message) <= maxNote {
		return message
	}
	return fmt.Sprintf("%s … The condition %s has the rest.", strings.ToValidUTF8(message[:maxNote-len(v1alpha1.ConditionObjectsOwned)-40], ""), v1alpha1.ConditionObjectsOwned)
}
