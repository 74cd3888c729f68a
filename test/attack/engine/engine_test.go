// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"os"
	"testing"

	. "github.com/onsi/gomega"
)

// The program fails unless each attack was tried and failed.
func TestVerdict(t *testing.T) {
	g := NewWithT(t)
	tried := Result{Attack: Attack{Item: 17, What: "take over"}, Finding: Held("untouched")}
	g.Expect(Verdict([]Result{tried})).To(Succeed())
	g.Expect(tried.mark()).To(Equal("held"))
	open := tried
	open.Err = os.ErrDeadlineExceeded
	g.Expect(Verdict([]Result{tried, open})).To(MatchError(ContainSubstring("item 17 could not be tried (take over)")))
	g.Expect(open.mark()).To(Equal("?"))
	succeeded := tried
	succeeded.Finding = Broken("the Service is | gone")
	g.Expect(Verdict([]Result{succeeded})).To(MatchError(ContainSubstring("item 17: take over: the Service is | gone")))
	table := Render("now", []Result{succeeded})
	g.Expect(table).To(ContainSubstring(`| 17 | take over |  |  | the Service is \| gone | BROKEN |`))
	g.Expect(table).To(ContainSubstring("| 19 | a hostile member exhausts the operator |"))
}
