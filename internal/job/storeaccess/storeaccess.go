// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package storeaccess says how a pod, of a member or of a Job, uses a store, and the keys that sign and encrypt its snapshots. It is pure.
package storeaccess

import (
	"cmp"
	"fmt"
	"path"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
)

// storeDir is where stores and their credentials are mounted.
const storeDir = "/var/etcd/store"

// Access is what a pod needs to use a store. Credentials are only in files of a mounted Secret, not in arguments or
// variables, and a changed Secret takes effect without a new pod.
type Access struct {
	// Volume of the pod; nil if the pod uses the identity that the cloud gives it.
	Volume *corev1ac.VolumeApplyConfiguration
	// Mount of the volume in the agent's container; nil without a volume.
	Mount *corev1ac.VolumeMountApplyConfiguration
	// Args of the agent: flags that start with "--", the role, and "store-".
	Args []string
}

// Mounts returns the mount, if there is one.
func (a Access) Mounts() []*corev1ac.VolumeMountApplyConfiguration {
	if a.Mount == nil {
		return nil
	}
	return []*corev1ac.VolumeMountApplyConfiguration{a.Mount}
}

// Role distinguishes the stores of one pod. It is the prefix of the agent's flags.
type Role string

// The roles.
const (
	// Main is the only store of a pod, or the target of a copy.
	Main Role = ""
	// Source is the source of a copy.
	Source Role = "source-"
)

// Of returns how a pod in a namespace uses a store. It returns an error for a store that Validate refuses.
func Of(store v1alpha1.StoreSpec, namespace string, role Role) (Access, error) {
	if err := Validate(store, namespace); err != nil {
		return Access{}, err
	}
	name := string(role) + "store"
	dir := path.Join(storeDir, cmp.Or(string(role), "main-")+"store")
	provider := store.Provider.Canonical()
	access := Access{
		Args: []string{
			fmt.Sprintf("--%s-provider=%s", name, provider),
			fmt.Sprintf("--%s-prefix=%s", name, store.Prefix),
		},
	}
	if provider == v1alpha1.ProviderLocal {
		access.Mount = corev1ac.VolumeMount().WithName(name).WithMountPath(dir)
		access.Volume = corev1ac.Volume().WithName(name).WithPersistentVolumeClaim(
			corev1ac.PersistentVolumeClaimVolumeSource().WithClaimName(store.Container))
		access.Args = append(access.Args, fmt.Sprintf("--%s-container=%s", name, dir))
		return access, nil
	}
	access.Args = append(access.Args, fmt.Sprintf("--%s-container=%s", name, store.Container))
	if endpoint := ptr.Deref(store.EndpointOverride, ""); endpoint != "" {
		access.Args = append(access.Args, fmt.Sprintf("--%s-endpoint=%s", name, endpoint))
	}
	if store.SecretRef != nil {
		access.Volume = corev1ac.Volume().WithName(name).WithSecret(corev1ac.SecretVolumeSource().WithSecretName(store.SecretRef.Name))
		access.Mount = corev1ac.VolumeMount().WithName(name).WithMountPath(dir).WithReadOnly(true)
		access.Args = append(access.Args, fmt.Sprintf("--%s-credentials=%s", name, dir))
	}
	return access, nil
}

// Validate returns an error if a store cannot be used by an object in a namespace. The API server may have admitted a
// provider without a driver, or a Secret of another namespace.
func Validate(store v1alpha1.StoreSpec, namespace string) error {
	provider := store.Provider.Canonical()
	switch {
	case provider == "":
		return fmt.Errorf("store: provider %q is not supported; use S3 or an S3-compatible service, GCS, ABS or Local", store.Provider)
	case store.Container == "":
		return fmt.Errorf("store: the container is missing")
	case provider == v1alpha1.ProviderLocal && store.SecretRef != nil:
		return fmt.Errorf("store: a store of provider %s has no secretRef", store.Provider)
	case provider == v1alpha1.ProviderLocal:
		return nil
	case store.SecretRef == nil && provider == v1alpha1.ProviderABS:
		return fmt.Errorf("store: a store of provider %s needs a secretRef, which names the storage account", store.Provider)
	case store.SecretRef == nil:
		return nil
	}
	if err := checkSecret("secretRef", *store.SecretRef, namespace); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

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
	if err := checkSecret("secretRef", spec.SecretRef, etcd.Namespace); err != nil {
		return nil, fmt.Errorf("spec.backup.signing: %w", err)
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

// identitiesVolume is the volume with the identities that decrypt snapshots.
const identitiesVolume = "identities"

// Encryption returns what a pod of an Etcd needs to encrypt snapshots, and to decrypt them; nil if they are not encrypted. A pod
// starts without the Secret, and finds it later: a member needs no backup to start with its data. It returns an error for a Secret of
// another namespace, and for a recipient that is none.
func Encryption(etcd *v1alpha1.Etcd) (*Access, error) {
	spec := etcd.Encryption()
	if spec == nil {
		return nil, nil
	}
	access := &Access{}
	for _, recipient := range spec.Recipients {
		if _, err := backup.ParseRecipient(string(recipient)); err != nil {
			return nil, fmt.Errorf("spec.backup.encryption: %w", err)
		}
		access.Args = append(access.Args, "--store-recipients="+string(recipient))
	}
	if ref := spec.IdentitySecretRef; ref != nil {
		if err := checkSecret("identitySecretRef", *ref, etcd.Namespace); err != nil {
			return nil, fmt.Errorf("spec.backup.encryption: %w", err)
		}
		dir := path.Join(storeDir, identitiesVolume)
		access.Volume = corev1ac.Volume().WithName(identitiesVolume).WithSecret(
			corev1ac.SecretVolumeSource().WithSecretName(ref.Name).WithDefaultMode(secretMode).WithOptional(true))
		access.Mount = corev1ac.VolumeMount().WithName(identitiesVolume).WithMountPath(dir).WithReadOnly(true)
		access.Args = append(access.Args, "--store-identities="+dir)
	}
	return access, nil
}

// Own returns how a Job uses the store of an Etcd: the store itself, and the keys of its snapshots.
func Own(etcd *v1alpha1.Etcd) ([]Access, error) {
	store := etcd.BackupStore()
	if store == nil {
		return nil, fmt.Errorf("the Etcd %s has no spec.backup.store any more", etcd.Name)
	}
	access, err := Of(*store, etcd.Namespace, Main)
	if err != nil {
		return nil, err
	}
	all := []Access{access}
	keys, err := SigningKeys(etcd, Main)
	if err != nil {
		return nil, err
	}
	encryption, err := Encryption(etcd)
	if err != nil {
		return nil, err
	}
	for _, further := range []*Access{keys, encryption} {
		if further != nil {
			all = append(all, *further)
		}
	}
	return all, nil
}

// checkSecret returns an error unless a field names a Secret in a namespace.
func checkSecret(field string, ref v1alpha1.SecretReference, namespace string) error {
	switch {
	case ref.Name == "":
		return fmt.Errorf("%s has no name", field)
	case ref.Namespace != "" && ref.Namespace != namespace:
		return fmt.Errorf("%s is in namespace %s; only Secrets of namespace %s may be used", field, ref.Namespace, namespace)
	}
	return nil
}
