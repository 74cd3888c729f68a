// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Labels of every object of an Etcd.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by"
	LabelPartOf    = "app.kubernetes.io/part-of"
	LabelComponent = "app.kubernetes.io/component"
	LabelName      = "app.kubernetes.io/name"

	// LabelCreatedBy on a claim, with the value ManagedBy, means that it is the operator's, whatever LabelManagedBy says.
	LabelCreatedBy = "app.kubernetes.io/created-by"
	// ManagedBy is the value of LabelManagedBy that etcd-foreman sets.
	ManagedBy = "etcd-foreman"
	// ManagedByDruid is the value of LabelManagedBy that etcd-druid sets. etcd-foreman caches such objects; they are foreign
	// unless adopted.
	ManagedByDruid = "etcd-druid"
)

// Values of LabelComponent. The pods of a backup Job have the same managed-by and part-of labels as member pods; they differ
// in the component and the owner.
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
	ComponentPreviewJob          = "etcd-restore-preview-job"
	ComponentSurveyJob           = "etcd-survey-job"
	ComponentDiagnosisJob        = "etcd-diagnosis-job"
	ComponentFinalSnapshotJob    = "etcd-final-snapshot-job"
	ComponentServiceAccount      = "etcd-service-account"
	ComponentRole                = "etcd-role"
	ComponentRoleBinding         = "etcd-role-binding"
	ComponentCertificates        = "etcd-certificates"
)

// Annotations that users or automation set.
const (
	// AnnotationOperation on an Etcd, with the value OperationReconcile, requests a reconciliation of the spec. The operator
	// removes it when that is done.
	AnnotationOperation = "druid.gardener.cloud/operation"
	// AnnotationGardenerOperation is the older name of AnnotationOperation, which Gardener sets.
	AnnotationGardenerOperation = "gardener.cloud/operation"
	// OperationReconcile is the value of both operation annotations.
	OperationReconcile = "reconcile"
	// OperationRenewCA is a value of AnnotationOperation: renew the CAs of managed TLS now. The operator removes it when that has
	// begun.
	OperationRenewCA = "renew-ca"
	// OperationAdopt is a value of AnnotationOperation: adopt the objects of the Etcd from etcd-druid. The operator removes it when
	// that is done.
	OperationAdopt = "adopt"
	// OperationHandBack is a value of AnnotationOperation: hand the objects of the Etcd back to etcd-druid. The operator removes it
	// when that is done.
	OperationHandBack = "hand-back"
	// FinalizerDruid is the finalizer of etcd-druid on an Etcd.
	FinalizerDruid = "druid.gardener.cloud/etcd-druid"
	// AnnotationSuspendSpecReconcile on an Etcd, with any value, suspends the reconciliation of its spec. Its status and the
	// update strategy of its StatefulSet are still reconciled.
	AnnotationSuspendSpecReconcile = "druid.gardener.cloud/suspend-etcd-spec-reconcile"
	// AnnotationIgnoreReconciliation is the older name of AnnotationSuspendSpecReconcile, which etcd-druid honors, and runbooks use.
	AnnotationIgnoreReconciliation = "druid.gardener.cloud/ignore-reconciliation"
	// AnnotationDisableRuntimeComponents on an Etcd, with any value, has etcd-druid run no members, which are static pods then. It is refused.
	AnnotationDisableRuntimeComponents = "druid.gardener.cloud/disable-etcd-runtime-component-creation"
	// AnnotationRollout on an Etcd, with the value RolloutManual, lets its rollout tasks start suspended.
	AnnotationRollout = "druid.gardener.cloud/rollout"
	// RolloutManual is the value of AnnotationRollout.
	RolloutManual = "manual"
	// AnnotationResumeChange on an EtcdFleetPolicy resumes a change that is paused: the value is its resumeToken in the status,
	// or those of several changes, separated by commas.
	AnnotationResumeChange = "druid.gardener.cloud/resume-change"
	// AnnotationBypassFleet on an EtcdOperatorTask has it start in spite of all EtcdFleetPolicies: the value is "true". It takes the verb
	// bypass on etcdfleetpolicies.
	AnnotationBypassFleet = "druid.gardener.cloud/bypass-fleet"
	// AnnotationAllowSingleMember on an Etcd agrees that its cluster shrinks to one member, which tolerates no failure: the value is "true".
	AnnotationAllowSingleMember = "druid.gardener.cloud/allow-single-member"
	// AnnotationAbandonSource on an Etcd that is deleted, with its UID as the value, lets it go although members of it may be in the list
	// of a source cluster: they stay there. A consent that is written into a manifest would be one to a UID that no Etcd has.
	AnnotationAbandonSource = "druid.gardener.cloud/abandon-source-cluster"
	// AnnotationAcceptRevision on the Lease of full snapshots lets a restore of unsigned snapshots end at the revision that is its value although a
	// later one is recorded.
	AnnotationAcceptRevision = "druid.gardener.cloud/accept-revision"
	// AnnotationAllowUnhealthyPodEviction on an Etcd sets unhealthyPodEvictionPolicy of its PodDisruptionBudget to AlwaysAllow.
	AnnotationAllowUnhealthyPodEviction = "resources.druid.gardener.cloud/allow-unhealthy-pod-eviction"
	// LabelRolloutBy on a namespace, with the value ManagedBy, lets admission change the StatefulSets of etcd-druid in it to
	// OnDelete, for an operator in executor mode.
	LabelRolloutBy = "druid.gardener.cloud/rollout-by"
	// RolloutsConfigMap is the name of the ConfigMap in the namespace of an operator in executor mode without which admission
	// changes no StatefulSet: the off switch.
	RolloutsConfigMap = "etcd-foreman-rollouts"
	// FleetConfigMap is the name of the ConfigMap in the operator's namespace that has the ledger of the fleet. Only the operator
	// writes it.
	FleetConfigMap = "etcd-foreman-fleet"
	// AnnotationAdoptedBy on an object holds the UID of the Etcd that has adopted it. The operator then treats the object as
	// the Etcd's own. Users set it on a claim that they restored by hand; the operator sets it when it adopts the objects of
	// etcd-druid.
	AnnotationAdoptedBy = "druid.gardener.cloud/adopted-by"
)

// Finalizers, named as by etcd-druid, so that either operator finishes what the other has begun.
const (
	// FinalizerCopyBackups keeps an EtcdCopyBackupsTask while its Job may be copying.
	FinalizerCopyBackups = "druid.gardener.cloud/etcd-druid"
	// FinalizerOpsTask is set by etcd-druid alone, and removed from EtcdOpsTasks that are deleted.
	FinalizerOpsTask = "druid.gardener.cloud/etcd-ops-task"
)

// FinalizerLeaveSource keeps an Etcd that is deleted until its members have left the source cluster that they joined. It is set before
// the first of them is added there.
const FinalizerLeaveSource = "druid.gardener.cloud/leave-source-cluster"

// Annotations that the operator sets.
const (
	// AnnotationConfigChecksum on a pod template is the checksum of etcd's configuration, so that a changed configuration
	// changes the template.
	AnnotationConfigChecksum = "checksum/etcd-config"
	// AnnotationCAChecksum on a pod template is the checksum of the CAs, so that changed CAs change the template: etcd reads
	// them only when it starts.
	AnnotationCAChecksum = "checksum/etcd-ca"
	// AnnotationClientTLS on a pod, with the value TLSOn, means that its member serves clients over TLS.
	AnnotationClientTLS = "druid.gardener.cloud/client-url-tls"
	// AnnotationPeerTLS on a pod is the progress of its member towards TLS between peers: TLSPrepared or TLSOn; absent
	// before.
	AnnotationPeerTLS = "druid.gardener.cloud/peer-url-tls"
	// TLSPrepared means that the member can call peers over TLS, but still serves them in plaintext.
	TLSPrepared = "Prepared"
	// TLSOn means that the member serves over TLS.
	TLSOn = "On"
	// AnnotationAppliedChecksum on an object is the checksum of the configuration that was applied last, so that an unchanged
	// object is not written again.
	AnnotationAppliedChecksum = "druid.gardener.cloud/applied-checksum"
	// AnnotationRolloutBy on a StatefulSet of etcd-druid, with the value ManagedBy, means that admission has changed its update
	// strategy from RollingUpdate to OnDelete for an operator in executor mode, which replaces its pods. Only admission writes it,
	// in the same request as the strategy.
	AnnotationRolloutBy = "druid.gardener.cloud/rollout-by"
	// AnnotationAdoptedVersion on a StatefulSet that was adopted from etcd-druid is the version of etcd that its members ran then.
	AnnotationAdoptedVersion = "druid.gardener.cloud/adopted-etcd-version"
	// AnnotationDeletionRevoked on a pod revokes a deletion that was recorded as an intent. Its value is the name of the task
	// and the pod's previous resourceVersion, as <task>@<resourceVersion>. Writing it changes the resourceVersion, so that a
	// delete request that is still in flight fails at its precondition.
	AnnotationDeletionRevoked = "druid.gardener.cloud/deletion-revoked-by"

	// AnnotationInPlaceUpdate records on a pod that an in-place update has begun: the revisions that it comes from and is brought
	// to. It is removed by the write that sets the pod's revision.
	AnnotationInPlaceUpdate = "druid.gardener.cloud/in-place-update"
	// AnnotationHeldAtZeroBy on a StatefulSet holds the UID of the task that keeps it at zero replicas. The operator restores
	// the replicas when the task continues, ends or is deleted.
	AnnotationHeldAtZeroBy = "druid.gardener.cloud/held-at-zero-by"
	// AnnotationMembersTold on a pod is the generation of what its ConfigMap says of members that leave. It makes the kubelet
	// update the mount at once.
	AnnotationMembersTold = "druid.gardener.cloud/members-told"
	// AnnotationTemporary on a claim, with the UID of the claim, means that it was made for a member that is to leave again: it is
	// deleted with that member, whatever the retention policy says.
	AnnotationTemporary = "druid.gardener.cloud/temporary"
	// AnnotationPeerTLSEnabled on the Lease of a member: whether it listens to its peers with TLS, true or false.
	AnnotationPeerTLSEnabled = "member.etcd.gardener.cloud/tls-enabled"
	// AnnotationMembersRead on the Lease of a member is what its agent has read of the members that are about to be removed, as JSON. The
	// agent sets it.
	AnnotationMembersRead = "druid.gardener.cloud/members-read"
	// AnnotationBackupError on the Lease of full snapshots is the error of the last snapshot, or what is wrong with a store
	// of signed snapshots; absent or empty if there is none.
	// The leader's agent sets it.
	AnnotationBackupError = "druid.gardener.cloud/backup-error"
	// AnnotationNextCASignsFrom on the Secret with the key of a CA is when the next CA signs at the earliest.
	AnnotationNextCASignsFrom = "druid.gardener.cloud/next-ca-signs-from"
	// AnnotationTrustedUntil on the Secret with the key of a CA is until when the previous CA is trusted.
	AnnotationTrustedUntil = "druid.gardener.cloud/previous-ca-trusted-until"
	// AnnotationJobSubject on a Job identifies what the Job was created for. It distinguishes Jobs of the same name.
	AnnotationJobSubject = "druid.gardener.cloud/job-subject"
	// AnnotationBackupsCurrent on the Lease of full snapshots is when the leader's agent last found that the store has
	// everything that was written until then.
	AnnotationBackupsCurrent = "druid.gardener.cloud/backups-current-at"
	// AnnotationRestorable on the Lease of full snapshots is which states can be restored from the store, as the leader's agent last found:
	// a list in JSON, the newest first, of from and to, each with revision and time, and whether every state in between is one (fine).
	// Later deltas extend the first.
	AnnotationRestorable = "druid.gardener.cloud/restorable"
	// AnnotationUndecryptable on the Lease of full snapshots says which snapshots no identity of the leader's agent decrypts, so that they lead to
	// nothing, and what to do; absent or empty if there are none.
	AnnotationUndecryptable = "druid.gardener.cloud/undecryptable"
	// AnnotationBackupOfRecovered on the Lease of full snapshots is the ID of the recovered cluster of which the store has a full
	// snapshot, so that no other member takes one because of the same recovery. The agent that took it sets it.
	AnnotationBackupOfRecovered = "druid.gardener.cloud/backup-of-recovered-cluster"
	// AnnotationBeganAt on the Lease of full snapshots is the highest revision at which a cluster of the Etcd has begun from a backup or from rebuilt
	// data, or was about to. The agent sets it before that cluster can start, and the next one begins above it.
	AnnotationBeganAt = "druid.gardener.cloud/began-at-revision"
	// AnnotationBeganWith on the same Lease is the token of the cluster that was last about to begin: one that has it begins again, and what clients have
	// seen since is unknown. Each recovery, wake-up and Etcd has a token of its own.
	AnnotationBeganWith = "druid.gardener.cloud/began-with-token"
	// AnnotationSafeToEvict on a pod of a Job prevents the cluster autoscaler from evicting it. Whether it may evict members is
	// decided by spec.annotations of the Etcd.
	AnnotationSafeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	// AnnotationSafeToEvictVolumes on a pod names its emptyDir volumes that do not prevent the cluster autoscaler from
	// evicting it.
	AnnotationSafeToEvictVolumes = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
)

// LabelFencedBy in the selector of a client Service has the UID of the Restore that keeps clients away: no pod has the label.
const LabelFencedBy = "druid.gardener.cloud/fenced-by"

// Labels that let a pod reach DNS and buckets where network policies deny everything else, as in Gardener's seeds.
const (
	LabelNetworkDNS     = "networking.gardener.cloud/to-dns"
	LabelNetworkPublic  = "networking.gardener.cloud/to-public-networks"
	LabelNetworkPrivate = "networking.gardener.cloud/to-private-networks"
	// NetworkAllowed is their value.
	NetworkAllowed = "allowed"
)

// Names of the containers of a member pod.
const (
	ContainerEtcd          = "etcd"
	ContainerBackupRestore = "backup-restore"
	InitContainerPrepare   = "prepare"
)
