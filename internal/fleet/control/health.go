// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/pods"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// state is how a cluster is that is watched.
type state struct {
	// gone: there is no such Etcd any more, or it is hibernated, or its members change or are restored. changing: a change of its members is waited
	// for, so it is unknown.
	gone, changing bool
	// left is what is wrong with it if it is a canary whose watch ends by that; empty if nothing is.
	left string
	// unknown: members are unreachable, or could not be read (unread). That is neither success nor failure.
	unknown bool
	unread  error
	// broken says what is not as it has to be; empty if all is well.
	broken string
	// baseline is what must not change.
	baseline string
}

func (s *state) isWell() bool { return !s.gone && !s.unknown && s.broken == "" }

// shown is how a cluster is that is watched, by what the cache shows.
func (c *Controller) shown(ctx context.Context, v *view, h *fleet.Holder) state {
	etcd := v.etcds[h.Etcd]
	switch {
	case etcd == nil || etcd.Spec.Replicas == 0:
		return state{gone: true}
	case v.changing[h.Etcd] != "":
		return c.whileMembersChange(h, v.changing[h.Etcd])
	}
	return c.stateOf(ctx, c.Client, h, etcd)
}

// whileMembersChange is how a cluster counts whose members change. A rollout of the only member succeeds before the one that stood in leaves, so
// what is underway when a task succeeds is waited for; what begins later, or takes too long, ends the watch, as a Restore does.
func (c *Controller) whileMembersChange(h *fleet.Holder, by v1alpha1.TaskType) state {
	if by == v1alpha1.MembershipChange && h.Baseline == "" && c.Clock.Now().Sub(h.Ended) < c.Patience {
		return state{unknown: true, changing: true}
	}
	return state{gone: true}
}

// mayBeOf reports whether a change of members may be that of the template of a task: it began while that ran, or soon after. Any other may be blocked
// for days, and says nothing about the template. Tasks know their beginning to the second.
func mayBeOf(h *fleet.Holder, by *v1alpha1.EtcdOperatorTask) bool {
	began := by.Status.InitiatedAt
	return by.Spec.Type == v1alpha1.MembershipChange && h.Baseline == "" && began != nil &&
		!began.Time.Before(h.Granted.Truncate(time.Second)) && !began.After(h.Ended.Add(settle))
}

// live is how a cluster is that is watched, by live reads.
func (c *Controller) live(ctx context.Context, v *view, h *fleet.Holder) (s state, err error) {
	etcd, err := c.readEtcd(ctx, h)
	if err != nil || etcd == nil {
		return state{gone: true}, err
	}
	if s = c.stateOf(ctx, c.Live, h, etcd); s.broken == "" && v.changing[h.Etcd] == "" {
		return s, nil
	}
	by, err := c.membersChange(ctx, h)
	if by == nil {
		return s, err
	}
	during := c.whileMembersChange(h, by.Spec.Type)
	switch {
	case !mayBeOf(h, by):
	case s.unknown:
		return s, nil // it is watched until that is known
	case s.broken != "":
		during.left = fmt.Sprintf("while it was watched: %s. Task %s, which changes its members, has not ended: %s", s.broken, by.Name, by.Status.Progressing().Message)
	}
	return during, nil
}

// leftBehind says what is wrong with a cluster that is watched, and whose next task is about to end that; empty if it is well, or not watched
// any more.
func (c *Controller) leftBehind(ctx context.Context, v *view, h *fleet.Holder, next string) (string, error) {
	s, err := c.live(ctx, v, h)
	switch {
	case err != nil || s.unread != nil:
		return "", errors.Join(err, s.unread)
	case s.gone || s.changing || s.isWell():
		return s.left, nil
	}
	return fmt.Sprintf("while it was watched, before task %s: %s", next, cmp.Or(s.broken, "it was not known whether its members are well")), nil
}

// membersChange returns the task that changes the members of a cluster, by a live read; nil if none does.
func (c *Controller) membersChange(ctx context.Context, h *fleet.Holder) (by *v1alpha1.EtcdOperatorTask, err error) {
	tasks := &v1alpha1.EtcdOperatorTaskList{}
	if err := c.Live.List(ctx, tasks, client.InNamespace(h.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the tasks of namespace %s, where a cluster is watched: %w", h.Namespace, err)
	}
	for i := range tasks.Items {
		if t := &tasks.Items[i]; changesMembers(t) && etcdOf(t) == h.Etcd && (by == nil || by.Spec.Type != v1alpha1.Restore) {
			by = t
		}
	}
	return by, nil
}

// stateOf looks at a cluster that is watched.
func (c *Controller) stateOf(ctx context.Context, from client.Reader, h *fleet.Holder, etcd *v1alpha1.Etcd) (s state) {
	was := expectationOf(h)
	for _, name := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionAllMembersReady} {
		condition := etcd.Status.Conditions.Find(name)
		switch {
		case s.broken != "":
		case condition == nil || condition.Status == metav1.ConditionUnknown:
			return state{unknown: true}
		case condition.Status == metav1.ConditionFalse:
			s.broken = fmt.Sprintf("%s is False: %s", name, condition.Message)
		}
	}
	if isNewAlarm(was.alarm, alarmOf(etcd)) {
		// It says more than what follows from it: with CORRUPT, no member is ready.
		s.broken = etcd.Status.Conditions.Find(v1alpha1.ConditionAlarmRaised).Message
	}
	if s.broken != "" {
		return s
	}
	// The conditions of etcd-druid are a minute late, and later while it is down.
	if pod, err := unready(ctx, from, etcd); err != nil {
		return state{unknown: true, unread: err}
	} else if pod != "" {
		return state{broken: fmt.Sprintf("pod %s is not ready", pod)}
	}
	pods, err := podsOf(ctx, from, etcd)
	if err != nil {
		return state{unknown: true, unread: err}
	}
	s.baseline = expectation{pods: pods, backedUp: backedUp(etcd), alarm: alarmOf(etcd)}.String()
	switch {
	case h.Baseline != "" && was.pods != pods:
		s.broken = "a member restarted, or its pod was replaced"
	case was.backedUp && !backedUp(etcd):
		s.broken = "BackupReady is False: " + etcd.Status.Conditions.Find(v1alpha1.ConditionBackupReady).Message
	}
	return s
}

// expectation is what must not change, or not become worse, while a cluster is watched.
type expectation struct {
	pods     string
	backedUp bool
	// alarm is the reason of the condition AlarmRaised; empty if there is none.
	alarm string
}

// String returns it as a ledger records it. An alarm comes last, and only if there is one: an earlier operator does not know of it.
func (e expectation) String() string {
	text := e.pods + " backup=failing"
	if e.backedUp {
		text = e.pods + " backup=ok"
	}
	if e.alarm != "" {
		text += " alarm=" + e.alarm
	}
	return text
}

// expectationOf returns what a holder records: when its task got the slot, until it is watched.
func expectationOf(h *fleet.Holder) expectation {
	if h.Baseline == "" {
		return expectation{backedUp: h.BackedUp, alarm: h.Alarm}
	}
	rest, alarm, _ := strings.Cut(h.Baseline, " alarm=")
	pods, backup, _ := strings.Cut(rest, " backup=")
	return expectation{pods: pods, backedUp: backup == "ok", alarm: alarm}
}

// isNewAlarm reports whether a cluster has an alarm that it did not have before. The kind counts, not the member: once a member has raised
// NOSPACE, every other one may that a client writes to. CORRUPT may have hidden others.
func isNewAlarm(before, now string) bool {
	return now != "" && now != before && before != v1alpha1.ReasonAlarmCorrupt
}

// alarmOf returns the reason of the condition AlarmRaised of an Etcd, which may be nil; empty if no alarm is raised, as far as is known.
func alarmOf(etcd *v1alpha1.Etcd) string {
	if etcd == nil || !etcd.Status.Conditions.IsTrue(v1alpha1.ConditionAlarmRaised) {
		return ""
	}
	return etcd.Status.Conditions.Find(v1alpha1.ConditionAlarmRaised).Reason
}

// backedUp reports whether the backups of a cluster do not fail, as far as is known.
func backedUp(etcd *v1alpha1.Etcd) bool {
	return !etcd.Status.Conditions.IsFalse(v1alpha1.ConditionBackupReady)
}

// memberPods returns the pods of the members that a cluster is to have. Those of other ordinals are leaving, or have its label alone.
func memberPods(ctx context.Context, from client.Reader, etcd *v1alpha1.Etcd) (all []corev1.Pod, err error) {
	list := &corev1.PodList{}
	if err := from.List(ctx, list, client.InNamespace(etcd.Namespace), client.MatchingLabels{v1alpha1.LabelPartOf: etcd.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the pods of Etcd %s/%s: %w", etcd.Namespace, etcd.Name, err)
	}
	members := map[string]bool{}
	for i := range etcd.Spec.Replicas {
		members[fmt.Sprintf("%s-%d", etcd.Name, i)] = true
	}
	for i := range list.Items {
		if of := metav1.GetControllerOf(&list.Items[i]); of != nil && of.Kind == "StatefulSet" && members[list.Items[i].Name] {
			all = append(all, list.Items[i])
		}
	}
	return all, nil
}

// podsOf returns which pods and containers of a cluster run: it changes when one restarts.
func podsOf(ctx context.Context, from client.Reader, etcd *v1alpha1.Etcd) (string, error) {
	members, err := memberPods(ctx, from, etcd)
	if err != nil {
		return "", err
	}
	var all []string
	for i := range members {
		text := string(members[i].UID)
		for _, container := range members[i].Status.ContainerStatuses {
			if container.Name == v1alpha1.ContainerEtcd && container.State.Running != nil {
				text += container.State.Running.StartedAt.UTC().Format("@150405")
			}
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return strings.Join(all, ","), nil
}

// unready names a pod of a cluster whose etcd is not ready, by what a reader shows; empty if there is none.
func unready(ctx context.Context, from client.Reader, etcd *v1alpha1.Etcd) (string, error) {
	members, err := memberPods(ctx, from, etcd)
	if err != nil {
		return "", err
	}
	for i := range members {
		if c := pods.Container(&members[i], v1alpha1.ContainerEtcd); c == nil || !c.Ready || members[i].DeletionTimestamp != nil {
			return members[i].Name, nil
		}
	}
	return "", nil
}
