// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func slotFree(s *state, p *Policy, c *Candidate) *Hold {
	shares, before := s.own(c)
	switch {
	case before != nil:
		return &Hold{Reason: WaitingForSlot, Message: fmt.Sprintf("task %s of the same Etcd holds a slot of %s: what has become of it is found out first", before.TaskName, p.Title())}
	case shares:
		return nil
	}
	holders, limit := without(s.usage[p.Name].holders, c.Etcd), p.Limit()
	others := s.impairedBeside(p, c)
	if c.Class == Repair && repairs(holders) >= max(1, limit/2) {
		return &Hold{Reason: WaitingForSlot, Message: fmt.Sprintf("clusters that lack a member get half of the %s of %s at most: %s", plural(limit, "slot"), p.Title(), named(holders))}
	}
	if len(holders)+others < limit {
		return nil
	}
	message := fmt.Sprintf("no slot of %s is free, which has %d: %s", p.Title(), limit, named(holders))
	if others > 0 {
		message += fmt.Sprintf("; clusters that lack a member or are being recovered: %d", others)
	}
	return &Hold{Reason: WaitingForSlot, Message: message}
}

// shareFree limits the slots of one namespace: otherwise its tenant could keep all of them by suspending tasks or breaking clusters.
func shareFree(s *state, p *Policy, c *Candidate) *Hold {
	if shares, before := s.own(c); shares || before != nil || p.Share() == p.Limit() {
		return nil
	}
	holders := slices.DeleteFunc(without(s.usage[p.Name].holders, c.Etcd), func(h *Holder) bool { return h.Namespace != c.Namespace })
	if len(holders) < p.Share() {
		return nil
	}
	return &Hold{Reason: WaitingForSlot, Share: true, Message: fmt.Sprintf("Etcds of one namespace get %s of %s at most: %s", plural(p.Share(), "slot"), p.Title(), named(holders))}
}

// own reports whether a task shares a slot that its cluster already holds, since clusters are counted: its own, that of the task beside which
// it runs, or of a deleted task, which it takes over. Otherwise it returns the holder whose outcome must be known first; nil if there is none.
func (s *state) own(c *Candidate) (shares bool, before *Holder) {
	for i := range s.Ledger.Holders {
		h := &s.Ledger.Holders[i]
		switch {
		case h.Etcd != c.Etcd || !h.Ended.IsZero():
		case h.Aborted || h.Task == c.Task || h.Task == c.Beside:
			shares = true
		default:
			return false, h
		}
	}
	return shares, nil
}

// repairs counts the holders that got a slot because they lacked a member.
func repairs(holders []*Holder) (n int) {
	for _, h := range holders {
		if h.Impaired {
			n++
		}
	}
	return n
}

// impairedBeside counts the clusters that use a slot because they lack a member. For the task of such a cluster, which uses a slot itself,
// none count: otherwise two would wait for each other. A cluster that lacked its member long before the change does not count. Those of
// one namespace use at most half of the slots, and together with its tasks its share: breaking clusters there must not stop the others.
func (s *state) impairedBeside(p *Policy, c *Candidate) int {
	if c.Class == Repair || slices.ContainsFunc(s.Impaired, func(i Impaired) bool { return i.Etcd == c.Etcd }) {
		return 0
	}
	n, broken, used := 0, map[string]int{}, map[string]int{}
	for _, h := range s.usage[p.Name].holders {
		used[h.Namespace]++
	}
	limit, share := p.Limit(), p.Share()
	for _, i := range s.usage[p.Name].impaired {
		counts := i.Recovering || i.Since.After(s.began(p, c).Add(-wreck))
		if counts && broken[i.Namespace] < max(1, limit/2) && (share == limit || used[i.Namespace]+broken[i.Namespace] < share) {
			broken[i.Namespace]++
			n++
		}
	}
	return n
}

// without leaves out the holders of a cluster whose task is over: its next task takes over.
func without(holders []*Holder, etcd types.UID) []*Holder {
	return slices.DeleteFunc(slices.Clone(holders), func(h *Holder) bool { return h.Etcd == etcd && h.Over() })
}

// wreck is how long before a change a cluster must have lacked a member to not count.
const wreck = time.Hour

// began returns when the change of a task began; now if it has not.
func (s *state) began(p *Policy, c *Candidate) time.Time {
	if change := s.Ledger.Change(p.Name, c.Change); change != nil {
		return change.Since
	}
	return s.Now
}

func named(holders []*Holder) string {
	if len(holders) == 0 {
		return "none holds a slot"
	}
	var all []string
	clusters := map[types.UID]bool{}
	for _, h := range holders {
		known := clusters[h.Etcd]
		if clusters[h.Etcd] = true; known || len(clusters) > maxNamed {
			continue
		}
		doing := "runs task " + h.TaskName
		switch {
		case h.Aborted:
			doing = "has yet to be well after task " + h.TaskName + " was deleted"
		case !h.Ended.IsZero():
			doing = "is watched after task " + h.TaskName
		}
		all = append(all, fmt.Sprintf("%s/%s %s", h.Namespace, h.EtcdName, doing))
	}
	if more := len(clusters) - maxNamed; more > 0 {
		all = append(all, fmt.Sprintf("%d more", more))
	}
	return strings.Join(all, ", ")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
