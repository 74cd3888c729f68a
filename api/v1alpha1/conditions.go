// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types of an EtcdOperatorTask.
const (
	// ConditionAdmitted: True once the preconditions of the task held; False when it was rejected.
	ConditionAdmitted = "Admitted"
	// ConditionProgressing: True while the task runs. False with a reason while it waits in line, is
	// suspended or stalled, and after its end.
	ConditionProgressing = "Progressing"
	// ConditionFinished: True once the task has ended, however it ended.
	ConditionFinished = "Finished"
	// ConditionSucceeded: True once the task has succeeded; False once it has failed or was rejected.
	ConditionSucceeded = "Succeeded"
	// ConditionEtcdReachable: False while no member answers the operator although pods are ready. The
	// rollout then works from readiness probes and leases alone.
	ConditionEtcdReachable = "EtcdReachable"
)

// Reasons of the conditions of an EtcdOperatorTask.
const (
	// ReasonQueued: another task of the same Etcd comes first.
	ReasonQueued = "Queued"
	// ReasonPreempted: a recovery has preempted the task between two steps. It continues when the recovery has ended.
	ReasonPreempted = "Preempted"
	// ReasonSuspended: spec.suspend is set.
	ReasonSuspended = "Suspended"
	// ReasonAdmitted: the preconditions held.
	ReasonAdmitted = "Admitted"
	// ReasonRunning: a step was announced or carried out.
	ReasonRunning = "Running"
	// ReasonHeld: a guard holds the task; status.rollout.heldBy says which.
	ReasonHeld = "Held"
	// ReasonStalled: no progress for longer than the progress deadline.
	ReasonStalled = "Stalled"
	// ReasonRetrying: a step or an observation failed and is tried again.
	ReasonRetrying = "Retrying"
	// ReasonCleanupFailed: a task of the same Etcd was deleted while it was running, and what it left behind could not be
	// cleaned up yet; the message names it.
	ReasonCleanupFailed = "CleanupFailed"
	// ReasonRecreateInProgress and ReasonRecreateComplete are those of a RecreateRollout (KEP-3541).
	ReasonRecreateInProgress = "RecreateInProgress"
	ReasonRecreateComplete   = "RecreateComplete"
	// ReasonRecovering is that of a QuorumLossRecovery; and of a member that waits for its turn in one.
	ReasonRecovering = "Recovering"
	// ReasonSucceeded, ReasonFailed and ReasonRejected are the ends of a task.
	ReasonSucceeded = "Succeeded"
	ReasonFailed    = "Failed"
	ReasonRejected  = "Rejected"
	// ReasonMembersAnswer and ReasonNoMemberAnswers belong to EtcdReachable.
	ReasonMembersAnswer   = "MembersAnswer"
	ReasonNoMemberAnswers = "NoMemberAnswers"
)

// ErrorCode identifies an error in status.lastErrors of a task.
// +kubebuilder:validation:Pattern=`^ERR_[A-Z0-9_]+$`
type ErrorCode string

// The error codes.
const (
	// ErrUnsupportedType: the operator has no handler for spec.type.
	ErrUnsupportedType ErrorCode = "ERR_UNSUPPORTED_TYPE"
	// ErrInvalidConfig: spec.config does not decode.
	ErrInvalidConfig ErrorCode = "ERR_INVALID_CONFIG"
	// ErrTooManyTasks: too many earlier tasks of the Etcd have not ended.
	ErrTooManyTasks ErrorCode = "ERR_TOO_MANY_TASKS"
	// ErrDuplicateTask: an earlier task does the same work.
	ErrDuplicateTask ErrorCode = "ERR_DUPLICATE_TASK"
	// ErrCrossNamespace: the task refers to another namespace.
	ErrCrossNamespace ErrorCode = "ERR_CROSS_NAMESPACE"
	// ErrEtcdNotFound: there is no such Etcd.
	ErrEtcdNotFound ErrorCode = "ERR_ETCD_NOT_FOUND"
	// ErrEtcdReplaced: the task is for an earlier Etcd of the same name, which was deleted.
	ErrEtcdReplaced ErrorCode = "ERR_ETCD_REPLACED"
	// ErrStatefulSetNotFound: the Etcd has no StatefulSet.
	ErrStatefulSetNotFound ErrorCode = "ERR_STATEFULSET_NOT_FOUND"
	// ErrStrategy: the StatefulSet's update strategy is not OnDelete.
	ErrStrategy ErrorCode = "ERR_STRATEGY"
	// ErrSuperseded: the rollout's target revision is no longer the StatefulSet's.
	ErrSuperseded ErrorCode = "ERR_SUPERSEDED"
	// ErrNotAdmitted: the status says that the task runs, and no operator has admitted it.
	ErrNotAdmitted ErrorCode = "ERR_NOT_ADMITTED"
	// ErrDeadlineExceeded: the task took longer than its type allows.
	ErrDeadlineExceeded ErrorCode = "ERR_DEADLINE_EXCEEDED"
	// ErrObserve: the state of the cluster could not be read.
	ErrObserve ErrorCode = "ERR_OBSERVE"
	// ErrDeletePod, ErrEvictPod, ErrMoveLeader, ErrRevokeDeletion: a step of a rollout failed.
	ErrDeletePod      ErrorCode = "ERR_DELETE_POD"
	ErrEvictPod       ErrorCode = "ERR_EVICT_POD"
	ErrMoveLeader     ErrorCode = "ERR_MOVE_LEADER"
	ErrRevokeDeletion ErrorCode = "ERR_REVOKE_DELETION"
	// ErrNoQuorum: the cluster has no quorum, and the task needs one.
	ErrNoQuorum ErrorCode = "ERR_NO_QUORUM"
	// ErrAlarm: etcd has raised an alarm that a person has to look at.
	ErrAlarm ErrorCode = "ERR_ALARM"
	// ErrNoSpace: the database still takes more than its quota after its defragmentation.
	ErrNoSpace ErrorCode = "ERR_NO_SPACE"
	// ErrMaintenance: etcd did not compact, defragment or disarm an alarm.
	ErrMaintenance ErrorCode = "ERR_MAINTENANCE"
	// ErrTLSSecret: a Secret of spec.etcd.clientUrlTls or peerUrlTls cannot be used.
	ErrTLSSecret ErrorCode = "ERR_TLS_SECRET"
	// ErrSchedule: spec.etcd.defragmentationSchedule is no schedule.
	ErrSchedule ErrorCode = "ERR_SCHEDULE"
	// ErrPeerURLs: the peer URLs of the members could not be changed.
	ErrPeerURLs ErrorCode = "ERR_PEER_URLS"
	// ErrNoBackup: the Etcd has no store for backups.
	ErrNoBackup ErrorCode = "ERR_NO_BACKUP"
	// ErrSnapshot: the agent did not take the snapshot.
	ErrSnapshot ErrorCode = "ERR_SNAPSHOT"
	// ErrJob: the Job of a task could not be created or looked at.
	ErrJob ErrorCode = "ERR_JOB"
	// ErrJobNotStarted, ErrJobImage, ErrJobOutOfMemory, ErrJobFailed: what has become of the Job of a task.
	ErrJobNotStarted  ErrorCode = "ERR_JOB_NOT_STARTED"
	ErrJobImage       ErrorCode = "ERR_JOB_IMAGE"
	ErrJobOutOfMemory ErrorCode = "ERR_JOB_OUT_OF_MEMORY"
	ErrJobFailed      ErrorCode = "ERR_JOB_FAILED"
	// ErrHibernated: the Etcd sleeps, with zero replicas.
	ErrHibernated ErrorCode = "ERR_HIBERNATED"
	// ErrSingleMember: the cluster has one member, which restores itself.
	ErrSingleMember ErrorCode = "ERR_SINGLE_MEMBER"
	// ErrNeverServed: the cluster has never had a quorum, so there is nothing to recover.
	ErrNeverServed ErrorCode = "ERR_NEVER_SERVED"
	// ErrQuorumNotLost: the cluster has a quorum, and needs no recovery.
	ErrQuorumNotLost ErrorCode = "ERR_QUORUM_NOT_LOST"
	// ErrNothingToRecover: no member has data, and there is no backup.
	ErrNothingToRecover ErrorCode = "ERR_NOTHING_TO_RECOVER"
	// ErrNotQuorate: the members were started again, and no quorum has formed.
	ErrNotQuorate ErrorCode = "ERR_NOT_QUORATE"
	// ErrForeignObject: an object that is not the Etcd's own has a name that the Etcd needs.
	ErrForeignObject ErrorCode = "ERR_FOREIGN_OBJECT"
	// ErrApply: an object of an Etcd could not be applied.
	ErrApply ErrorCode = "ERR_APPLY"
	// ErrInternal: an error without a code of its own.
	ErrInternal ErrorCode = "ERR_INTERNAL"
)

// Condition types of an Etcd.
const (
	// ConditionReady: the cluster has a quorum, as etcd itself says.
	ConditionReady = "Ready"
	// ConditionAllMembersReady: every member participates.
	ConditionAllMembersReady = "AllMembersReady"
	// ConditionAllMembersUpdated: every pod is at the StatefulSet's update revision.
	ConditionAllMembersUpdated = "AllMembersUpdated"
	// ConditionTLSReady: members, and clients, connect as spec.etcd.peerUrlTls and clientUrlTls say. Absent
	// while neither is given.
	ConditionTLSReady = "TLSReady"
	// ConditionDataVolumesReady: no member is kept from starting by its volume: by what it found there, or for want of one.
	ConditionDataVolumesReady = "DataVolumesReady"
	// ConditionBackupReady: snapshots are taken. Absent without a store.
	ConditionBackupReady = "BackupReady"
	// ConditionScaled: the cluster has as many members as its spec says.
	ConditionScaled = "Scaled"
	// ConditionObjectsOwned: each object that exists under a name which the Etcd needs is the Etcd's own: it controls the
	// object, or has adopted it. While one is not, the operator writes none of them; the message names it, says whose it
	// is, and what to do.
	ConditionObjectsOwned = "ObjectsOwned"
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
	// ReasonTLSInUse: every connection is as the spec says.
	ReasonTLSInUse = "TLSInUse"
	// ReasonSecretInvalid: a Secret is missing or cannot be used; the message names it.
	ReasonSecretInvalid = "SecretInvalid"
	// ReasonCertificatesRollout: the pods are being replaced by such that have the certificates. Members that
	// are to use TLS among themselves still connect without.
	ReasonCertificatesRollout = "CertificatesRollout"
	// ReasonPeerURLsAdded: every member has its certificate; each is about to be listed with both its URLs.
	ReasonPeerURLsAdded = "PeerURLsAdded"
	// ReasonPeerTLSRollout: the pods are being replaced by such that listen for each other with TLS.
	ReasonPeerTLSRollout = "PeerTLSRollout"
	// ReasonPeerURLsRemoved: every member listens with TLS; its URL without is about to be removed.
	ReasonPeerURLsRemoved = "PeerURLsRemoved"
)

// Reasons of the condition ObjectsOwned.
const (
	// ReasonObjectsOwned: each object is the Etcd's own.
	ReasonObjectsOwned = "ObjectsOwned"
	// ReasonControlledByAnother: an object has another controller than the Etcd.
	ReasonControlledByAnother = "ControlledByAnother"
	// ReasonNoController: an object has no controller. Either it was made by somebody else, or somebody removed its owner
	// reference.
	ReasonNoController = "NoController"
	// ReasonManagedByAnother: the Etcd controls an object that another operator manages, by its label.
	ReasonManagedByAnother = "ManagedByAnother"
	// ReasonClaimNotOwned: a claim has neither the labels of the Etcd's claims nor the annotation of its adoption.
	ReasonClaimNotOwned = "ClaimNotOwned"
)

// Reasons of the condition DataVolumesReady. A member that is kept from starting gives one of them.
const (
	// ReasonDataVolumesReady: no member is.
	ReasonDataVolumesReady = "DataVolumesReady"
	// ReasonDataOfAnotherCluster: a volume holds data of a cluster other than the recorded one.
	ReasonDataOfAnotherCluster = "DataOfAnotherCluster"
	// ReasonDataLost: a member that has run before has no data, and nobody can replace it now.
	ReasonDataLost = "DataLost"
	// ReasonDataDamaged: etcd could not start with the data of a member, and nobody can replace it now.
	ReasonDataDamaged = "DataDamaged"
	// ReasonBackupUnreachable: the store that a member would be restored from does not answer.
	ReasonBackupUnreachable = "BackupUnreachable"
	// ReasonBackupOfEarlierCluster: a new cluster of several has a store with backups of an earlier one.
	ReasonBackupOfEarlierCluster = "BackupOfEarlierCluster"
	// ReasonRestoreFailed: the backup could not be restored.
	ReasonRestoreFailed = "RestoreFailed"
	// ReasonVolumeMissing: a claim has no volume yet.
	ReasonVolumeMissing = "VolumeMissing"
	// ReasonVolumeLost: the volume of a claim does not exist any more.
	ReasonVolumeLost = "VolumeLost"
	// ReasonNotReplaced: the cluster did not, or not yet, take a learner in the place of a member.
	ReasonNotReplaced = "NotReplaced"
	// ReasonRebuildFailed: the data of the member from which the cluster is to be recovered could not be used.
	ReasonRebuildFailed = "RebuildFailed"
)

// IsDataVolumeReason tells whether a member that is kept from starting may give this reason.
func IsDataVolumeReason(reason string) bool {
	switch reason {
	case ReasonDataOfAnotherCluster, ReasonDataLost, ReasonDataDamaged, ReasonBackupUnreachable,
		ReasonBackupOfEarlierCluster, ReasonRestoreFailed, ReasonNotReplaced, ReasonRecovering, ReasonWakingUp, ReasonRebuildFailed:
		return true
	}
	return false
}

// Reasons of the condition BackupReady.
const (
	// ReasonBackupSucceeded: the last snapshot is in the store.
	ReasonBackupSucceeded = "BackupSucceeded"
	// ReasonBackupFailed: the last snapshot failed; the message says why.
	ReasonBackupFailed = "BackupFailed"
	// ReasonNoFullSnapshot: there is no full snapshot yet.
	ReasonNoFullSnapshot = "NoFullSnapshot"
)

// ReasonCompactingSnapshots is that of the event that tells of a task which spec.backup.snapshotCompaction has become due.
const ReasonCompactingSnapshots = "CompactingSnapshots"

// ReasonDefragmenting is that of the event that tells of a task which spec.etcd.defragmentationSchedule has become due.
const ReasonDefragmenting = "Defragmenting"

// Reasons of the condition Scaled.
const (
	// ReasonScaled: the cluster has as many members as its spec says.
	ReasonScaled = "Scaled"
	// ReasonScalingOut: a member that was added is on its way.
	ReasonScalingOut = "ScalingOut"
	// ReasonScaleOutHeld: a further member is not added yet; the message says why.
	ReasonScaleOutHeld = "ScaleOutHeld"
	// ReasonScaleInRefused: the spec asks for fewer members, other than none, than the cluster has.
	ReasonScaleInRefused = "ScaleInRefused"
)
