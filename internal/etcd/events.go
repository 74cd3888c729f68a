// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/managedtls"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// report emits events for what has changed in a status.
func (w *statusWriter) report(etcd *v1alpha1.Etcd, before *v1alpha1.EtcdStatus) {
	changed := func(conditionType string) (after, earlier *metav1.Condition) {
		return etcd.Status.Conditions.Find(conditionType), before.Conditions.Find(conditionType)
	}
	w.reportTLS(etcd, changed)
	w.reportHibernation(etcd, before, changed)
	w.reportOwnership(etcd, changed)
	if c, b := changed(v1alpha1.ConditionBootstrappedWithExistingCluster); c != nil && c.Reason == v1alpha1.ReasonLeavingSource && (b == nil || b.Reason != c.Reason) {
		w.event(etcd, corev1.EventTypeWarning, c, "LeaveSource")
	}
	if c := etcd.Status.Conditions.Find(v1alpha1.ConditionDataVolumesReady); before.ClusterID == "" && etcd.Status.ClusterID != "" && c != nil && c.Reason == v1alpha1.ReasonSurveyingVolumes {
		// Members start with data that existed before their Etcd.
		w.event(etcd, corev1.EventTypeNormal, c, "InheritData")
	}
	if r := before.Recovery; r != nil && r.Task != "" && r.LeavesBehind(etcd.Status.ClusterID) && etcd.Status.Recovery == nil {
		w.recorder.Eventf(etcd, nil, corev1.EventTypeNormal, v1alpha1.ReasonRecoveryWithdrawn, "WithdrawRecovery",
			"Withdrew the recovery of task %s, which is deleted: cluster %s serves, and the new cluster has not begun.", r.Task, etcd.Status.ClusterID)
	}
}

func (w *statusWriter) event(etcd *v1alpha1.Etcd, eventType string, c *metav1.Condition, action string) {
	w.recorder.Eventf(etcd, nil, eventType, c.Reason, action, "%s", note(c))
}

// reportManagedTLS reports what was done to the Secrets of managed TLS.
func (w *statusWriter) reportManagedTLS(etcd *v1alpha1.Etcd, events []managedtls.Event) {
	for _, e := range events {
		w.recorder.Eventf(etcd, nil, corev1.EventTypeNormal, e.Reason, "ManageTLS", "%s", e.Note)
	}
}

type changeOf func(conditionType string) (after, before *metav1.Condition)

func (w *statusWriter) reportTLS(etcd *v1alpha1.Etcd, changed changeOf) {
	c, b := changed(v1alpha1.ConditionTLSReady)
	broken := c != nil && (c.Reason == v1alpha1.ReasonSecretInvalid || c.Reason == v1alpha1.ReasonCertificatesNotRenewed)
	switch {
	case c == nil || b != nil && b.Reason == c.Reason && (!broken || b.Message == c.Message):
	case broken:
		w.event(etcd, corev1.EventTypeWarning, c, "CheckSecrets")
	default:
		w.event(etcd, corev1.EventTypeNormal, c, "SwitchTLS")
	}
}

// reportHibernation reports that the volumes of a hibernated cluster are deleted, or why they are kept.
func (w *statusWriter) reportHibernation(etcd *v1alpha1.Etcd, before *v1alpha1.EtcdStatus, changed changeOf) {
	c, b := changed(v1alpha1.ConditionHibernated)
	switch {
	case c == nil:
	case before.Hibernation == nil && etcd.Status.Hibernation != nil:
		w.event(etcd, corev1.EventTypeNormal, c, "DeleteVolumes")
	case c.Reason == v1alpha1.ReasonNoFinalSnapshot && (b == nil || b.Reason != c.Reason):
		w.event(etcd, corev1.EventTypeWarning, c, "KeepVolumes")
	}
}

// reportOwnership reports once that a foreign object blocks the Etcd.
func (w *statusWriter) reportOwnership(etcd *v1alpha1.Etcd, changed changeOf) {
	c, b := changed(v1alpha1.ConditionObjectsOwned)
	if c == nil || c.Status != metav1.ConditionFalse || b != nil && b.Status == metav1.ConditionFalse {
		return
	}
	w.event(etcd, corev1.EventTypeWarning, c, "ApplyObjects")
}

// maxNote bounds the note of an event. The API server accepts at most 1024 bytes.
const maxNote = 1000

// note returns the message of a condition, truncated for an event.
func note(c *metav1.Condition) string {
	if len(c.Message) <= maxNote {
		return c.Message
	}
	return fmt.Sprintf("%s … The condition %s has the rest.", strings.ToValidUTF8(c.Message[:maxNote-len(c.Type)-40], ""), c.Type)
}
