// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition is a condition of an Etcd: that of Kubernetes, and when it was last updated.
type Condition struct {
	metav1.Condition `json:",inline"`
	// lastUpdateTime is when status, reason or message last changed.
	// +optional
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitzero"`
}

// Conditions are the conditions of an Etcd.
type Conditions []Condition

// Find returns the condition of a type; nil if there is none.
func (c Conditions) Find(conditionType string) *metav1.Condition {
	for i := range c {
		if c[i].Type == conditionType {
			return &c[i].Condition
		}
	}
	return nil
}

// IsTrue reports whether the condition of a type is True.
func (c Conditions) IsTrue(conditionType string) bool {
	return c.is(conditionType, metav1.ConditionTrue)
}

// IsFalse reports whether the condition of a type is False.
func (c Conditions) IsFalse(conditionType string) bool {
	return c.is(conditionType, metav1.ConditionFalse)
}

func (c Conditions) is(conditionType string, status metav1.ConditionStatus) bool {
	found := c.Find(conditionType)
	return found != nil && found.Status == status
}

// Set sets a condition. Its lastTransitionTime is kept while its status does not change, and its lastUpdateTime while it does
// not change at all.
func (c *Conditions) Set(condition metav1.Condition) {
	at := slices.IndexFunc(*c, func(e Condition) bool { return e.Type == condition.Type })
	if at < 0 {
		*c = append(*c, Condition{Condition: condition, LastUpdateTime: condition.LastTransitionTime})
		return
	}
	existing := []metav1.Condition{(*c)[at].Condition}
	if meta.SetStatusCondition(&existing, condition) {
		(*c)[at] = Condition{Condition: existing[0], LastUpdateTime: condition.LastTransitionTime}
	}
}

// Complete sets the lastUpdateTime of conditions that an earlier version wrote without one.
func (c Conditions) Complete() {
	for i := range c {
		if c[i].LastUpdateTime.IsZero() {
			c[i].LastUpdateTime = c[i].LastTransitionTime
		}
	}
}

// Remove removes the condition of a type.
func (c *Conditions) Remove(conditionType string) {
	*c = slices.DeleteFunc(*c, func(e Condition) bool { return e.Type == conditionType })
}
