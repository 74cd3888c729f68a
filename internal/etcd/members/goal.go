// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/membership"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// maxValue bounds the shown part of an annotation's value, in bytes.
const maxValue = 64

// Goal returns the goal for the members of an Etcd. The size is that of its spec, unless a task has another one; single is the task's
// consent to a single member.
func Goal(etcd *v1alpha1.Etcd, size int32, single bool) membership.Goal {
	value, annotated := etcd.Annotations[v1alpha1.AnnotationAllowSingleMember]
	goal := membership.Goal{
		Size: int(cmp.Or(size, etcd.Spec.Replicas)), Single: single || value == "true", KeepSources: etcd.SourceStays(),
		KeepClaims: etcd.Spec.Retention().WhenScaled == v1alpha1.VolumesRetained,
	}
	if annotated && value != "true" {
		goal.Refusal = strconv.Quote(sanitize.Text(value, maxValue))
	}
	return goal
}

// Relieve returns the UID of the pod that a rollout has to replace, and whose member another one relieves first; empty if there is none.
// Once the rollout is suspended or gone, or the Etcd asks for something else, the cluster returns to its previous members. While the spec
// is suspended, no relief begins, since a further member needs objects of its own.
func Relieve(etcd *v1alpha1.Etcd, tasks []v1alpha1.EtcdOperatorTask) types.UID {
	t := etcdtasks.RollingOut(tasks)
	if t == nil || t.Spec.Suspend || t.Status.Rollout == nil || !etcd.Surges() || etcd.SpecSuspended() {
		return ""
	}
	return t.Status.Rollout.Relieve
}

// Acting returns a sentence about what else acts on the members of an Etcd; empty if nothing does.
func Acting(etcd *v1alpha1.Etcd, s *cluster.Snapshot, tasks []v1alpha1.EtcdOperatorTask) string {
	adopted := etcd.Status.Conditions.Find(v1alpha1.ConditionAdopted)
	switch t := etcdtasks.Recovering(tasks); {
	case t != nil:
		return fmt.Sprintf("task %s starts the cluster as a new one", t.Name)
	case s.StatefulSet.HeldAtZeroBy != "":
		return "a task keeps all members stopped"
	case !etcd.LeavesSource() && (etcd.Spec.Replicas == 0 || s.Replicas() == 0):
		return "the cluster hibernates"
	case etcd.Status.Hibernation != nil:
		return "the cluster wakes up"
	case shrinksFromOdd(etcd, s) && mayRemoveVoter(etcdtasks.RollingOut(tasks), s):
		return fmt.Sprintf("rollout %s is in progress, and the number of members shrinks after it", etcdtasks.RollingOut(tasks).Name)
	case etcd.SpecSuspended() && !etcd.AsksFor(int32(s.Replicas())):
		return "the reconciliation of the spec is suspended, so the number of members stays"
	case s.StatefulSet.Foreign != "":
		return s.StatefulSet.Foreign
	case Unconverted(etcd, s) != "":
		return Unconverted(etcd, s)
	case adopted != nil && adopted.Status != metav1.ConditionTrue:
		return "the objects of the Etcd are being adopted or handed back"
	case etcd.Status.Reports(v1alpha1.ErrClusterID):
		return fmt.Sprintf("the members serve as another cluster than the recorded one (%s in status.lastErrors)", v1alpha1.ErrClusterID)
	}
	return ""
}

// Unconverted returns a sentence about pods that wait for their conversion, and with it every change of members: a new pod would be one of
// etcd-druid's, which finds no etcd-druid, or have no objects of its own. It is empty if the pods are converted.
func Unconverted(etcd *v1alpha1.Etcd, s *cluster.Snapshot) string {
	if s == nil || !s.StatefulSet.OfDruid && !conversionPending(etcd) {
		return ""
	}
	are := "the pods are etcd-druid's"
	if !s.StatefulSet.OfDruid {
		are = "nothing has been applied since the adoption"
	}
	convert := fmt.Sprintf("convert the pods (kubectl -n %s annotate etcd %s %s=%s)", etcd.Namespace, etcd.Name, v1alpha1.AnnotationOperation, v1alpha1.OperationReconcile)
	if have := s.Replicas(); have != int(etcd.Spec.Replicas) {
		return fmt.Sprintf("%s, and StatefulSet %s has %d replicas while spec.replicas is %d: set spec.replicas to %d, and %s", are, s.StatefulSet.Name, have, etcd.Spec.Replicas, have, convert)
	}
	return are + ": " + convert
}

// conversionPending reports whether the operator applies nothing to an adopted Etcd, also if it has the operator's pods, handed back before:
// the StatefulSet follows no task then.
func conversionPending(etcd *v1alpha1.Etcd) bool {
	adopted := etcd.Status.Conditions.Find(v1alpha1.ConditionAdopted)
	return adopted != nil && adopted.Status == metav1.ConditionTrue &&
		(adopted.Reason == v1alpha1.ReasonConversionPending || adopted.Reason == v1alpha1.ReasonConversionRefused)
}

// shrinksFromOdd reports whether the next step may remove a serving voter from an odd number of voters, after which the quorum tolerates
// one failure fewer. A removal that a rollout has requested may still happen then; from an even number, rollouts remove none.
func shrinksFromOdd(etcd *v1alpha1.Etcd, s *cluster.Snapshot) bool {
	voters := len(s.Cluster.Voters)
	return voters%2 > 0 && voters > int(etcd.Spec.Replicas) && s.ServingVoters() == voters
}

// mayRemoveVoter reports whether a rollout may remove the pod of a voter. It removes none once all pods are updated. If the member of another
// pod has no vote, it waits for that pod, which can only leave or join when members change, unless the guard OthersParticipating is
// overridden. What it has requested before may still be carried out.
func mayRemoveVoter(rollout *v1alpha1.EtcdOperatorTask, s *cluster.Snapshot) bool {
	if rollout == nil {
		return false
	}
	r := ptr.Deref(rollout.Status.Rollout, v1alpha1.RolloutStatus{})
	votes := func(ordinal int) bool {
		return slices.ContainsFunc(s.Cluster.Voters, func(v cluster.Voter) bool { return v.Ordinal == ordinal })
	}
	waits := int(r.UpdatedReplicas) == len(s.Ordinals)
	for i := range s.Ordinals {
		waits = waits || !votes(i) && !slices.Contains(rollout.Spec.OverrideGuards, v1alpha1.OverridableGuard(v1alpha1.GuardOthersParticipating))
	}
	return !waits || slices.ContainsFunc(r.Pods, func(p v1alpha1.RolloutPod) bool {
		i := s.OrdinalOf(p.UID)
		return p.LastOperation.State == v1alpha1.OperationStateInProgress && i >= 0 && votes(i)
	})
}
