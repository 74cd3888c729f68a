// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package disturb

import (
	"encoding/json"
	"strings"

	etcdmember "github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	batchv1 "k8s.io/api/batch/v1"
)

// Surveyed is what the agent reports in the Job that surveys a volume: the first member has data, that of the others is damaged.
func Surveyed(j *batchv1.Job) string {
	found := etcdmember.Survey{State: etcdmember.SurveyDamaged, Damage: "a page has a wrong checksum"}
	for _, v := range j.Spec.Template.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && strings.HasSuffix(v.PersistentVolumeClaim.ClaimName, "-0") {
			found = etcdmember.Survey{State: etcdmember.SurveyPresent, ClusterID: "1", MemberID: "1", LastTerm: 2, LastIndex: 100, Revision: 50}
		}
	}
	encoded, err := json.Marshal(found)
	if err != nil {
		return err.Error()
	}
	return string(encoded)
}
