// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/taskconfig"
)

// RecreateConfig is spec.config of a RecreateRollout.
type RecreateConfig struct {
	// TargetRevision is the revision to bring the pods to. Default: the StatefulSet's update revision when the
	// task is admitted.
	TargetRevision string `json:"targetRevision,omitempty"`
}

// Default implements taskconfig.Config.
func (c *RecreateConfig) Default() {}

// Validate implements taskconfig.Config.
func (c *RecreateConfig) Validate() error { return validateRevision(c.TargetRevision) }

// Target returns what the config asks for.
func (c RecreateConfig) Target() Target { return Target{Revision: c.TargetRevision} }

func validateRevision(revision string) error {
	if len(revision) > maxRevisionLength {
		return fmt.Errorf("targetRevision has more than %d characters", maxRevisionLength)
	}
	return nil
}

// Target is the target of a rollout task.
type Target struct {
	// Revision is empty while the task has not fixed it.
	Revision string
	// Restart reports that the task follows the revision of the StatefulSet.
	Restart bool
}

// TargetOf returns the target of a task of either rollout type. A task whose config does not decode has none: it will be rejected.
func TargetOf(t *v1alpha1.EtcdOperatorTask) Target {
	var target Target
	if t.Spec.Type == v1alpha1.RecreateRollout {
		if c, err := taskconfig.Decode[RecreateConfig](t.Spec.Config); err == nil {
			target = c.Target()
		}
	} else if c, err := taskconfig.Decode[Config](t.Spec.Config); err == nil {
		target = c.Target()
	}
	return target.Of(t)
}

// Of returns the target of a task that asks for t: the revision that its status has fixed comes first.
func (t Target) Of(task *v1alpha1.EtcdOperatorTask) Target {
	t.Revision = cmp.Or(RecordedRevision(task), t.Revision)
	return t
}

// RecordedRevision returns the revision in the status of a task; empty if there is none.
func RecordedRevision(t *v1alpha1.EtcdOperatorTask) string {
	if t.Status.Rollout == nil {
		return ""
	}
	return t.Status.Rollout.TargetRevision
}

// Reaches reports whether the task brings the pods to a revision, as far as it has fixed one.
func (t Target) Reaches(revision string) bool {
	return t.Restart || t.Revision == "" || t.Revision == revision
}

// SupersededMessage says that the update revision of a StatefulSet is not the one that a task is for.
func SupersededMessage(set, revision, current string) string {
	return fmt.Sprintf("the update revision of StatefulSet %s is %s, not %s: a task of its own replaces the pods that are outdated now", set, current, revision)
}

// OnDeleteMessage says that a rollout task may replace the pods of a StatefulSet.
func OnDeleteMessage(set string) string {
	return fmt.Sprintf("the update strategy of StatefulSet %s is OnDelete", set)
}
