// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// StorageProvider is the kind of a store. Each has two names: that of the infrastructure and that of the service.
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self in ['aws', 'S3', 'gcp', 'GCS', 'azure', 'ABS', 'Local', 'local']",message="provider must be aws or S3 (also for S3-compatible services), gcp or GCS, azure or ABS, or Local; there is no driver for any other, such as openstack (Swift) or alicloud (OSS): use their S3-compatible endpoints"
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
	case "aws", ProviderS3:
		return ProviderS3
	case "gcp", ProviderGCS:
		return ProviderGCS
	case "azure", ProviderABS:
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
// +kubebuilder:validation:XValidation:rule="self.provider in ['Local', 'local'] ? !has(self.secretRef) : has(self.secretRef)",message="secretRef must name a Secret with the credentials of the store; with provider Local it must not be set"
type StoreSpec struct {
	// provider of the store: S3 (or aws), GCS (or gcp), ABS (or azure), or Local.
	Provider StorageProvider `json:"provider"`
	// container is the name of the bucket. With provider Local, it is the name of a PersistentVolumeClaim in the namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Container string `json:"container"`
	// prefix of the objects in the container, which are named <prefix>/v2/<snapshot>. It must be unique for each cluster.
	// Default, for an Etcd: <namespace>/<name>.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9_-][A-Za-z0-9._-]*)(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`
	// +optional
	Prefix string `json:"prefix,omitempty"`
	// secretRef names the Secret with the credentials. Its keys are those of Gardener's backup secrets. Required, except with
	// provider Local.
	// +optional
	SecretRef *SecretReference `json:"secretRef,omitempty"`
}

// HasBackupStore reports whether a backup store is configured.
func (e *Etcd) HasBackupStore() bool { return e.Spec.Backup != nil && e.Spec.Backup.Store != nil }
