// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// alarmRaised returns the condition AlarmRaised; nil if no alarm is raised. An alarm stays until it is disarmed, so without a member that
// serves the condition is as before.
func alarmRaised(before *metav1.Condition, o Input) *metav1.Condition {
	s := o.Snapshot
	switch {
	case s != nil && s.Replicas() == 0 && o.Etcd.Spec.Replicas == 0:
		// Hibernated: it is raised again with the data, and a restore removes it.
		return nil
	case s == nil || !s.AnyServes():
		return before
	case len(s.Cluster.Alarms) == 0:
		return nil
	}
	var say []string
	for _, k := range alarmKinds(o.Etcd, s.Cluster.Alarms) {
		if members := membersWith(s.Cluster.Alarms, k.kind); members != "" {
			say = append(say, fmt.Sprintf("Alarm %s of %s: %s.", k.kind, members, k.meaning))
		}
	}
	return ptr.To(conditions.True(v1alpha1.ConditionAlarmRaised, reasonOf(s.Cluster.Alarms), "%s", strings.Join(say, " ")))
}

// alarmKind is what an alarm of a kind means, and what to do.
type alarmKind struct{ kind, meaning string }

// alarmKinds returns the kinds that alarms may have, the worst first.
func alarmKinds(etcd *v1alpha1.Etcd, all []cluster.Alarm) []alarmKind {
	kinds := []alarmKind{
		{string(etcdclient.AlarmCorrupt), "the data of members differs, and etcd accepts no writes. Find the member that differs, replace it by one with the data of the others, and disarm the alarm (etcdctl alarm disarm)"},
		{string(etcdclient.AlarmNoSpace), fmt.Sprintf("a database has reached its quota, and etcd accepts no writes except deletions. Free space and disarm the alarm with \"kubectl etcdtask defrag %s -n %s --compaction\"; if that frees too little, delete keys or raise spec.etcd.quota first", etcd.Name, etcd.Namespace)},
	}
	for _, a := range all {
		if !slices.ContainsFunc(kinds, func(k alarmKind) bool { return k.kind == a.Kind }) {
			kinds = append(kinds, alarmKind{a.Kind, "see the documentation of etcd"})
		}
	}
	return kinds
}

// membersWith names the members with an alarm of a kind; empty if none has one.
func membersWith(all []cluster.Alarm, kind string) string {
	var names []string
	for _, a := range all {
		if a.Kind == kind {
			names = append(names, cmp.Or(a.Member, "a member that etcd does not name"))
		}
	}
	return strings.Join(names, ", ")
}

// reasonOf returns the reason of the condition AlarmRaised.
func reasonOf(all []cluster.Alarm) string {
	has := func(kind etcdclient.AlarmKind) bool {
		return slices.ContainsFunc(all, func(a cluster.Alarm) bool { return a.Kind == string(kind) })
	}
	switch {
	case has(etcdclient.AlarmCorrupt):
		return v1alpha1.ReasonAlarmCorrupt
	case has(etcdclient.AlarmNoSpace):
		return v1alpha1.ReasonAlarmNoSpace
	}
	return v1alpha1.ReasonAlarmUnknown
}
