// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package disturb

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	etcdmember "github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Restored is the config of a Restore that was confirmed, and goes back to what Previewed shows.
const Restored = "{to: {revision: 40}, confirm: 0123456789abcdef0123456789abcdef@0}"

// Previewed is what the agent reports in the Jobs of a Restore: what it goes back to, and what is on the volumes.
func Previewed(j *batchv1.Job) string {
	if j.Labels[v1alpha1.LabelComponent] == v1alpha1.ComponentPreviewJob {
		return `{"base": "Full-00000000-00000030-946684800", "revision": 40, "hash": 7, "digest": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}`
	}
	return Surveyed(j)
}

// Kept is what the agent reports in the Jobs of an undo: the first member has what it had before a Restore, all of the final snapshot.
func Kept(j *batchv1.Job, restore types.UID) string {
	dir := fmt.Sprintf("data%s%s-1", etcdmember.BeforeSuffix, restore)
	return strings.Replace(Surveyed(j), "{", fmt.Sprintf(`{"kept": [%q], "keptRevisions": {%q: 1000000}, `, dir, dir), 1)
}

// Fenced reports whether the client Service of an Etcd selects no member.
func Fenced(s *corev1.Service) bool { return s.Spec.Selector[v1alpha1.LabelFencedBy] != "" }

// Surveyed is what the agent reports in the Job that surveys a volume: the first member has data, that of the others is damaged.
func Surveyed(j *batchv1.Job) string { return SurveyedAt(j, 0) }

// SurveyedAt is what the agent reports where the member of an ordinal has data, and that of the others is damaged.
func SurveyedAt(j *batchv1.Job, ordinal int) string {
	found := etcdmember.Survey{State: etcdmember.SurveyDamaged, Damage: "a page has a wrong checksum"}
	for _, v := range j.Spec.Template.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && strings.HasSuffix(v.PersistentVolumeClaim.ClaimName, fmt.Sprintf("-%d", ordinal)) {
			found = etcdmember.Survey{State: etcdmember.SurveyPresent, ClusterID: "1", MemberID: "1", LastTerm: 2, LastIndex: 100, Revision: 50}
		}
	}
	found.Free = 1 << 40
	encoded, err := json.Marshal(found)
	if err != nil {
		return err.Error()
	}
	return string(encoded)
}
