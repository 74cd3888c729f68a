// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types of both kinds, which tools such as Flux and Argo CD understand (kstatus). If both are True, Stalled comes
// first.
const (
	// ConditionReconciling is True while something is still to be done: of an Etcd, while its newest spec is not carried out;
	// of a task, until it has ended. Absent otherwise.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True while a person has to act: of an Etcd, while a rollout is stalled or a stage of the reconcile
	// keeps failing; of a task, while it is stalled, and if it has failed or was rejected. Absent otherwise.
	ConditionStalled = "Stalled"
)

// Reasons of the conditions UpToDate, Reconciling and Stalled of an Etcd. The others are those of the condition that they follow
// from.
const (
	// ReasonSpecPending means that the newest spec is not applied yet.
	ReasonSpecPending = "SpecPending"
	// ReasonRolloutStalled means that a rollout is stalled; the message names the task.
	ReasonRolloutStalled = "RolloutStalled"
	// ReasonUpToDate means that the newest spec is carried out.
	ReasonUpToDate = "UpToDate"
)

// Condition types of an EtcdOperatorTask.
const (
	// ConditionAdmitted is True once the preconditions of the task were met, and False if it was rejected.
	ConditionAdmitted = "Admitted"
	// ConditionProgressing is True while the task runs. It is False while the task is queued, preempted, suspended or
	// stalled, and after it has ended; the reason says which.
	ConditionProgressing = "Progressing"
	// ConditionFinished is True once the task has ended, whether it succeeded, failed or was rejected.
	ConditionFinished = "Finished"
	// ConditionSucceeded is True once the task has succeeded, and False once it has failed or was rejected.
	ConditionSucceeded = "Succeeded"
	// ConditionEtcdReachable is False while no member answers the operator although pods are ready, and Unknown while no
	// member answers and no pod is ready. Once it has been False for unreadyGracePeriod, the rollout uses readiness probes for
	// health and Leases for roles.
	ConditionEtcdReachable = "EtcdReachable"
)

// Reasons of the conditions of an EtcdOperatorTask.
const (
	// ReasonQueued means that another task of the same Etcd runs first, or that as many copies of backups run as may.
	ReasonQueued = "Queued"
	// ReasonPreempted means that a recovery has preempted the task between two steps. The task continues when the recovery has ended.
	ReasonPreempted = "Preempted"
	// ReasonSuspended means that spec.suspend is set.
	ReasonSuspended = "Suspended"
	// ReasonAdmitted means that the preconditions were met.
	ReasonAdmitted = "Admitted"
	// ReasonWaitingForSlot, ReasonWaitingForWindow, ReasonWaitingForCanary and ReasonFleetPaused mean that the task could start, but an
	// EtcdFleetPolicy does not let it start yet: as many clusters as may are being changed; no window is open; the change is being
	// tried in other clusters first; or the policy or the change is paused. The message says which, and what has to happen.
	// WaitingForWindow is also the reason of a task that runs and pauses until the next window, and each of them that of a recreation that
	// runs, and may not stop the pods with the template of now.
	ReasonWaitingForSlot   = "WaitingForSlot"
	ReasonWaitingForWindow = "WaitingForWindow"
	ReasonWaitingForCanary = "WaitingForCanary"
	ReasonFleetPaused      = "FleetPaused"
	// ReasonRunning means that a step is recorded as an intent or was carried out.
	ReasonRunning = "Running"
	// ReasonHeld means that a guard blocks the next step; status.rollout.heldBy names it.
	ReasonHeld = "Held"
	// ReasonStalled means that there was no progress for the progress deadline.
	ReasonStalled = "Stalled"
	// ReasonRetrying means that an observation or a step failed and is retried.
	ReasonRetrying = "Retrying"
	// ReasonCleanupFailed means that a task of the same Etcd was deleted while it was running, and that cleaning up after it
	// failed; the message names it. No task of the Etcd runs until the cleanup succeeds.
	ReasonCleanupFailed = "CleanupFailed"
	// ReasonUnknownType is the reason of events of a task that a newer operator has started: this one does not know its type, leaves it as it
	// is, and starts no other task of the Etcd.
	ReasonUnknownType = "UnknownType"
	// ReasonRecreateInProgress and ReasonRecreateComplete are the reasons of a RecreateRollout (KEP-3541).
	ReasonRecreateInProgress = "RecreateInProgress"
	ReasonRecreateComplete   = "RecreateComplete"
	// ReasonRecovering means that a QuorumLossRecovery is running. In DataVolumesReady it means that a member waits for its
	// turn in one.
	ReasonRecovering = "Recovering"
	// ReasonRestoring means that a Restore is replacing the data of the cluster.
	ReasonRestoring = "Restoring"
	// ReasonSucceeded, ReasonFailed and ReasonRejected are the reasons of a task that has ended.
	ReasonSucceeded = "Succeeded"
	ReasonFailed    = "Failed"
	ReasonRejected  = "Rejected"
	// ReasonMembersAnswer and ReasonNoMemberAnswers are the reasons of EtcdReachable.
	ReasonMembersAnswer   = "MembersAnswer"
	ReasonNoMemberAnswers = "NoMemberAnswers"
)

// ErrorCode identifies an error in status.lastErrors of a task.
// +kubebuilder:validation:Pattern=`^ERR_[A-Z0-9_]+$`
type ErrorCode string

// The error codes.
const (
	// ErrUnsupportedType means that the operator has no handler for spec.type.
	ErrUnsupportedType ErrorCode = "ERR_UNSUPPORTED_TYPE"
	// ErrNotInExecutorMode: an operator in executor mode does not carry out tasks of this type.
	ErrNotInExecutorMode ErrorCode = "ERR_NOT_IN_EXECUTOR_MODE"
	// ErrInvalidConfig means that spec.config is invalid.
	ErrInvalidConfig ErrorCode = "ERR_INVALID_CONFIG"
	// ErrTooManyTasks means that too many earlier tasks of the Etcd have not ended.
	ErrTooManyTasks ErrorCode = "ERR_TOO_MANY_TASKS"
	// ErrTaskTooLarge means that the annotations, labels and other metadata of the task are larger than 128 KiB.
	ErrTaskTooLarge ErrorCode = "ERR_TASK_TOO_LARGE"
	// ErrDuplicateTask means that an earlier task does the same work.
	ErrDuplicateTask ErrorCode = "ERR_DUPLICATE_TASK"
	// ErrCrossNamespace means that the task refers to another namespace.
	ErrCrossNamespace ErrorCode = "ERR_CROSS_NAMESPACE"
	// ErrEtcdNotFound means that the Etcd does not exist.
	ErrEtcdNotFound ErrorCode = "ERR_ETCD_NOT_FOUND"
	// ErrEtcdReplaced means that the task is for an earlier Etcd of the same name, or older than the present one.
	ErrEtcdReplaced ErrorCode = "ERR_ETCD_REPLACED"
	// ErrStatefulSetNotFound means that the Etcd has no StatefulSet.
	ErrStatefulSetNotFound ErrorCode = "ERR_STATEFULSET_NOT_FOUND"
	// ErrStrategy means that the StatefulSet's update strategy is not OnDelete.
	ErrStrategy ErrorCode = "ERR_STRATEGY"
	// ErrSuperseded means that the target revision of the rollout is outdated, or that a later task of another type does its
	// work.
	ErrSuperseded ErrorCode = "ERR_SUPERSEDED"
	// ErrNotAdmitted means that the status claims that the task runs although no operator has admitted it.
	ErrNotAdmitted ErrorCode = "ERR_NOT_ADMITTED"
	// ErrDeadlineExceeded means that the task took longer than its type allows.
	ErrDeadlineExceeded ErrorCode = "ERR_DEADLINE_EXCEEDED"
	// ErrObserve means that the state of the cluster could not be read.
	ErrObserve ErrorCode = "ERR_OBSERVE"
	// ErrDeletePod, ErrEvictPod, ErrMoveLeader and ErrRevokeDeletion mean that a step of a rollout failed.
	ErrDeletePod      ErrorCode = "ERR_DELETE_POD"
	ErrEvictPod       ErrorCode = "ERR_EVICT_POD"
	ErrMoveLeader     ErrorCode = "ERR_MOVE_LEADER"
	ErrRevokeDeletion ErrorCode = "ERR_REVOKE_DELETION"
	// ErrUpdatePod means that a write to a pod that is updated in place failed.
	ErrUpdatePod ErrorCode = "ERR_UPDATE_POD"
	// ErrMembership means that a step of a MembershipChange failed: a request that changes the member list, telling members that they
	// leave, or removing a claim.
	ErrMembership ErrorCode = "ERR_MEMBERSHIP"
	// ErrNoQuorum means that the task needs a quorum and the cluster has none.
	ErrNoQuorum ErrorCode = "ERR_NO_QUORUM"
	// ErrAlarm means that etcd has raised an alarm that needs manual intervention.
	ErrAlarm ErrorCode = "ERR_ALARM"
	// ErrNoSpace means that a database still exceeds its quota after defragmentation.
	ErrNoSpace ErrorCode = "ERR_NO_SPACE"
	// ErrMaintenance means that etcd refused to compact, to defragment or to disarm an alarm.
	ErrMaintenance ErrorCode = "ERR_MAINTENANCE"
	// ErrTLSSecret means that a Secret with certificates is missing or unusable.
	ErrTLSSecret ErrorCode = "ERR_TLS_SECRET"
	// ErrSchedule means that spec.etcd.defragmentationSchedule is invalid.
	ErrSchedule ErrorCode = "ERR_SCHEDULE"
	// ErrPeerURLs means that the peer URLs of the members could not be changed.
	ErrPeerURLs ErrorCode = "ERR_PEER_URLS"
	// ErrNoBackup means that the Etcd has no backup store.
	ErrNoBackup ErrorCode = "ERR_NO_BACKUP"
	// ErrSnapshot means that the agent did not take the snapshot.
	ErrSnapshot ErrorCode = "ERR_SNAPSHOT"
	// ErrJob means that the Job of a task could not be created or read.
	ErrJob ErrorCode = "ERR_JOB"
	// ErrJobNotStarted, ErrJobImage, ErrJobOutOfMemory and ErrJobFailed say how the Job of a task failed.
	ErrJobNotStarted  ErrorCode = "ERR_JOB_NOT_STARTED"
	ErrJobImage       ErrorCode = "ERR_JOB_IMAGE"
	ErrJobOutOfMemory ErrorCode = "ERR_JOB_OUT_OF_MEMORY"
	ErrJobFailed      ErrorCode = "ERR_JOB_FAILED"
	// ErrHibernated means that the Etcd is hibernated.
	ErrHibernated ErrorCode = "ERR_HIBERNATED"
	// ErrSingleMember means that the cluster has a single member, and no other is configured: it restores the newest backup itself.
	ErrSingleMember ErrorCode = "ERR_SINGLE_MEMBER"
	// ErrSourceCluster means that the members have joined the cluster of spec.etcd.bootstrapWithExistingCluster, which has the quorum: it
	// is recovered, and its backups are compacted, there.
	ErrSourceCluster ErrorCode = "ERR_SOURCE_CLUSTER"
	// ErrNeverServed means that the cluster has never had a quorum, so there is nothing to recover.
	ErrNeverServed ErrorCode = "ERR_NEVER_SERVED"
	// ErrQuorumNotLost means that the cluster has a quorum and needs no recovery, or that a RecreateRollout or a Restore stops its members.
	ErrQuorumNotLost ErrorCode = "ERR_QUORUM_NOT_LOST"
	// ErrNothingToRecover means that no member has data and there is no backup.
	ErrNothingToRecover ErrorCode = "ERR_NOTHING_TO_RECOVER"
	// ErrNotQuorate means that the members were restarted with their data but did not form a quorum.
	ErrNotQuorate ErrorCode = "ERR_NOT_QUORATE"
	// ErrRestoreRefused means that the target of a Restore cannot be restored, or that the members could not serve with it.
	ErrRestoreRefused ErrorCode = "ERR_RESTORE_REFUSED"
	// ErrNotConfirmed means that a Restore would do something else than what was confirmed.
	ErrNotConfirmed ErrorCode = "ERR_NOT_CONFIRMED"
	// ErrForeignObject means that a foreign object has a name that the Etcd needs.
	ErrForeignObject ErrorCode = "ERR_FOREIGN_OBJECT"
	// ErrClusterID means that the members serve as another cluster than the recorded one.
	ErrClusterID ErrorCode = "ERR_CLUSTER_ID"
	// ErrNotAllowed means that the operator's configuration does not allow something in the spec of the Etcd, or that the prefix of its backups
	// overlaps that of an older Etcd.
	ErrNotAllowed ErrorCode = "ERR_NOT_ALLOWED"
	// ErrApply means that an object of an Etcd could not be applied.
	ErrApply ErrorCode = "ERR_APPLY"
	// ErrInternal is the code of every other error.
	ErrInternal ErrorCode = "ERR_INTERNAL"
)

// Condition types of an Etcd.
const (
	// ConditionReady is True while the cluster has a quorum, as reported by its members.
	ConditionReady = "Ready"
	// ConditionUpToDate is True while the newest spec is carried out: it is applied, every pod is at the newest template, every
	// member participates, and size, volumes and TLS are as specified. It is the condition to wait for.
	ConditionUpToDate = "UpToDate"
	// ConditionAllMembersReady is True while every member participates.
	ConditionAllMembersReady = "AllMembersReady"
	// ConditionAllMembersUpdated is True while every pod is at the StatefulSet's update revision.
	ConditionAllMembersUpdated = "AllMembersUpdated"
	// ConditionTLSReady is True once all connections use TLS as specified. Absent if the spec asks for no TLS.
	ConditionTLSReady = "TLSReady"
	// ConditionDataVolumesReady is True while no member is prevented from starting by its volume: by what is on it, or because
	// there is none.
	ConditionDataVolumesReady = "DataVolumesReady"
	// ConditionBackupReady is True while snapshots succeed. Absent without a backup store.
	ConditionBackupReady = "BackupReady"
	// ConditionAlarmRaised is True while etcd has raised an alarm; the message names the members, and what to do. Absent otherwise. While
	// no member serves, it stays as it was.
	ConditionAlarmRaised = "AlarmRaised"
	// ConditionScaled is True once the cluster has as many members as specified, and, after a cut-over, none of the source cluster.
	ConditionScaled = "Scaled"
	// ConditionScaleOperationComplete is False while members are added or removed because spec.replicas asks for another number.
	// It is etcd-druid's name for that, with its reasons.
	ConditionScaleOperationComplete = "ScaleOperationComplete"
	// ConditionBootstrappedWithExistingCluster is True once the members have joined the cluster of
	// spec.etcd.bootstrapWithExistingCluster, as far as they do before the cut-over. Absent for other Etcds.
	ConditionBootstrappedWithExistingCluster = "BootstrappedWithExistingCluster"
	// ConditionObjectsOwned is True while every existing object under a name that the Etcd needs is the Etcd's own: the Etcd
	// controls it or has adopted it. While it is False, the operator writes none of the objects; the message names each
	// foreign object, its owner, and what to do.
	ConditionObjectsOwned = "ObjectsOwned"
	// ConditionAdopted is True once the objects of the Etcd were adopted from etcd-druid. It is False if adopting them, or handing
	// them back, was refused, and while etcd-druid still writes to them. It is absent otherwise.
	ConditionAdopted = "Adopted"
	// ConditionReconciled means that no stage of the reconcile keeps failing. If False, the message has the errors of
	// status.lastErrors.
	ConditionReconciled = "Reconciled"
)

// Reasons of the condition Reconciled.
const (
	ReasonReconciled      = "Reconciled"
	ReasonReconcileFailed = "ReconcileFailed"
)

// Reasons of the conditions of an Etcd.
const (
	ReasonQuorate            = "Quorate"
	ReasonQuorumLost         = "QuorumLost"
	ReasonNoMembersInStatus  = "NoMembersInStatus"
	ReasonAllMembersReady    = "AllMembersReady"
	ReasonNotAllMembersReady = "NotAllMembersReady"
	ReasonAllMembersUpdated  = "AllMembersUpdated"
	ReasonRolloutPending     = "RolloutPending"
	ReasonHibernated         = "Hibernated"
	ReasonHeldAtZero         = "HeldAtZero"
	ReasonNotObserved        = "NotObserved"
	// ReasonTLSInUse means that all connections use TLS as specified.
	ReasonTLSInUse = "TLSInUse"
	// ReasonSecretInvalid means that a Secret is missing or unusable; the message names it.
	ReasonSecretInvalid = "SecretInvalid"
	// ReasonCertificatesNotRenewed means that a Secret of managed TLS keeps certificates from being renewed; the message names it.
	// Those that there are can still be used.
	ReasonCertificatesNotRenewed = "CertificatesNotRenewed"
	// ReasonCertificatesRollout means that pods are being replaced by pods that have the certificates. Until all have them,
	// peers use plaintext.
	ReasonCertificatesRollout = "CertificatesRollout"
	// ReasonPeerURLsAdded means that every member has its certificate, and that its https peer URL is being added to the
	// member list.
	ReasonPeerURLsAdded = "PeerURLsAdded"
	// ReasonPeerTLSRollout means that pods are being replaced by pods that serve peers over TLS.
	ReasonPeerTLSRollout = "PeerTLSRollout"
	// ReasonPeerURLsRemoved means that every member serves peers over TLS, and that its http peer URL is being removed from
	// the member list.
	ReasonPeerURLsRemoved = "PeerURLsRemoved"
)

// Reasons of the events for managed TLS.
const (
	// ReasonCACreated means that the first CA of a connection was created.
	ReasonCACreated = "CACreated"
	// ReasonCARenewalStarted means that there is a new CA. A rollout follows, after which every member trusts both.
	ReasonCARenewalStarted = "CARenewalStarted"
	// ReasonCARenewed means that the new CA signs the certificates. The previous one is still trusted.
	ReasonCARenewed = "CARenewed"
	// ReasonCARetired means that the previous CA is no longer trusted. A rollout follows.
	ReasonCARetired = "CARetired"
	// ReasonCARenewalIgnored means that a requested renewal of a CA does not begin: the CA is an issuer's, or the previous one is still trusted.
	ReasonCARenewalIgnored = "CARenewalIgnored"
	// ReasonCertificateIssued means that a certificate was issued or renewed.
	ReasonCertificateIssued = "CertificateIssued"
)

// ReasonRecoveryWithdrawn is the reason of the event that a recovery was withdrawn: the cluster that it replaces serves.
const ReasonRecoveryWithdrawn = "RecoveryWithdrawn"

// Reasons of the condition Adopted.
const (
	// ReasonAdoptionRefused and ReasonReturnRefused mean that a precondition of adopting the objects, or of handing them back, is not
	// met. Both are checked again.
	ReasonAdoptionRefused = "AdoptionRefused"
	ReasonReturnRefused   = "ReturnRefused"
	// ReasonConversionPending means that the pods are etcd-druid's, and stay until the annotation AnnotationOperation asks for a
	// reconcile.
	ReasonConversionPending = "ConversionPending"
	// ReasonConversionRefused means that the reconcile is asked for, and a precondition is not met.
	ReasonConversionRefused = "ConversionRefused"
	// ReasonConverting means that a rollout replaces the pods of etcd-druid.
	ReasonConverting = "Converting"
	// ReasonConverted means that no pod of etcd-druid is left.
	ReasonConverted = "Converted"
	// ReasonDruidActive means that etcd-druid writes to an Etcd that was adopted from it.
	ReasonDruidActive = "EtcdDruidActive"
)

// Reasons of the condition ObjectsOwned.
const (
	// ReasonObjectsOwned means that every object is the Etcd's own.
	ReasonObjectsOwned = "ObjectsOwned"
	// ReasonControlledByAnother means that an object is controlled by another object than the Etcd.
	ReasonControlledByAnother = "ControlledByAnother"
	// ReasonNoController means that an object has no controller: it was not created by this operator, or its owner reference
	// was removed.
	ReasonNoController = "NoController"
	// ReasonManagedByAnother means that the Etcd controls an object that another operator manages, according to its label.
	ReasonManagedByAnother = "ManagedByAnother"
	// ReasonClaimNotOwned means that a claim belongs to another object, or has neither the labels of the Etcd's claims nor the
	// annotation AnnotationAdoptedBy.
	ReasonClaimNotOwned = "ClaimNotOwned"
)

// Reasons of the condition DataVolumesReady. A member that does not start reports one of them.
const (
	// ReasonDataVolumesReady means that no member is prevented from starting.
	ReasonDataVolumesReady = "DataVolumesReady"
	// ReasonDataOfAnotherCluster means that a volume holds data of a cluster other than the recorded one.
	ReasonDataOfAnotherCluster = "DataOfAnotherCluster"
	// ReasonDataLost means that a member that has run before has no data, and that it cannot be replaced now.
	ReasonDataLost = "DataLost"
	// ReasonDataDamaged means that etcd could not start with the data of a member, and that it cannot be replaced now.
	ReasonDataDamaged = "DataDamaged"
	// ReasonBackupUnreachable means that the store that a member would be restored from does not answer, or refuses. It is also a
	// reason of BackupReady.
	ReasonBackupUnreachable = "BackupUnreachable"
	// ReasonBackupOfEarlierCluster means that the store of a new cluster of several members holds backups of an earlier one.
	ReasonBackupOfEarlierCluster = "BackupOfEarlierCluster"
	// ReasonRestoreFailed means that the backup could not be restored.
	ReasonRestoreFailed = "RestoreFailed"
	// ReasonVolumeMissing means that a claim has no volume yet.
	ReasonVolumeMissing = "VolumeMissing"
	// ReasonVolumeLost means that the volume of a claim no longer exists.
	ReasonVolumeLost = "VolumeLost"
	// ReasonVolumeUnusable means that a member cannot read or write its volume.
	ReasonVolumeUnusable = "VolumeUnusable"
	// ReasonNotReplaced means that etcd has not yet added the learner that replaces a member.
	ReasonNotReplaced = "NotReplaced"
	// ReasonNotListed means that the cluster serves without listing a member, which waits until the operator adds it.
	ReasonNotListed = "NotListed"
	// ReasonMemberRemoved means that a volume holds the data of a member that was removed from the cluster.
	ReasonMemberRemoved = "MemberRemoved"
	// ReasonSurveyingVolumes means that no member is started before the volumes that exist have been surveyed: they may hold data of
	// an earlier Etcd of this name.
	ReasonSurveyingVolumes = "SurveyingVolumes"
	// ReasonFirstStartBlocked means that the cluster is not begun, because volumes hold data, or may hold data, that it would hide.
	ReasonFirstStartBlocked = "FirstStartBlocked"
	// ReasonPreviousClusterServes means that a member that a cluster is recovered from waits with its data, because a quorum of the
	// cluster before answers. It has not begun the new cluster.
	ReasonPreviousClusterServes = "PreviousClusterServes"
	// ReasonRebuildFailed means that the data from which the cluster is recovered could not be used.
	ReasonRebuildFailed = "RebuildFailed"
)

// IsDataVolumeReason reports whether a member that does not start may give this reason.
func IsDataVolumeReason(reason string) bool {
	switch reason {
	case ReasonDataOfAnotherCluster, ReasonDataLost, ReasonDataDamaged, ReasonBackupUnreachable,
		ReasonBackupOfEarlierCluster, ReasonRestoreFailed, ReasonNotReplaced, ReasonRecovering, ReasonWakingUp, ReasonPreviousClusterServes, ReasonRebuildFailed,
		ReasonFirstStartBlocked, ReasonNotListed, ReasonMemberRemoved, ReasonVolumeUnusable:
		return true
	}
	return false
}

// Reasons of the condition BackupReady.
const (
	// ReasonBackupSucceeded means that the last snapshot is in the store.
	ReasonBackupSucceeded = "BackupSucceeded"
	// ReasonBackupFailed means that the last snapshot failed; the message says why.
	ReasonBackupFailed = "BackupFailed"
	// ReasonNoFullSnapshot means that there is no full snapshot yet.
	ReasonNoFullSnapshot = "NoFullSnapshot"
	// ReasonNoProvider means that spec.backup.store names no provider, so no backups are taken.
	ReasonNoProvider = "NoProvider"
	// ReasonBackupsStale means that no agent has reported for twice the delta period that the store is up to date.
	ReasonBackupsStale = "BackupsStale"
)

// Reasons of the condition AlarmRaised. If there are alarms of several kinds, the first that is true.
const (
	// ReasonAlarmCorrupt means that the data of members differs (CORRUPT). The cluster accepts no writes.
	ReasonAlarmCorrupt = "Corrupt"
	// ReasonAlarmNoSpace means that a database has reached its quota (NOSPACE). The cluster accepts no writes except deletions.
	ReasonAlarmNoSpace = "NoSpace"
	// ReasonAlarmUnknown means that etcd has raised an alarm that this operator does not know.
	ReasonAlarmUnknown = "UnknownAlarm"
)

// ReasonCompactingSnapshots is the reason of the event for a task created because of spec.backup.snapshotCompaction.
const ReasonCompactingSnapshots = "CompactingSnapshots"

// ReasonTaskNameTaken is the reason of the event for a task that the operator created under another name, since a foreign task has its
// name.
const ReasonTaskNameTaken = "TaskNameTaken"

// ReasonDefragmenting is the reason of the event for a task created because of spec.etcd.defragmentationSchedule.
const ReasonDefragmenting = "Defragmenting"

// ReasonMembersChange is the reason of the event for a task created because the members are not those that the spec asks for.
const ReasonMembersChange = "MembersChange"

// ReasonNoScaleOperation is the reason of the condition ScaleOperationComplete when it is True. When it is False, the reason is ScalingOut
// or ScalingIn.
const ReasonNoScaleOperation = "NoScaleOperation"

// Reasons of the condition BootstrappedWithExistingCluster.
const (
	// ReasonBootstrapInProgress means that members have yet to join.
	ReasonBootstrapInProgress = "BootstrapInProgress"
	// ReasonBootstrapSucceeded means that the members had joined. It stays.
	ReasonBootstrapSucceeded = "BootstrapSucceeded"
	// ReasonLeavingSource means that the Etcd is deleted, and kept until its members have left the source cluster.
	ReasonLeavingSource = "LeavingSource"
)

// Reasons of the condition Scaled.
const (
	// ReasonScaled means that the cluster has as many members as specified.
	ReasonScaled = "Scaled"
	// ReasonScalingOut means that members are being added.
	ReasonScalingOut = "ScalingOut"
	// ReasonScalingIn means that members are being removed.
	ReasonScalingIn = "ScalingIn"
	// ReasonSurging means that a further member stands in while the only one is replaced, or while volumes move.
	ReasonSurging = "Surging"
	// ReasonScalingHeld means that the next member cannot be added or removed yet; the message says why.
	ReasonScalingHeld = "ScalingHeld"
	// ReasonSingleMemberNotAllowed means that the spec asks for one member of several, which tolerates no failure, and that the
	// annotation druid.gardener.cloud/allow-single-member does not agree to that.
	ReasonSingleMemberNotAllowed = "SingleMemberNotAllowed"
	// ReasonTooManyReplicas means that the StatefulSet was scaled to more replicas than the operator observes.
	ReasonTooManyReplicas = "TooManyReplicas"
)

// ConditionPaused of an EtcdFleetPolicy is True while it lets nothing start, or not all changes. Absent otherwise.
const ConditionPaused = "Paused"

// Reasons of the condition Paused.
const (
	// ReasonPausedBySpec: spec.paused is set, or spec.maxConcurrent is 0.
	ReasonPausedBySpec = "PausedBySpec"
	// ReasonInvalidPolicy: the policy cannot be read.
	ReasonInvalidPolicy = "InvalidPolicy"
	// ReasonTasksNotCounted: nothing starts by the policy yet, since the tasks that run in its namespaces could not be counted. The message
	// says in which namespace, and why.
	ReasonTasksNotCounted = "TasksNotCounted"
	// ReasonLedgerOfNewerOperator is the reason of events of policies: a newer operator has written the ledger, so nothing starts.
	ReasonLedgerOfNewerOperator = "LedgerOfNewerOperator"
	// ReasonChangeFailed: a change failed in more clusters than spec.maxFailures, and tasks ask for it or run with it. The message says where, why, and how
	// it is resumed.
	ReasonChangeFailed = "ChangeFailed"
)
