// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Labels of every object that belongs to an Etcd.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by"
	LabelPartOf    = "app.kubernetes.io/part-of"
	LabelComponent = "app.kubernetes.io/component"
	LabelName      = "app.kubernetes.io/name"

	// ManagedBy is the value of LabelManagedBy that etcd-foreman writes.
	ManagedBy = "etcd-foreman"
	// ManagedByDruid is the value that etcd-druid writes. It is accepted when objects are read.
	ManagedByDruid = "etcd-druid"
)

// Values of LabelComponent. A pod of a backup job carries the same managed-by and part-of labels as a
// member pod: only the component, and the owner, tell them apart.
const (
	ComponentConfigMap           = "etcd-config"
	ComponentClientService       = "etcd-client-service"
	ComponentPeerService         = "etcd-peer-service"
	ComponentPodDisruptionBudget = "etcd-pdb"
	ComponentStatefulSet         = "etcd-statefulset"
	ComponentMemberLease         = "etcd-member-lease"
	ComponentSnapshotLease       = "etcd-snapshot-lease"
	ComponentCompactionJob       = "etcd-compaction-job"
	ComponentCopyJob             = "etcd-copy-backups-job"
	ComponentSurveyJob           = "etcd-survey-job"
	ComponentFinalSnapshotJob    = "etcd-final-snapshot-job"
	ComponentServiceAccount      = "etcd-service-account"
	ComponentRole                = "etcd-role"
	ComponentRoleBinding         = "etcd-role-binding"
)

// Annotations that a user or automation sets.
const (
	// AnnotationOperation, with the value OperationReconcile, asks for the Etcd's spec to be reconciled
	// once more. It is removed when that is done.
	AnnotationOperation = "druid.gardener.cloud/operation"
	// AnnotationGardenerOperation is the older spelling, which Gardener sets.
	AnnotationGardenerOperation = "gardener.cloud/operation"
	// OperationReconcile is the value of both operation annotations.
	OperationReconcile = "reconcile"
	// AnnotationSuspendSpecReconcile, when present on an Etcd, stops the reconciliation of its spec.
	// Its status and the update strategy of its StatefulSet are kept up all the same.
	AnnotationSuspendSpecReconcile = "druid.gardener.cloud/suspend-etcd-spec-reconcile"
	// AnnotationRollout, with the value RolloutManual, makes rollout tasks start suspended.
	AnnotationRollout = "druid.gardener.cloud/rollout"
	// RolloutManual is the value of AnnotationRollout.
	RolloutManual = "manual"
	// AnnotationAllowUnhealthyPodEviction sets the PodDisruptionBudget's unhealthyPodEvictionPolicy to
	// AlwaysAllow.
	AnnotationAllowUnhealthyPodEviction = "resources.druid.gardener.cloud/allow-unhealthy-pod-eviction"
	// AnnotationAdoptedBy on an object that an Etcd did not make carries the UID of the Etcd that has adopted it, which
	// from then on is treated as one of its own. Only adoption writes it; a person does so for a claim that was brought
	// back by hand.
	AnnotationAdoptedBy = "druid.gardener.cloud/adopted-by"
)

// Annotations that the operator sets.
const (
	// AnnotationConfigChecksum on a pod template makes a change of configuration a change of template.
	AnnotationConfigChecksum = "checksum/etcd-config"
	// AnnotationCAChecksum on a pod template makes a change of CAs a change of template: etcd reads them when
	// it starts, and not again.
	AnnotationCAChecksum = "checksum/etcd-ca"
	// AnnotationClientTLS on a pod, with the value TLSOn, says that its member listens for clients with TLS.
	AnnotationClientTLS = "druid.gardener.cloud/client-url-tls"
	// AnnotationPeerTLS on a pod says how far its member is on the way to TLS among members: TLSPrepared or
	// TLSOn; absent at the beginning.
	AnnotationPeerTLS = "druid.gardener.cloud/peer-url-tls"
	// TLSPrepared: the member has what it takes to connect to others with TLS, and listens without.
	TLSPrepared = "Prepared"
	// TLSOn: the member listens with TLS.
	TLSOn = "On"
	// AnnotationAppliedChecksum on an object is the checksum of what was applied last, so that an object
	// that has not changed is not written again.
	AnnotationAppliedChecksum = "druid.gardener.cloud/applied-checksum"
	// AnnotationDeletionRevoked on a pod carries the UID of the task that had announced to delete it and
	// then did not. Writing it moves the pod's resourceVersion, so that a delete which is still under way
	// somewhere fails at its precondition.
	AnnotationDeletionRevoked = "druid.gardener.cloud/deletion-revoked-by"
	// AnnotationHeldAtZeroBy on a StatefulSet carries the UID of the task that holds it at zero replicas. They
	// come back when the task lets go, or is gone.
	AnnotationHeldAtZeroBy = "druid.gardener.cloud/held-at-zero-by"
	// AnnotationBackupError on the lease of full snapshots is why the last snapshot failed; absent or empty when
	// it did not. The leader's agent writes it.
	AnnotationBackupError = "druid.gardener.cloud/backup-error"
	// AnnotationJobSubject on a Job says what it was made for, so that a later one for the same volume is not taken for it.
	AnnotationJobSubject = "druid.gardener.cloud/job-subject"
	// AnnotationSafeToEvict keeps the cluster autoscaler from evicting a member.
	AnnotationSafeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"
)

// Names of the containers of a member pod.
const (
	ContainerEtcd          = "etcd"
	ContainerBackupRestore = "backup-restore"
	InitContainerPrepare   = "prepare"
)
