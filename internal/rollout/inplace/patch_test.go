// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

func patchPod(p *corev1.Pod, patch []byte) (*corev1.Pod, error) {
	before, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, corev1.Pod{})
	if err != nil {
		return nil, err
	}
	patched := &corev1.Pod{}
	return patched, json.Unmarshal(after, patched)
}
