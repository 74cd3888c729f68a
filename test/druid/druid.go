// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package druid imitates etcd-druid for tests: how it writes the objects of an Etcd, what it concludes from the status of a
// StatefulSet, its CRD without the schema, and the rules of its webhook. The objects are those of etcd-druid v0.38 in an API server's
// audit log, with fewer arguments of etcd-backup-restore and less of etcd's configuration.
//
// It imports clients of Kubernetes, and of this project the API only.
package druid

import (
	"context"
	_ "embed"
	"fmt"
	"maps"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/yaml"
)

const (
	// Name is the name of the Etcd, and of its StatefulSet.
	Name = "etcd-main"
	// Members is their number.
	Members = 3
	// Manifests is the file with the CRD, and the webhook's rules as a policy, relative to the root of the repository.
	Manifests = "test/druid/testdata/druid.yaml"
	// username of etcd-druid, which its webhook lets write.
	username = "system:serviceaccount:garden:etcd-druid"
)

//go:embed testdata/etcd.yaml
var etcd []byte

// Etcd returns an Etcd with fields of etcd-druid that this project does not have. Its members serve clients with TLS, by the
// Secrets CASecret, ServerSecret and ClientSecret.
func Etcd(namespace string) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(etcd, &u.Object); err != nil {
		return nil, fmt.Errorf("decoding the Etcd: %w", err)
	}
	u.SetNamespace(namespace)
	return u, nil
}

// The Secrets of the Etcd.
const (
	CASecret     = "ca-etcd-bundle"
	ServerSecret = "etcd-server"
	ClientSecret = "etcd-client"
)

// Druid reconciles one Etcd.
type Druid struct {
	// Client sends requests as etcd-druid.
	Client client.Client
	// Etcd as it is in the API server: its members serve clients with TLS if it says so.
	Etcd client.Object
	// Adapt changes the pod template to what a test can run: there are no images of etcd-druid's. May be nil.
	Adapt func(*corev1.PodTemplateSpec)
	// Storage gives each member a volume, as etcd-druid does; without it a member has an empty folder.
	Storage bool
}

// NewClient returns a client that sends requests as etcd-druid.
func NewClient(config *rest.Config, scheme *runtime.Scheme) (client.Client, error) {
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{UserName: username, Groups: []string{"system:masters"}}
	return client.New(as, client.Options{Scheme: scheme})
}

// Reconcile writes what each reconciliation of etcd-druid does: its finalizer, and merge patches from what is there to the objects. Of
// a StatefulSet it writes the whole metadata, the whole template, and RollingUpdate. The template differs by a checksum, as after a
// change of the configuration.
func (d Druid) Reconcile(ctx context.Context, checksum string) error {
	if err := d.finalize(ctx, true); err != nil {
		return err
	}
	objects, err := d.objects()
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := d.write(ctx, object); err != nil {
			return fmt.Errorf("reconciling %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
		}
	}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: d.Etcd.GetNamespace(), Name: Name}}
	if _, err := controllerutil.CreateOrPatch(ctx, d.Client, set, func() error {
		d.Build(set, checksum)
		return nil
	}); err != nil {
		return fmt.Errorf("reconciling StatefulSet %s/%s: %w", set.Namespace, set.Name, err)
	}
	return d.done(ctx)
}

// Build overwrites what etcd-druid writes of a StatefulSet.
func (d Druid) Build(set *appsv1.StatefulSet, checksum string) {
	selector := map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByDruid, v1alpha1.LabelPartOf: Name}
	labels := maps.Clone(selector)
	labels[v1alpha1.LabelComponent], labels[v1alpha1.LabelName] = v1alpha1.ComponentStatefulSet, Name
	set.ObjectMeta = metav1.ObjectMeta{Namespace: d.Etcd.GetNamespace(), Name: Name, Labels: labels, OwnerReferences: d.owner()}
	set.Spec.Template = template(maps.Clone(labels), checksum, d.clientTLS())
	if d.Adapt != nil {
		d.Adapt(&set.Spec.Template)
	}
	set.Spec.Replicas = ptr.To(int32(Members))
	set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: selector}
	set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	set.Spec.ServiceName = PeerService
	if d.Storage {
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claim(d.text("16Gi", "spec", "storageCapacity"))}
	} else {
		volumes := &set.Spec.Template.Spec.Volumes
		*volumes = append(*volumes, corev1.Volume{Name: Name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
}

// Ready reports, as a reason why not, whether etcd-druid shows the StatefulSet's Etcd as ready. Empty if it does.
func Ready(set *appsv1.StatefulSet) string {
	s := set.Status
	switch {
	case s.ObservedGeneration < set.Generation:
		return "the generation is not observed"
	case s.ReadyReplicas < Members:
		return fmt.Sprintf("%d of %d replicas are ready", s.ReadyReplicas, Members)
	case s.CurrentRevision != s.UpdateRevision:
		return fmt.Sprintf("currentRevision is %s and updateRevision %s", s.CurrentRevision, s.UpdateRevision)
	case s.CurrentReplicas != s.UpdatedReplicas:
		return fmt.Sprintf("%d replicas are current and %d updated", s.CurrentReplicas, s.UpdatedReplicas)
	}
	return ""
}

// AllMembersUpdated reports whether etcd-druid's condition of that name is True.
func AllMembersUpdated(set *appsv1.StatefulSet) bool {
	s := set.Status
	return s.ObservedGeneration == set.Generation && s.UpdatedReplicas == Members && s.CurrentRevision == s.UpdateRevision
}
