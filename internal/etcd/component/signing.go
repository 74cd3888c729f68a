// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"fmt"
	"path"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
)

// signingVolume is the volume with the keys that sign snapshots.
const signingVolume = "signing-keys"

// signing returns how snapshots of an Etcd are signed; nil if they are not, or if there is no store.
func signing(etcd *v1alpha1.Etcd) *v1alpha1.SigningSpec {
	if BackupStore(etcd) == nil {
		return nil
	}
	return etcd.Spec.Backup.Signing
}

// SigningKeys returns what a pod of an Etcd needs to sign snapshots, and to verify those of stores in some roles; nil if snapshots
// are not signed. It returns an error for a Secret of another namespace.
func SigningKeys(etcd *v1alpha1.Etcd, roles ...StoreRole) (*StoreAccess, error) {
	spec := signing(etcd)
	if spec == nil {
		return nil, nil
	}
	switch ref := spec.SecretRef; {
	case ref.Name == "":
		return nil, fmt.Errorf("spec.backup.signing: it needs a secretRef")
	case ref.Namespace != "" && ref.Namespace != etcd.Namespace:
		return nil, fmt.Errorf("spec.backup.signing: secretRef is in namespace %s; only Secrets of namespace %s may be used", ref.Namespace, etcd.Namespace)
	}
	dir := path.Join(storeDir, signingVolume)
	access := &StoreAccess{
		Volume: corev1ac.Volume().WithName(signingVolume).WithSecret(corev1ac.SecretVolumeSource().WithSecretName(spec.SecretRef.Name).WithDefaultMode(secretMode)),
		Mount:  corev1ac.VolumeMount().WithName(signingVolume).WithMountPath(dir).WithReadOnly(true),
	}
	for _, role := range roles {
		access.Args = append(access.Args, fmt.Sprintf("--%sstore-signing-keys=%s", role, dir))
	}
	return access, nil
}

// acceptance returns what a restore may use although it is not verified, for the ConfigMap of the members.
func acceptance(etcd *v1alpha1.Etcd) (string, error) {
	spec := ptr.Deref(signing(etcd), v1alpha1.SigningSpec{})
	accept := member.Acceptance{Revision: ptr.Deref(spec.AcceptRevision, 0)}
	if spec.AcceptUnsignedUntil != nil {
		accept.UnsignedUntil = spec.AcceptUnsignedUntil.UTC().Format(time.RFC3339)
	}
	return accept.Encode()
}
