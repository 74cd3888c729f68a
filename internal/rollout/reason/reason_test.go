// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package reason

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
)

func TestReasonsAreSplitAsTheyWereJoined(t *testing.T) {
	g := NewWithT(t)
	op := v1alpha1.LastOperation{State: v1alpha1.OperationStateInProgress, Reason: "it is outdated; it follows"}
	why, end := Of(op)
	g.Expect([]string{why, end}).To(Equal([]string{op.Reason, ""}), "in progress, nothing was appended")

	ended := v1alpha1.LastOperation{State: v1alpha1.OperationStateCompleted, Reason: WithEnd(op.Reason, "its successor participates")}
	why, end = Of(ended)
	g.Expect([]string{why, end}).To(Equal([]string{op.Reason, "its successor participates"}))
}
