// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/simulated"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// large is the size of a large object: almost what the API server takes.
	large = 900 << 10
	// largeTemplate is the size of the annotations of a pod template: almost what the API server takes.
	largeTemplate = 200 << 10
	// changePause is between two changes of large objects. More often than this, the database of the API server would be full.
	changePause = time.Second
)

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: simulated.Crowd, Name: name}
}

// ours are the labels of the operator's objects.
func ours(name string) map[string]string {
	return map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: name, v1alpha1.LabelComponent: v1alpha1.ComponentStatefulSet}
}

// filler is text that differs from that with another number.
func filler(n, size int) string { return fmt.Sprint(n) + strings.Repeat("x", size) }

func (a *Attacker) etcd(name string) *v1alpha1.Etcd {
	return &v1alpha1.Etcd{ObjectMeta: meta(name), Spec: v1alpha1.EtcdSpec{Replicas: 1, Etcd: v1alpha1.EtcdConfig{ClientPort: ptr.To(int32(a.fleet.Port))}}}
}

// Settle makes the Etcds that are to hang later, while their members answer: what an honest tenant has.
func (a *Attacker) Settle(ctx context.Context) error {
	for i := a.first; i < a.first+a.hanging; i++ {
		if err := a.client.Create(ctx, a.etcd(simulated.CrowdedName(i))); err != nil {
			return fmt.Errorf("creating Etcd %s: %w", simulated.CrowdedName(i), err)
		}
	}
	return nil
}

// hangingEtcds has the members of Etcds accept requests and never answer, though their probes pass, and has each restarted.
func (a *Attacker) hangingEtcds(ctx context.Context) (goOn func(n int)) {
	for i := a.first; i < a.first+a.hanging && ctx.Err() == nil; i++ {
		a.fleet.Freeze(true, i)
		a.create(ctx, "Etcds that hang", a.etcd(simulated.CrowdedName(i)))
		task := &v1alpha1.EtcdOperatorTask{ObjectMeta: meta(simulated.CrowdedName(i)), Spec: v1alpha1.EtcdOperatorTaskSpec{
			Type: v1alpha1.QuorumAwareRollout, Config: "restart: true", OwnerEtcdReference: v1alpha1.EtcdReference{Name: simulated.CrowdedName(i)},
		}}
		a.create(ctx, "rollouts of Etcds that hang", task)
	}
	return nil
}

// configMaps makes large ConfigMaps that look like the operator's, and changes one after the other.
func (a *Attacker) configMaps(ctx context.Context) (goOn func(n int)) {
	const kind = "large ConfigMaps, labeled"
	for i := range a.size.ConfigMaps {
		a.create(ctx, kind, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: simulated.Crowd, Name: fmt.Sprintf("large-%d", i), Labels: ours("none")}, Data: map[string]string{"a": filler(i, large)}})
	}
	if a.size.ConfigMaps == 0 {
		return nil
	}
	return func(n int) {
		o := &corev1.ConfigMap{ObjectMeta: meta(fmt.Sprintf("large-%d", n%a.size.ConfigMaps))}
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, n))
		a.try(ctx, "changes of large ConfigMaps", a.client.Patch(ctx, o, patch))
	}
}

// statefulSet changes the large template of a StatefulSet that looks like the operator's.
func (a *Attacker) statefulSet(ctx context.Context) (goOn func(n int)) {
	const kind = "updates of a large StatefulSet"
	labels := ours("none")
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: simulated.Crowd, Name: "large", Labels: labels}, Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To[int32](0), ServiceName: "none", Selector: &metav1.LabelSelector{MatchLabels: labels}, RevisionHistoryLimit: ptr.To[int32](1),
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: v1alpha1.ContainerEtcd, Image: "localhost/etcd:v1", Env: []corev1.EnvVar{{Name: "A", Value: filler(0, large/2)}},
		}}}},
	}}
	a.create(ctx, kind, set)
	return func(n int) {
		set.Spec.Template.Spec.Containers[0].Env[0].Value = filler(n, large/2)
		set.ResourceVersion = ""
		a.try(ctx, kind, a.client.Update(ctx, set))
	}
}

// template changes the large template of an Etcd.
func (a *Attacker) template(ctx context.Context) (goOn func(n int)) {
	const kind = "changes of a large template"
	name := "changing"
	a.create(ctx, kind, a.etcd(name))
	return func(n int) {
		patch := fmt.Sprintf(`{"spec":{"annotations":{"a":%q}}}`, filler(n, largeTemplate))
		a.try(ctx, kind, a.client.Patch(ctx, &v1alpha1.Etcd{ObjectMeta: meta(name)}, client.RawPatch("application/merge-patch+json", []byte(patch))))
	}
}

// authority makes Etcds whose CA has a key that takes long to check a signature with.
func (a *Attacker) authority(ctx context.Context) (goOn func(n int)) {
	const kind = "Etcds with a giant key"
	secrets, err := giantKey(a.size.KeyBytes)
	if err != nil {
		a.try(ctx, kind, fmt.Errorf("%w: %w", errNoKey, err))
		return nil
	}
	for name, data := range secrets {
		a.create(ctx, kind, &corev1.Secret{ObjectMeta: meta(name), Data: data})
	}
	for i := range 5 {
		e := a.etcd(fmt.Sprintf("giant-%d", i))
		e.Spec.Etcd.ClientURLTLS = &v1alpha1.ClientURLTLS{
			TLSCASecretRef:     v1alpha1.CASecretReference{SecretReference: v1alpha1.SecretReference{Name: secretCA}},
			ServerTLSSecretRef: v1alpha1.SecretReference{Name: secretPair}, ClientTLSSecretRef: v1alpha1.SecretReference{Name: secretPair},
		}
		a.create(ctx, kind, e)
	}
	return nil
}

// copies makes copies of backups that wait for a snapshot that never comes.
func (a *Attacker) copies(ctx context.Context) (goOn func(n int)) {
	for i := range a.size.Copies {
		store := func(prefix string) v1alpha1.StoreSpec {
			return v1alpha1.StoreSpec{Provider: v1alpha1.ProviderS3, Container: "store", Prefix: prefix, SecretRef: &v1alpha1.SecretReference{Name: secretPair}}
		}
		a.create(ctx, "copies of backups", &v1alpha1.EtcdCopyBackupsTask{ObjectMeta: meta(fmt.Sprintf("copy-%d", i)), Spec: v1alpha1.EtcdCopyBackupsTaskSpec{
			SourceStore: store(simulated.Crowd + "/a"), TargetStore: store(fmt.Sprintf("%s/b-%d", simulated.Crowd, i)),
			WaitForFinalSnapshot: &v1alpha1.WaitForFinalSnapshotSpec{Enabled: true},
		}})
	}
	return nil
}
