// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "cmp"

// StorageProvider is the kind of a store. Each has the name of the infrastructure and that of the service.
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self in ['aws', 'S3', 's3', 'stackit', 'dell', 'ECS', 'ecs', 'openshift', 'OCS', 'ocs', 'openstack', 'Swift', 'swift', 'alicloud', 'OSS', 'oss', 'gcp', 'GCS', 'gcs', 'azure', 'ABS', 'abs', 'Local', 'local']",message="provider must be aws or S3, one of the S3-compatible stackit, dell (ECS), openshift (OCS), openstack (Swift) and alicloud (OSS), gcp or GCS, azure or ABS, or Local"
type StorageProvider string

// The providers, named after their services.
const (
	ProviderS3    StorageProvider = "S3"
	ProviderGCS   StorageProvider = "GCS"
	ProviderABS   StorageProvider = "ABS"
	ProviderLocal StorageProvider = "Local"
)

// Canonical returns the provider, named after its service; empty if there is no driver for it.
func (p StorageProvider) Canonical() StorageProvider {
	switch p {
	// All but the first are used by their S3-compatible endpoints.
	case "aws", "s3", ProviderS3, "stackit", "dell", "ECS", "ecs", "openshift", "OCS", "ocs", "openstack", "Swift", "swift", "alicloud", "OSS", "oss":
		return ProviderS3
	case "gcp", "gcs", ProviderGCS:
		return ProviderGCS
	case "azure", "abs", ProviderABS:
		return ProviderABS
	case "local", ProviderLocal:
		return ProviderLocal
	}
	return ""
}

// SecretReference names a Secret in the namespace of the object that refers to it.
type SecretReference struct {
	// name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// namespace of the Secret. Only the object's own namespace is allowed. Default: the object's namespace.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// StoreSpec is the store that backups are kept in.
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || !(self.provider in ['azure', 'ABS', 'abs']) || has(self.secretRef)",message="with provider azure or ABS, secretRef must be set: the Secret names the storage account"
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || !(self.provider in ['Local', 'local']) || !has(self.secretRef)",message="with provider Local, container is the name of a PersistentVolumeClaim, and secretRef must not be set: a host path is not supported"
type StoreSpec struct {
	// provider of the store: S3 (or aws), GCS (or gcp), ABS (or azure), Local, or one that is used by its S3-compatible
	// endpoint: stackit, ECS (or dell), OCS (or openshift), Swift (or openstack), OSS (or alicloud). Without it, an Etcd takes no
	// backups, and its condition BackupReady says so; a copy needs it.
	// +optional
	Provider StorageProvider `json:"provider,omitempty"`
	// container is the name of the bucket. With provider Local, it is the name of a PersistentVolumeClaim in the namespace.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][a-zA-Z0-9._-]{1,61}[a-zA-Z0-9]$`
	Container string `json:"container"`
	// prefix of the objects in the container, which are named <prefix>/v2/<snapshot>. It must be unique for each cluster.
	// Default, for an Etcd: <namespace>/<name>. A copy ignores a leading slash.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^/?([A-Za-z0-9_-][A-Za-z0-9._-]*)(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`
	// +optional
	Prefix string `json:"prefix,omitempty"`
	// endpointOverride is the URL of the service, in place of the provider's default and of the one in the Secret. It has no
	// effect with provider Local.
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self)",message="endpointOverride must be a URL"
	// +optional
	EndpointOverride *string `json:"endpointOverride,omitempty"`
	// secretRef names the Secret with the credentials. Its keys are those of Gardener's backup secrets. Without it, the pods
	// use the identity that the cloud gives them.
	// +optional
	SecretRef *SecretReference `json:"secretRef,omitempty"`
}

// HasBackupStore reports whether a backup store is configured. One without a provider is none.
func (e *Etcd) HasBackupStore() bool {
	return e.Spec.Backup != nil && e.Spec.Backup.Store != nil && e.Spec.Backup.Store.Provider != ""
}

// LacksProvider reports whether there is a store that cannot be used, because it names no provider.
func (e *Etcd) LacksProvider() bool {
	return e.Spec.Backup != nil && e.Spec.Backup.Store != nil && e.Spec.Backup.Store.Provider == ""
}

// BackupStore returns the backup store with its defaults; nil if none is configured.
func (e *Etcd) BackupStore() *StoreSpec {
	if !e.HasBackupStore() {
		return nil
	}
	store := e.Spec.Backup.Store.DeepCopy()
	store.Prefix = cmp.Or(store.Prefix, e.Namespace+"/"+e.Name)
	return store
}

// Signing returns how snapshots are signed; nil if they are not, or if there is no store.
func (e *Etcd) Signing() *SigningSpec {
	if !e.HasBackupStore() {
		return nil
	}
	return e.Spec.Backup.Signing
}

// Encryption returns how snapshots are encrypted; nil if they are not, and never were, or if there is no store.
func (e *Etcd) Encryption() *EncryptionSpec {
	if !e.HasBackupStore() {
		return nil
	}
	return e.Spec.Backup.Encryption
}

// ForPeopleOnly reports whether snapshots are encrypted without an identity on the cluster: only people can restore them.
func (e *Etcd) ForPeopleOnly() bool {
	spec := e.Encryption()
	return spec != nil && len(spec.Recipients) > 0 && spec.IdentitySecretRef == nil
}

// AgentImage returns the image of the agent that the Etcd names, or otherwise the operator's.
func (e *Etcd) AgentImage(otherwise string) string {
	if b := e.Spec.Backup; b != nil && b.Image != nil && *b.Image != "" {
		return *b.Image
	}
	return otherwise
}

// EtcdImage returns the image of etcd that the Etcd names, or otherwise the operator's.
func (e *Etcd) EtcdImage(otherwise string) string {
	if image := e.Spec.Etcd.Image; image != nil && *image != "" {
		return *image
	}
	return otherwise
}
