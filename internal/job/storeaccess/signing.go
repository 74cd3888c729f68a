// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package storeaccess

import (
	"fmt"
	"path"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// signingVolume is the volume with the keys that sign snapshots.
const signingVolume = "signing-keys"

// secretMode lets the containers' group read.
const secretMode = 0o440

// SigningKeys returns what a pod of an Etcd needs to sign snapshots, and to verify those of stores in some roles; nil if snapshots
// are not signed. It returns an error for a Secret of another namespace.
func SigningKeys(etcd *v1alpha1.Etcd, roles ...Role) (*Access, error) {
	spec := etcd.Signing()
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
	access := &Access{
		Volume: corev1ac.Volume().WithName(signingVolume).WithSecret(corev1ac.SecretVolumeSource().WithSecretName(spec.SecretRef.Name).WithDefaultMode(secretMode)),
		Mount:  corev1ac.VolumeMount().WithName(signingVolume).WithMountPath(dir).WithReadOnly(true),
	}
	for _, role := range roles {
		access.Args = append(access.Args, fmt.Sprintf("--%sstore-signing-keys=%s", role, dir))
	}
	return access, nil
}
