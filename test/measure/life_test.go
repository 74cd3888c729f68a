// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func state(class v1alpha1.PodClass, uid types.UID) State { return State{Class: class, UID: uid} }

func TestLifeHasNoHoles(t *testing.T) {
	var l life
	l.record("m-0", state(v1alpha1.ClassParticipating, "a"), at(0))
	l.record("m-0", state(v1alpha1.ClassParticipating, "a"), at(10))
	l.record("m-0", state(v1alpha1.ClassTerminating, "a"), at(20))
	want := Life{"m-0": {
		{State: state(v1alpha1.ClassParticipating, "a"), From: at(0), To: at(20)},
		{State: state(v1alpha1.ClassTerminating, "a"), From: at(20)},
	}}
	if diff := cmp.Diff(want, l.list()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestStateOf(t *testing.T) {
	now := metav1.Now()
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for name, test := range map[string]struct {
		etcd     *corev1.ContainerStatus
		deletion *metav1.Time
		want     v1alpha1.PodClass
	}{
		"nothing known":   {nil, nil, v1alpha1.ClassStarting},
		"being created":   {&corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}, nil, v1alpha1.ClassStarting},
		"crashes":         {&corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}, nil, v1alpha1.ClassDead},
		"ended":           {&corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}, nil, v1alpha1.ClassDead},
		"runs":            {&corev1.ContainerStatus{State: running}, nil, v1alpha1.ClassUnready},
		"ready":           {&corev1.ContainerStatus{State: running, Ready: true}, nil, v1alpha1.ClassParticipating},
		"ready and going": {&corev1.ContainerStatus{State: running, Ready: true}, &now, v1alpha1.ClassTerminating},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				UID: "u", DeletionTimestamp: test.deletion, Labels: map[string]string{appsv1.StatefulSetRevisionLabel: "r"},
			}}
			if test.etcd != nil {
				test.etcd.Name = v1alpha1.ContainerEtcd
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "sidecar", State: running}, *test.etcd}
			}
			if diff := cmp.Diff(State{Class: test.want, Revision: "r", UID: "u"}, stateOf(pod)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestReplacements(t *testing.T) {
	life := func(old, successor types.UID, deleted, ready int) []Span {
		return []Span{
			{State: state(v1alpha1.ClassParticipating, old), From: at(-1000), To: at(deleted)},
			{State: state(v1alpha1.ClassTerminating, old), From: at(deleted), To: at(deleted + 100)},
			{State: state(v1alpha1.ClassMissing, ""), From: at(deleted + 100), To: at(deleted + 200)},
			{State: state(v1alpha1.ClassUnready, successor), From: at(deleted + 200), To: at(ready)},
			{State: state(v1alpha1.ClassParticipating, successor), From: at(ready), To: time.Time{}},
		}
	}
	report := Report{Pods: Life{"m-0": life("a", "b", 100, 1000), "m-1": life("c", "d", 1150, 2000), "m-2": life("e", "f", 2400, 3000)}}
	report.Stopped = at(9000)
	for _, s := range []struct {
		uid types.UID
		pod string
		ms  int
	}{{"b", "m-0", 800}, {"d", "m-1", 2300}, {"f", "m-2", 2900}} {
		report.Sightings = append(report.Sightings, Sighting{At: at(s.ms), UID: s.uid, Pod: s.pod, Member: uint64(s.ms), Leader: 2900, Term: 1})
	}
	want := []Replacement{
		{Pod: "m-0", Deleted: at(100), Back: at(1000)},
		{Pod: "m-1", Deleted: at(1150), Back: at(2300), Overhead: 150 * time.Millisecond},
		{Pod: "m-2", Deleted: at(2400), Back: at(3000), Overhead: 100 * time.Millisecond, Led: true},
	}
	if diff := cmp.Diff(want, report.Replacements(at(0), at(9000))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := report.Replacements(at(200), at(2000)); len(got) != 1 || got[0].Pod != "m-1" {
		t.Errorf("halfway: %+v", got)
	}
}

func TestSettled(t *testing.T) {
	ready := func(revision string, ms int) []Span {
		return []Span{{State: State{Class: v1alpha1.ClassParticipating, Revision: revision}, From: at(ms)}}
	}
	report := Report{Pods: Life{"m-0": ready("new", 100), "m-1": ready("new", 300), "m-2": ready("new", 200)}}
	if at300, ok := report.Settled("new"); !ok || !at300.Equal(at(300)) {
		t.Errorf("settled at %s, %t", at300, ok)
	}
	report.Pods["m-1"] = ready("old", 300)
	if _, ok := report.Settled("new"); ok {
		t.Error("settled with an outdated pod")
	}
	if _, ok := (Report{}).Settled("new"); ok {
		t.Error("settled without pods")
	}
}
