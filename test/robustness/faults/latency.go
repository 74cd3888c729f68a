// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/faults/delay"
)

// lateAnswers are those to a member's clients but the test's own, and those to the kubelet's probes, which time out after five
// seconds. Peers are not affected, so the member serves as well as before.
var lateAnswers = []delay.Port{
	{Port: 2379, Proxy: 12379, Of: "ip saddr != " + nodeIP, By: 400 * time.Millisecond},
	{Port: 9095, Proxy: 19095, By: 6 * time.Second},
}

// latePeers is what a member says to its peers: they connect to it, and it sends the messages of raft as an answer that has
// no end. The delay is below the election timeout of one second, and above the interval of heartbeats.
var latePeers = []delay.Port{{Port: 2380, Proxy: 12380, By: 300 * time.Millisecond}}

func answersLate() []Kind {
	const byLatency = "proxies before members"
	return []Kind{
		{Name: "member answers late and fails its probes", Longest: 90 * time.Second, by: byLatency, choose: anyMember, inject: delayAnswers(lateAnswers)},
		{Name: "all members answer late and fail their probes", Longest: 90 * time.Second, by: byLatency, choose: allMembers, inject: delayAnswers(lateAnswers)},
		{Name: "messages of a member to the others are late", Longest: 60 * time.Second, by: byLatency, choose: anyMember, inject: delayAnswers(latePeers)},
		{Name: "messages between members are late", Longest: 60 * time.Second, by: byLatency, choose: allMembers, inject: delayAnswers(latePeers)},
	}
}

// delayAnswers delays the answers of members, also of pods that come meanwhile.
func delayAnswers(ports []delay.Port) func(context.Context, *Machine, target) (heal, error) {
	return func(ctx context.Context, m *Machine, t target) (heal, error) {
		var late tally
		named := func(member string, port int) string { return fmt.Sprintf("%s:%d", member, port) }
		stop := during(ctx, t.members, 200*time.Millisecond, func(ctx context.Context, member string) {
			p, err := m.process(ctx, member)
			if err != nil {
				return
			}
			undo, err := delay.Answers(ctx, p, ports, func(port int) { late.add(named(member, port)) })
			if err != nil {
				return
			}
			defer undo()
			for p.Alive() && wait(ctx, 200*time.Millisecond) {
			}
		})
		var all []string
		for _, member := range t.members {
			for _, port := range ports {
				all = append(all, named(member, port.Port))
			}
		}
		return func(context.Context) (string, error) {
			stop()
			return late.evidence(all, "parts of answers were late"), nil
		}, nil
	}
}
