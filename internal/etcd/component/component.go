// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package component builds the objects of an Etcd, one file for each kind. Its functions are pure, and return apply
// configurations with only the fields that the operator owns.
package component

import (
	"cmp"
	"maps"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
)

// Input of the objects of an Etcd.
type Input struct {
	Etcd *v1alpha1.Etcd
	// Images for an Etcd that does not name its own.
	Images configv1alpha1.Images
	// TLS restricts the versions and cipher suites of members.
	TLS configv1alpha1.TLS
	// Replicas of the StatefulSet.
	Replicas int32
	// Members is how many members there may be, with one that stands in; 0 for the Replicas.
	Members int32
	// Capacity and Class of the volume claim template. They cannot be changed once the StatefulSet exists.
	Capacity resource.Quantity
	Class    string
	// Retention of the claims.
	Retention v1alpha1.PersistentVolumeClaimRetentionPolicy
	// Strategy is the update strategy of the StatefulSet.
	Strategy appsv1.StatefulSetUpdateStrategyType
	// PeerTLS is the stage of TLS among the members.
	PeerTLS PeerTLS
	// Authorities is a checksum of the CAs that the members trust; empty without TLS.
	Authorities string
	// Manager is the value of the label managed-by: that of etcd-druid for a cluster that was adopted from it, since a selector
	// cannot be changed. Empty is this operator.
	Manager string
	// PodsManagedBy is the value of that label on pods and claims, and in the selector of the StatefulSet; empty if it is the same.
	PodsManagedBy string
	// Converting: pods of etcd-druid run. They use their ServiceAccount in another way, so what it may do stays as it is.
	Converting bool

	// config caches the result of sharedConfig.
	config string
}

// Objects returns the objects of an Etcd in the order in which they are applied: what pods need before the pods.
func Objects(in Input) ([]runtime.ApplyConfiguration, error) {
	var err error
	if in.config, err = sharedConfig(in); err != nil {
		return nil, err
	}
	config, err := ConfigMap(in)
	if err != nil {
		return nil, err
	}
	set, err := statefulSet(in)
	if err != nil {
		return nil, err
	}
	var objects []runtime.ApplyConfiguration
	if !in.Converting {
		objects = append(objects, serviceAccount(in), role(in), roleBinding(in))
	}
	for _, lease := range leases(in) {
		objects = append(objects, lease)
	}
	return append(objects, config, clientService(in), peerService(in), podDisruptionBudget(in), set), nil
}

// Annotations returns what each object of the Etcd is annotated with.
func (in Input) Annotations() map[string]string {
	if !v1alpha1.IsAdopted(in.Manager) {
		return nil
	}
	return map[string]string{v1alpha1.AnnotationAdoptedBy: string(in.Etcd.UID)}
}

// Containers returns the images of the containers of a member, by their names.
func (in Input) Containers() map[string]string {
	return map[string]string{v1alpha1.ContainerEtcd: in.Etcd.EtcdImage(in.Images.Etcd), v1alpha1.ContainerBackupRestore: agentImage(in)}
}

// labels of an object of an Etcd.
func (in Input) labels(component, name string) map[string]string {
	l := statefulSetSelector(in.Etcd.Name, in.Manager)
	l[v1alpha1.LabelComponent] = component
	l[v1alpha1.LabelName] = name
	return l
}

// podLabels are those of the member pods.
func (in Input) podLabels() map[string]string {
	l := in.labels(v1alpha1.ComponentStatefulSet, in.Etcd.Name)
	l[v1alpha1.LabelManagedBy] = in.podsManagedBy()
	return l
}

func (in Input) podsManagedBy() string {
	return cmp.Or(in.PodsManagedBy, in.Manager, v1alpha1.ManagedBy)
}

// statefulSetSelector selects the pods of the StatefulSet. It cannot be changed once the StatefulSet exists.
func statefulSetSelector(etcd, manager string) map[string]string {
	return map[string]string{
		v1alpha1.LabelManagedBy: cmp.Or(manager, v1alpha1.ManagedBy),
		v1alpha1.LabelPartOf:    etcd,
	}
}

// MemberSelector selects only member pods; the StatefulSet's selector also matches pods of Jobs.
func MemberSelector(etcd, manager string) map[string]string {
	s := statefulSetSelector(etcd, manager)
	s[v1alpha1.LabelComponent] = v1alpha1.ComponentStatefulSet
	return s
}

// owner makes the Etcd the controller of an object, so that the object is garbage collected with it.
func owner(etcd *v1alpha1.Etcd) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(v1alpha1.GroupVersion.String()).
		WithKind(v1alpha1.KindEtcd).
		WithName(etcd.Name).
		WithUID(etcd.UID).
		WithController(true).
		WithBlockOwnerDeletion(true)
}

// over merges ours over the user's.
func over(users, ours map[string]string) map[string]string {
	merged := maps.Clone(users)
	if merged == nil {
		return ours
	}
	maps.Copy(merged, ours)
	return merged
}
