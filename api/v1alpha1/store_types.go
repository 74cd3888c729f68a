// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// StorageProvider is the kind of a store. Each has two names: that of the infrastructure and that of the
// service.
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self in ['aws', 'S3', 'gcp', 'GCS', 'azure', 'ABS', 'Local', 'local']",message="the provider of a store is aws or S3 (also for services compatible with S3), gcp or GCS, azure or ABS, or Local; there is no driver for any other, such as openstack (Swift) or alicloud (OSS): use their S3-compatible endpoints"
type StorageProvider string

// The providers, by the names of their services.
const (
	ProviderS3    StorageProvider = "S3"
	ProviderGCS   StorageProvider = "GCS"
	ProviderABS   StorageProvider = "ABS"
	ProviderLocal StorageProvider = "Local"
)

// Canonical is the provider by the name of its service; empty when there is no driver for it.
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
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace may be left out. Any but the object's own is refused.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// StoreSpec is where backups are kept.
// +kubebuilder:validation:XValidation:rule="self.provider in ['Local', 'local'] ? !has(self.secretRef) : has(self.secretRef)",message="a store needs a secretRef with its credentials; one of provider Local has none"
type StoreSpec struct {
	// Provider of the store: S3 (or aws), GCS (or gcp), ABS (or azure), Local.
	Provider StorageProvider `json:"provider"`
	// Container is the bucket; of a Local store it is the name of a PersistentVolumeClaim in the namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Container string `json:"container"`
	// Prefix of the objects in the container: they are called <prefix>/v2/<snapshot>. No two clusters may
	// have the same. Default, for an Etcd: <namespace>/<name>.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9_-][A-Za-z0-9._-]*)(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`
	// +optional
	Prefix string `json:"prefix,omitempty"`
	// SecretRef names the Secret with the credentials. Its keys are those of Gardener's backup secrets.
	// +optional
	SecretRef *SecretReference `json:"secretRef,omitempty"`
}
