// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"errors"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/background"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
)

// No data is replaced unless retention keeps what is to be restored. A preview ends without that, and says so.
func TestHolding(t *testing.T) {
	type call = background.Request[backup.Snapshot]
	found := backup.Preview{Base: "full", Deltas: 2, Revision: 40}
	begins := tasks.Verdict{Outcome: tasks.Continue, Message: "clients are kept away", Recovery: &v1alpha1.RecoveryStatus{Phase: fencing}}
	shows := tasks.Verdict{Outcome: tasks.Done, Message: "it would be revision 40"}
	gone := &api.StatusError{Code: 410, Reason: api.CodeGone, Message: "the store does not have what is to be restored any more"}
	for name, c := range map[string]struct {
		next    tasks.Verdict
		call    *call
		outcome tasks.Outcome
		asks    bool
		goes    bool
		says    string
	}{
		"it is not asked for":                {begins, nil, tasks.Continue, true, false, "protects full"},
		"nor for a preview":                  {shows, nil, tasks.Continue, true, false, "protects full"},
		"it is asked for":                    {begins, &call{Running: true}, tasks.Continue, false, false, "protects full"},
		"it is kept":                         {begins, &call{}, tasks.Continue, false, true, "clients are kept away"},
		"what a preview shows is kept":       {shows, &call{}, tasks.Done, false, true, "revision 40. Until 2026-01-02T00:00:00Z, retention removes nothing"},
		"it is gone":                         {begins, &call{Err: gone}, tasks.Fail, false, false, "any more. Nothing was changed: preview it again"},
		"what a preview shows is gone":       {shows, &call{Err: gone}, tasks.Done, false, true, "Retention may remove what this restore needs"},
		"there is no leader":                 {begins, &call{Err: &api.StatusError{Code: 405, Reason: api.CodeNoLeader}}, tasks.Continue, true, false, "retried"},
		"the bucket answers 500":             {begins, &call{Err: &api.StatusError{Code: 500, Reason: api.CodeSnapshotFailed, Message: "listing: 500"}}, tasks.Continue, true, false, "retried every few seconds: the agent answered 500 Internal Server Error: listing: 500"},
		"a proxy answers 503":                {begins, &call{Err: &api.StatusError{Code: 503}}, tasks.Continue, true, false, "retried"},
		"the agent is not reached":           {begins, &call{Err: errors.New("timeout")}, tasks.Continue, true, false, "retried every few seconds: timeout"},
		"the agent of a preview is not":      {shows, &call{Err: errors.New("timeout")}, tasks.Done, false, true, "no agent could protect it (timeout)"},
		"the agent is too old":               {begins, &call{Err: &api.StatusError{Code: 404, Message: "hint"}}, tasks.Fail, false, false, "hint. Nothing was changed"},
		"the agent that previews is too old": {shows, &call{Err: &api.StatusError{Code: 404}}, tasks.Done, false, true, "may remove"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			v := holding(c.next, found, c.next.Recovery != nil, c.call, epoch, epoch)
			g.Expect(v.Outcome).To(Equal(c.outcome), v.Message)
			g.Expect(v.Message).To(ContainSubstring(c.says))
			g.Expect(v.Step != nil).To(Equal(c.asks))
			g.Expect(v.Recovery != nil).To(Equal(c.goes && c.next.Recovery != nil), "nothing is changed before")
		})
	}
	g := NewWithT(t)
	late := holding(begins, found, true, &call{Err: errors.New("timeout")}, epoch, epoch.Add(retryHolds))
	g.Expect(late.Outcome).To(Equal(tasks.Fail), "it is not tried for ever")
	g.Expect(late.Message).To(ContainSubstring("cannot be protected from retention: timeout. Nothing was changed"))
	g.Expect(holding(begins, found, true, &call{Err: errors.New("timeout")}, epoch, epoch.Add(retryHolds-1)).Outcome).To(Equal(tasks.Continue))
	g.Expect(holding(begins, found, true, nil, epoch, epoch).Step.Detail.(hold).revision).To(BeEquivalentTo(40))
	found.Deltas = 0
	g.Expect(holding(begins, found, true, nil, epoch, epoch).Step.Detail.(hold).revision).To(BeZero(), "the full snapshot alone")
}
