// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var etcd = &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot-a", Name: "etcd-main", UID: "mine"}}

func object(change ...func(*metav1.ObjectMeta)) *metav1.ObjectMeta {
	o := &metav1.ObjectMeta{Namespace: "shoot-a", Name: "etcd-main-client"}
	for _, c := range change {
		c(o)
	}
	return o
}

func owner(kind, name string, uid types.UID, controls bool) func(*metav1.ObjectMeta) {
	return func(o *metav1.ObjectMeta) {
		r := metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: name, UID: uid}
		if kind == v1alpha1.KindEtcd {
			r.APIVersion = v1alpha1.GroupVersion.String()
		}
		if controls {
			r.Controller = ptr.To(true)
		}
		o.OwnerReferences = append(o.OwnerReferences, r)
	}
}

func label(key, value string) func(*metav1.ObjectMeta) {
	return func(o *metav1.ObjectMeta) { metav1.SetMetaDataLabel(o, key, value) }
}

func adoptedBy(uid string) func(*metav1.ObjectMeta) {
	return func(o *metav1.ObjectMeta) { metav1.SetMetaDataAnnotation(o, v1alpha1.AnnotationAdoptedBy, uid) }
}

var (
	mine      = owner(v1alpha1.KindEtcd, "etcd-main", "mine", true)
	managed   = label(v1alpha1.LabelManagedBy, v1alpha1.ManagedBy)
	druids    = label(v1alpha1.LabelManagedBy, v1alpha1.ManagedByDruid)
	part      = label(v1alpha1.LabelPartOf, "etcd-main")
	others    = label(v1alpha1.LabelPartOf, "my-etcd-main")
	deploy    = owner("Deployment", "web", "other", true)
	notItsOwn = v1alpha1.ReasonControlledByAnother
)

// For an own object there is nothing to report. For a foreign one there is a reason, its owner and a remedy.
func TestOf(t *testing.T) {
	for name, c := range map[string]struct {
		object *metav1.ObjectMeta
		kind   string
		reason string
		says   []string
	}{
		"its own":                          {object(mine, managed, part), "Service", "", nil},
		"its own, without a label":         {object(mine), "Service", "", nil},
		"adopted from another operator":    {object(mine, druids, adoptedBy("mine")), "Service", "", nil},
		"adopted, without a controller":    {object(adoptedBy("mine")), "ServiceAccount", "", nil},
		"adopted, and owned by another":    {object(owner("Deployment", "web", "other", false), adoptedBy("mine")), "Service", "", nil},
		"adopted, and another controls it": {object(deploy, adoptedBy("mine")), "Service", notItsOwn, []string{"is controlled by Deployment web (UID other)"}},
		"adopted by another Etcd":          {object(adoptedBy("other")), "Service", v1alpha1.ReasonNoController, nil},
		"an empty annotation":              {object(adoptedBy("")), "Service", v1alpha1.ReasonNoController, nil},
		"without an owner": {object(), "ServiceAccount", v1alpha1.ReasonNoController,
			[]string{"ServiceAccount shoot-a/etcd-main-client has no controller: give the Etcd another name, or delete the ServiceAccount if it is unused"}},
		"the Etcd only owns it":   {object(owner(v1alpha1.KindEtcd, "etcd-main", "mine", false)), "Service", v1alpha1.ReasonNoController, nil},
		"its labels alone":        {object(managed, part), "Role", v1alpha1.ReasonNoController, []string{"has the labels of this Etcd and no controller", "put it back: kubectl -n shoot-a patch role etcd-main-client -p '{", `"uid":"mine"`, "or delete it"}},
		"an orphaned StatefulSet": {object(managed, part), "StatefulSet", v1alpha1.ReasonNoController, []string{"put it back", "do not delete it: its pods go with it", "--cascade=orphan"}},
		"an orphaned ConfigMap":   {object(managed, part), "ConfigMap", v1alpha1.ReasonNoController, []string{"put it back", "do not delete it"}},
		"another Etcd's":          {object(owner(v1alpha1.KindEtcd, "other", "other", true), managed), "Lease", notItsOwn, []string{"is controlled by Etcd other (UID other)", "another name"}},
		"of an earlier Etcd":      {object(owner(v1alpha1.KindEtcd, "etcd-main", "old", true), managed, part), "StatefulSet", notItsOwn, []string{"an earlier Etcd of this name (UID old): wait until the garbage collector"}},
		"an Etcd of another API": {object(func(o *metav1.ObjectMeta) {
			o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "etcd.io/v1", Kind: "Etcd", Name: "etcd-main", UID: "other", Controller: ptr.To(true)}}
		}), "Service", notItsOwn, []string{"is controlled by Etcd etcd-main (UID other): give"}},
		"foreign":                       {object(deploy), "Service", notItsOwn, []string{"is controlled by Deployment web (UID other): give the Etcd another name, or delete the Service if it is unused"}},
		"another operator's":            {object(mine, druids), "StatefulSet", v1alpha1.ReasonManagedByAnother, []string{"managed by etcd-druid", "kubectl -n shoot-a annotate etcd etcd-main druid.gardener.cloud/operation=adopt"}},
		"another operator's, and other": {object(deploy, druids), "StatefulSet", notItsOwn, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			expect(g, Of(etcd, c.kind, c.object), c.reason, c.says)
		})
	}
}

func expect(g *WithT, f *Foreign, reason string, says []string) {
	if reason == "" {
		g.Expect(f).To(BeNil())
		return
	}
	g.Expect(f).NotTo(BeNil())
	g.Expect(f.Reason).To(Equal(reason))
	g.Expect(f.Whose).NotTo(BeEmpty())
	g.Expect(f.Remedy).NotTo(BeEmpty())
	g.Expect(f.Name).To(HavePrefix("shoot-a/"))
	for _, s := range says {
		g.Expect(f.String()).To(ContainSubstring(s))
	}
}

// Each kind of object of an Etcd has its own remedy for a removed owner reference.
func TestEachKindHasARemedy(t *testing.T) {
	g := NewWithT(t)
	for _, kind := range []string{"ServiceAccount", "Role", "RoleBinding", "Lease", "ConfigMap", "Service", "PodDisruptionBudget", "StatefulSet"} {
		g.Expect(afterDeletion[kind]).NotTo(BeEmpty(), kind)
	}
}

func TestOfClaim(t *testing.T) {
	const no = v1alpha1.ReasonClaimNotOwned
	for name, c := range map[string]struct {
		claim  *metav1.ObjectMeta
		reason string
		says   []string
	}{
		"made by the StatefulSet":             {object(managed, part), "", nil},
		"owned by the StatefulSet":            {object(managed, part, owner("StatefulSet", "etcd-main", "set", true)), "", nil},
		"owned by its pod":                    {object(managed, part, owner("Pod", "etcd-main-2", "pod", false)), "", nil},
		"adopted":                             {object(adoptedBy("mine")), "", nil},
		"adopted by another":                  {object(adoptedBy("other")), no, nil},
		"restored by hand":                    {object(), no, []string{"has neither the labels", "kubectl -n shoot-a annotate persistentvolumeclaim etcd-main-client druid.gardener.cloud/adopted-by=mine"}},
		"one label is not enough":             {object(part), no, nil},
		"nor the other":                       {object(managed), no, nil},
		"of another Etcd":                     {object(managed, others), no, []string{"is part of my-etcd-main", "another volumeClaimTemplate"}},
		"of etcd-druid":                       {object(druids, part), no, nil},
		"of another StatefulSet":              {object(label("app", "web"), owner("StatefulSet", "my-etcd-main", "o", true)), no, []string{"belongs to StatefulSet my-etcd-main (UID o): create the Etcd under another name"}},
		"adopted, but still owned by another": {object(adoptedBy("mine"), owner("StatefulSet", "my-etcd-main", "o", false)), no, []string{"belongs to StatefulSet my-etcd-main"}},
		"its labels, but another owner":       {object(managed, part, owner("Backup", "b", "o", false)), no, []string{"belongs to Backup b"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			expect(g, OfClaim(etcd, c.claim), c.reason, c.says)
		})
	}
}

func TestOfJob(t *testing.T) {
	g := NewWithT(t)
	g.Expect(OfJob(etcd, object(mine))).To(BeNil())
	expect(g, OfJob(etcd, object(deploy)), v1alpha1.ReasonControlledByAnother, []string{"Job shoot-a/etcd-main-client is controlled by Deployment web (UID other): delete the Job if it is unused"})
	expect(g, OfJob(etcd, object(managed, part)), v1alpha1.ReasonNoController, nil)
	expect(g, OfJob(etcd, object(owner(v1alpha1.KindEtcd, "etcd-main", "mine", false))), v1alpha1.ReasonNoController, nil)
}
