// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"cmp"
	"fmt"
	"hash/fnv"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	cronschedule "github.com/etcd-foreman/etcd-foreman/internal/base/schedule"
	"github.com/robfig/cron/v3"
	"k8s.io/utils/ptr"
)

// FullSnapshotSchedule returns when full snapshots of an Etcd are taken.
func FullSnapshotSchedule(etcd *v1alpha1.Etcd) string {
	return cmp.Or(ptr.Deref(ptr.Deref(etcd.Spec.Backup, v1alpha1.BackupSpec{}).FullSnapshotSchedule, ""), dailySchedule(etcd))
}

// dailySchedule is once a day, at a minute derived from the name, so that clusters do not all start at the same time.
func dailySchedule(etcd *v1alpha1.Etcd) string {
	hash := fnv.New32a()
	// A hash never fails to write.
	_, _ = hash.Write([]byte(etcd.Namespace + "/" + etcd.Name))
	minute := hash.Sum32() % (24 * 60)
	return fmt.Sprintf("%d %d * * *", minute%60, minute/60)
}

// checkSchedule returns an error if the schedule of full snapshots is invalid. Running agents keep their schedule.
func checkSchedule(etcd *v1alpha1.Etcd) error {
	text := ptr.Deref(ptr.Deref(etcd.Spec.Backup, v1alpha1.BackupSpec{}).FullSnapshotSchedule, "")
	if text == "" {
		return nil
	}
	if _, err := cronschedule.Parse(text); err != nil {
		return fmt.Errorf("reading spec.backup.fullSnapshotSchedule: %w", err)
	}
	return nil
}

// DefragmentationSchedule returns when members are defragmented; nil if the spec does not say. The API server admits some that are
// invalid: a range whose end is before its beginning.
func DefragmentationSchedule(etcd *v1alpha1.Etcd) (cron.Schedule, error) {
	text := etcd.Spec.Etcd.DefragmentationSchedule
	if text == nil {
		return nil, nil
	}
	parsed, err := cronschedule.Parse(*text)
	if err != nil {
		return nil, fmt.Errorf("reading spec.etcd.defragmentationSchedule: %w", err)
	}
	return parsed, nil
}
