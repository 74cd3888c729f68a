// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package ownership decides who owns an object whose name an Etcd needs. A name proves nothing: an object is the Etcd's own if the Etcd
// controls it, or has adopted it. It is pure, and imports the API only.
package ownership

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
)

// Foreign is an object that is not the Etcd's own, although it has a name that the Etcd needs.
type Foreign struct {
	// Kind, as in "Service", and Name with the namespace, as in "shoot-a/etcd-main-client".
	Kind, Name string
	// Reason is a reason of the condition ObjectsOwned.
	Reason string
	// Whose it is, as in "has no controller", and the Remedy: what to do, with the command where there is one.
	Whose, Remedy string
}

// String is a sentence without its full stop.
func (f Foreign) String() string {
	return fmt.Sprintf("%s %s %s: %s", f.Kind, f.Name, f.Whose, f.Remedy)
}

// Sentences names several objects.
func Sentences(all []Foreign) string {
	said := make([]string, 0, len(all))
	for _, f := range all {
		said = append(said, f.String()+".")
	}
	return strings.Join(said, " ")
}

// Of returns what makes an object of a kind foreign to an Etcd; nil if it is the Etcd's own.
func Of(etcd *v1alpha1.Etcd, kind string, object metav1.Object) *Foreign {
	controller, manager := metav1.GetControllerOf(object), object.GetLabels()[v1alpha1.LabelManagedBy]
	f := foreign(kind, object)
	switch {
	case controller != nil && controller.UID != etcd.UID:
		f.controlled(etcd, controller)
	case adopted(etcd, object):
		return nil
	case controller == nil:
		f.orphaned(etcd, object)
	case manager != "" && manager != v1alpha1.ManagedBy:
		f.Reason, f.Whose = v1alpha1.ReasonManagedByAnother, fmt.Sprintf("is controlled by this Etcd and managed by %s, as its label %s says", manager, v1alpha1.LabelManagedBy)
		f.Remedy = "let one operator manage this Etcd" + adoption(etcd, manager)
	default:
		return nil
	}
	return f
}

// adoption returns what to do about an object that another operator manages.
func adoption(etcd *v1alpha1.Etcd, manager string) string {
	if manager != v1alpha1.ManagedByDruid {
		return fmt.Sprintf("; if %s no longer does, set the label to %s", manager, v1alpha1.ManagedBy)
	}
	return fmt.Sprintf("; to adopt it from %s, stop that, and run kubectl -n %s annotate etcd %s %s=%s", manager, etcd.Namespace, etcd.Name, v1alpha1.AnnotationOperation, v1alpha1.OperationAdopt)
}

// Manager returns the value of the label managed-by of the objects of an Etcd, given one that is its own, such as its StatefulSet:
// that of the operator from which the Etcd adopted it, or else empty.
func Manager(etcd *v1alpha1.Etcd, object metav1.Object) string {
	if manager := object.GetLabels()[v1alpha1.LabelManagedBy]; manager != v1alpha1.ManagedBy && adopted(etcd, object) && metav1.IsControlledBy(object, etcd) {
		return manager
	}
	return ""
}

// LeftToDruid reports whether etcd-druid manages an object that the Etcd has not adopted: an operator that works on it is in executor mode.
func LeftToDruid(etcd *v1alpha1.Etcd, object metav1.Object) bool {
	return object.GetLabels()[v1alpha1.LabelManagedBy] == v1alpha1.ManagedByDruid && Of(etcd, "", object) != nil
}

// DruidIsBack reports whether etcd-druid has put its finalizer back on an object from which adoption has removed it.
func DruidIsBack(object metav1.Object) bool {
	return slices.Contains(object.GetFinalizers(), v1alpha1.FinalizerDruid)
}

// Contested returns that etcd-druid is back at an Etcd that was adopted from it, by its finalizer, which it sets before it writes objects.
func Contested(etcd *v1alpha1.Etcd) *Foreign {
	f := foreign(v1alpha1.KindEtcd, etcd)
	f.Reason, f.Whose = v1alpha1.ReasonDruidActive, fmt.Sprintf("was adopted from etcd-druid, which has put its finalizer %s back", v1alpha1.FinalizerDruid)
	f.Remedy = fmt.Sprintf("scale etcd-druid to 0, and run kubectl -n %s annotate etcd %s %s=%s", etcd.Namespace, etcd.Name, v1alpha1.AnnotationOperation, v1alpha1.OperationAdopt)
	return f
}

// Unconverted reports whether an Etcd has adopted a StatefulSet whose pods are etcd-druid's: nothing of the spec has been applied to it yet.
func Unconverted(etcd *v1alpha1.Etcd, set metav1.Object) bool {
	return Manager(etcd, set) != "" && set.GetAnnotations()[v1alpha1.AnnotationAppliedChecksum] == ""
}

// Adoptable reports whether an object is one that an Etcd may adopt from etcd-druid: the Etcd controls it, and etcd-druid has
// managed it.
func Adoptable(etcd *v1alpha1.Etcd, object metav1.Object) bool {
	return metav1.IsControlledBy(object, etcd) && object.GetLabels()[v1alpha1.LabelManagedBy] == v1alpha1.ManagedByDruid
}

// adopted reports whether an Etcd has adopted an object.
func adopted(etcd *v1alpha1.Etcd, object metav1.Object) bool {
	by := object.GetAnnotations()[v1alpha1.AnnotationAdoptedBy]
	return by != "" && types.UID(by) == etcd.UID
}

func foreign(kind string, object metav1.Object) *Foreign {
	return &Foreign{Kind: kind, Name: object.GetNamespace() + "/" + object.GetName()}
}

// controlled is said of an object with another controller.
func (f *Foreign) controlled(etcd *v1alpha1.Etcd, by *metav1.OwnerReference) {
	f.Reason = v1alpha1.ReasonControlledByAnother
	if by.Kind == v1alpha1.KindEtcd && by.Name == etcd.Name && strings.HasPrefix(by.APIVersion, v1alpha1.GroupVersion.Group+"/") {
		f.Whose = fmt.Sprintf("is controlled by an earlier Etcd of this name (UID %s)", by.UID)
		f.Remedy = "wait until the garbage collector has removed it"
		return
	}
	f.Whose = fmt.Sprintf("is controlled by %s %s (UID %s)", by.Kind, by.Name, by.UID)
	f.Remedy = f.giveWay()
}

// orphaned is said of an object without a controller. One with the labels of the Etcd's own has probably lost it.
func (f *Foreign) orphaned(etcd *v1alpha1.Etcd, object metav1.Object) {
	f.Reason, f.Whose = v1alpha1.ReasonNoController, "has no controller"
	if !labeled(etcd, object) {
		f.Remedy = f.giveWay()
		return
	}
	f.Whose = "has the labels of this Etcd and no controller"
	f.Remedy = fmt.Sprintf("if its owner reference was removed, put it back: kubectl -n %s patch %s %s -p '%s'%s",
		object.GetNamespace(), strings.ToLower(f.Kind), object.GetName(), reference(etcd), afterDeletion[f.Kind])
}

// giveWay returns what to do about an object that is not the Etcd's.
func (f *Foreign) giveWay() string {
	return fmt.Sprintf("give the Etcd another name, or delete the %s if it is unused", f.Kind)
}

// reference is a patch with the owner reference of an Etcd's own object.
func reference(etcd *v1alpha1.Etcd) string {
	return fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"controller":true,"blockOwnerDeletion":true}]}}`,
		v1alpha1.GroupVersion, v1alpha1.KindEtcd, etcd.Name, etcd.UID)
}

// afterDeletion says, by kind, what happens if the object is deleted instead.
var afterDeletion = map[string]string{
	"StatefulSet": "; do not delete it: its pods go with it, and with whenDeleted: Delete their volumes too " +
		"(kubectl delete --cascade=orphan keeps both, and the operator creates a StatefulSet that adopts them)",
	"ConfigMap":           "; do not delete it while a member starts: members read the identity of their cluster from it",
	"Service":             "; or delete it: the address is gone until the operator recreates it",
	"ServiceAccount":      "; or delete it: the tokens of the running agents become invalid, and for up to an hour they renew no lease",
	"Role":                "; or delete it: the operator recreates it",
	"RoleBinding":         "; or delete it: the operator recreates it",
	"Lease":               "; or, unless it is one of snapshots, which would forget where a restore has to begin, delete it: the operator recreates it, and the agents renew it",
	"PodDisruptionBudget": "; or delete it: nothing limits evictions until the operator recreates it",
}

// labeled reports whether an object has the labels by which the StatefulSet of an Etcd selects what it makes.
func labeled(etcd *v1alpha1.Etcd, object metav1.Object) bool {
	labels := object.GetLabels()
	return (labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy || labels[v1alpha1.LabelCreatedBy] == v1alpha1.ManagedBy) && labels[v1alpha1.LabelPartOf] == etcd.Name
}

// OfClaim returns what makes a claim foreign to an Etcd; nil if it is the Etcd's own. The StatefulSet controller gives the claims that it
// creates the labels of the StatefulSet's selector, and at most a controller reference.
func OfClaim(etcd *v1alpha1.Etcd, claim metav1.Object) *Foreign {
	f := foreign("PersistentVolumeClaim", claim)
	f.Reason = v1alpha1.ReasonClaimNotOwned
	if owner := ownerOfClaim(etcd, claim); owner != nil {
		f.Whose = fmt.Sprintf("belongs to %s %s (UID %s)", owner.Kind, owner.Name, owner.UID)
		f.Remedy = "create the Etcd under another name, or with another volumeClaimTemplate"
		return f
	}
	if labeled(etcd, claim) || adopted(etcd, claim) {
		return nil
	}
	f.Whose = "has neither the labels of this Etcd's claims nor the annotation of its adoption"
	if labels := claim.GetLabels(); labels[v1alpha1.LabelPartOf] != "" && labels[v1alpha1.LabelPartOf] != etcd.Name {
		f.Whose = fmt.Sprintf("is part of %s, as its label %s says", labels[v1alpha1.LabelPartOf], v1alpha1.LabelPartOf)
	}
	f.Remedy = fmt.Sprintf("if its volume is that of a member of this Etcd, run kubectl -n %s annotate persistentvolumeclaim %s %s=%s; "+
		"otherwise create the Etcd under another name, or with another volumeClaimTemplate", claim.GetNamespace(), claim.GetName(), v1alpha1.AnnotationAdoptedBy, etcd.UID)
	return f
}

// ownerOfClaim returns an owner of a claim that is not the Etcd's; nil if there is none. The StatefulSet of an Etcd has its name, and the
// StatefulSet controller makes the StatefulSet or one of its pods the owner of a claim.
func ownerOfClaim(etcd *v1alpha1.Etcd, claim metav1.Object) *metav1.OwnerReference {
	for _, o := range claim.GetOwnerReferences() {
		switch {
		case o.Kind == "StatefulSet" && o.Name == etcd.Name:
		case o.Kind == "Pod" && strings.HasPrefix(o.Name, etcd.Name+"-"):
		default:
			return &o
		}
	}
	return nil
}

// OfJob returns what makes a Job foreign to an Etcd or a task that needs a Job of that name; nil if it is its own.
func OfJob(owner metav1.Object, job metav1.Object) *Foreign {
	controller := metav1.GetControllerOf(job)
	if controller != nil && controller.UID == owner.GetUID() {
		return nil
	}
	f := foreign("Job", job)
	f.Reason, f.Whose = v1alpha1.ReasonNoController, "has no controller"
	if controller != nil {
		f.Reason, f.Whose = v1alpha1.ReasonControlledByAnother, fmt.Sprintf("is controlled by %s %s (UID %s)", controller.Kind, controller.Name, controller.UID)
	}
	f.Remedy = "delete the Job if it is unused"
	return f
}

// Suffix returns a part of a name that is derived from the UID of the object for which another one is created.
func Suffix(owner types.UID) string {
	h := fnv.New32a()
	// A hash never fails to write.
	_, _ = h.Write([]byte(owner))
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}
