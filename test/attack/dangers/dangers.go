// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package dangers lists what the operator has to prevent.
package dangers

// Danger is something that the operator has to prevent. Where a user cannot bring it about, or not all of it, tests do so inside
// the operator or the agent.
type Danger struct {
	Number int
	What   string
	// ShownBy are tests: the folder of the package, a colon, and the name.
	ShownBy []string
}

// List has all dangers.
var List = []Danger{
	{1, "a slow member counts as lost, and is removed", []string{
		"internal/cluster/observe:TestSlowIsNotLost", "internal/cluster/etcdclient:TestPoolKeepsTheConnectionToAMemberThatIsSlow",
		"internal/rollout:TestScenarios", "internal/rollout:TestExplorationDetectsMutants", "test/e2e:TestBrokenProbe", "test/e2e:TestLeaderlessSpell",
	}},
	{2, "a stale cache stops or starts members", []string{
		"test/integration/recreate:TestHealthyMembersAreNotStoppedForATaskThatHasEnded", "test/integration/recreate:TestMembersAreNotStartedWhileTheirVolumesAreSurveyed",
		"test/integration/recreate:TestPausedOperatorStopsNoMember", "tasks/recreate:TestPhaseIsEnteredOnLiveReads",
	}},
	{3, "a clock that permits something destructive survives a gap", []string{
		"tasks/recovery:TestGracePeriodBeginsAgain", "tasks/recovery:TestMembersAreStoppedAfterTheGracePeriod", "tasks/recovery:TestLookThatIsTooOld",
		"tasks/recovery:TestVolumesAreSurveyedAgainOnceMembersHaveRun",
	}},
	{4, "the gate is switched off in the middle of a rollout", []string{
		"internal/etcd/strategy:TestTakeOverByTheStatefulSetController", "test/integration/etcd:TestGateSwitchedInMidRollout", "test/e2e:TestGateSwitchedInMidRollout",
	}},
	{5, "an override takes the quorum", []string{
		"internal/rollout:TestScenarios", "internal/rollout/plan:TestEveryGuardIsEverywhere", "internal/rollout:TestExploration",
	}},
	{6, "a voter that is far behind counts as serving", []string{"internal/cluster/observe:TestVoterThatIsFarBehindDoesNotServe"}},
	{7, "a pod is removed whose volume is gone", []string{"internal/cluster/observe:TestSurroundings", "internal/cluster/observe:TestClaimsAreReadAsThePodsAre"}},
	{8, "a task of a deleted Etcd runs on its successor", []string{"internal/engine:TestTaskRunsForItsOwnEtcdAlone", "test/integration/task:TestTasksOfADeletedEtcd"}},
	{9, "a learner of an old etcd counts as a voter", []string{"internal/cluster/observe:TestByReadinessOfOldVersions"}},
	{10, "a rollout that repairs reachability never ends", []string{"internal/rollout:TestScenarios", "internal/cluster:TestVouch"}},
	{11, "back-off is forgotten", []string{"internal/engine:TestBackOffIsRememberedWithoutWrites"}},
	{12, "a failing cleanup blocks the queue silently", []string{"internal/engine:TestCleanupThatFailsIsToldOf"}},
	{13, "a flapping member makes progress", []string{"internal/rollout:TestFlappingIsNoProgress", "tasks/recreate:TestProgress"}},
	{14, "a status that nobody admitted", []string{"internal/engine:TestTaskThatRunsWithoutAnAdmissionIsRejected"}},
	{15, "advice that is missing, timers that do not accumulate, memory that is never freed", []string{
		"internal/rollout:TestScenarios", "tasks/recreate:TestARecreationThatWaitsAsksNoMember", "internal/cluster/observe:TestLeasesAreForgotten",
		"internal/rollout:TestAPodThatFinalizersKeepIsSaidToBe", "internal/cluster/observe:TestFinalizersOfAPod",
		"internal/rollout:TestConditionsLastFromOneObservationToTheNext",
	}},
	{16, "one Etcd slows others", []string{
		"internal/engine:TestManyTasks", "internal/engine:TestRecoveryIsNeverTurnedAway", "internal/operator:TestWhatIsKeptOfTasks",
		"internal/etcd/state:TestRead",
	}},
	{17, "a foreign object is modified or used", []string{
		"test/integration/etcd:TestForeignObjects", "test/integration/etcd:TestForeignObjectInACluster", "test/integration/etcd:TestForeignObjectBehindAStaleCache",
		"test/integration/operator:TestForeignObjects", "internal/etcd/apply:TestNothingIsWrittenWhileAnObjectIsForeign", "internal/cluster/observe:TestForeignStatefulSetIsNotObserved",
	}},
	{18, "a foreign claim grows, or is deleted", []string{
		"test/integration/etcd:TestClaimsOfAnotherDoNotGrow", "test/integration/etcd:TestClaimsOfAnotherOutlastHibernation",
		"test/integration/etcd:TestClaimBecomesForeignBeforeItsDeletion", "internal/base/ownership:TestOfClaim", "internal/job:TestPods",
		"test/integration/rbac:TestTheLabelIsReservedInTemplates",
	}},
	{19, "a hostile member exhausts the operator", []string{"internal/cluster/observe:TestForgedMembersCostLittle", "internal/cluster/observe:TestForgedListOfEmptyMembersCostsLittle"}},
	{20, "a neighbor has snapshots taken, and backups removed", []string{
		"test/integration/backup:TestUnauthorizedClientsRemoveNoBackups", "internal/agent/backup/server:TestAccess", "internal/agent/auth:TestVerify", "internal/agent/serve:TestTimeoutsOfTheServer",
	}},
	{21, "an agent redirects the operator, or has it repeat what it answers", []string{
		"internal/agent/api:TestClientFollowsNoRedirect", "internal/agent/api:TestClientEchoesNothing", "tasks/snapshot:TestAnotherServerAnswers",
	}},
	{22, "copies and dangerous tasks without the right", []string{
		"test/integration/rbac:TestWhoMayRunWhichTasks", "test/integration/rbac:TestWhoMayChangeTasks", "test/integration/rbac:TestWhoMayDeleteTasks", "tasks/copybackups:TestForeignStores",
		"internal/etcd/policy:TestCopies", "internal/etcd/policy:TestPrefixes", "internal/etcd/policy:TestLocalClaims",
	}},
	{23, "a hostile bucket", []string{
		"internal/agent/backup:TestBombs", "internal/agent/backup:TestBigEvents", "internal/agent/backup:TestNamesAreCanonical", "internal/agent/boltfile:TestHostileDatabases",
		"test/integration/backup:TestHostileDatabases", "internal/agent/backup/restore:TestATransactionIsBoundedInBytes", "internal/job:TestEveryJobHasLimits",
	}},
	{24, "metrics are read by anybody", []string{
		"test/integration/operator:TestMetricsAreProtected", "internal/agent/backup/server:TestWhoReadsMetrics", "internal/agent/backup/server:TestMetricsByCertificate",
	}},
	{25, "images and Secrets that are not allowed", []string{
		"internal/etcd/policy:TestImages", "test/integration/etcd:TestImageThatIsNotAllowed", "internal/operator:TestNoTaskRunsAnImageThatIsNotAllowed",
		"test/integration/etcd:TestSecretsOfOtherNamespacesAreRefused",
	}},
	{26, "schedules, names and texts that do harm", []string{
		"internal/base/schedule:TestParse", "internal/etcd/component:TestScheduleThatNeverComes", "internal/job:TestNamesOfJobs", "internal/base/logging:TestLinesAreBounded",
		"internal/base/sanitize:TestText", "internal/cli/text:TestNothingControlsTheTerminal",
		"internal/engine/status:TestAResultIsPlainText", "tasks/restore:TestPreviewJob", "internal/job/survey:TestTooManyVoters", "test/integration/rbac:TestATaskNamesAnEtcd",
	}},
	{27, "the operator's token is stolen", []string{
		"test/integration/rbac:TestAStolenTokenRunsNoJobOfItsOwn", "test/integration/rbac:TestAStolenTokenRunsNoStatefulSetOfItsOwn",
		"test/integration/rbac:TestAStolenTokenUsesNoPowerfulServiceAccount", "test/integration/rbac:TestAStolenTokenGrantsNothing",
		"test/integration/rbac:TestAStolenTokenWritesNoObjectOfAnother", "test/integration/rbac:TestAStolenTokenTouchesNoPodOrClaimOfAnother",
		"test/integration/rbac:TestWhichSecretsTheOperatorMayWrite", "test/integration/rbac:TestWhatTheOperatorMayNotDo",
	}},
	{28, "the operator connects to what a tenant may not", []string{
		"internal/cluster/observe:TestNoConnectionElsewhere", "internal/etcd/policy:TestSources", "internal/operator:TestSourcesThatMayBeJoined",
	}},
	{29, "objects of a tenant fill the operator's memory", []string{
		"internal/operator:TestTheCacheKeepsWhatAnEtcdNeeds", "internal/operator:TestTheCacheBoundsPodsAndClaims", "internal/operator:TestAnOwnerWithALongName",
		"test/integration/rbac:TestTheLabelIsReserved",
	}},
}
