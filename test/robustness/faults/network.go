// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	theOperator  = "operator"
	theAPIServer = "API server"
	nodeIP       = "10.88.0.1"
)

func links() []Kind {
	link := func(from, to string) func(*Machine, *rand.Rand) target {
		return func(m *Machine, random *rand.Rand) target {
			t := target{from: from, to: to}
			members := random.Perm(m.Members)
			for _, end := range []*string{&t.from, &t.to} {
				if *end == "member" {
					*end, members = m.pod(members[0]), members[1:]
				}
			}
			arrow := " to "
			switch random.IntN(3) {
			case 0:
				t.both, arrow = true, " and "
			case 1:
				t.from, t.to = t.to, t.from
			}
			t.name = t.from + arrow + t.to
			return t
		}
	}
	return []Kind{
		{Name: "network cut between members", Longest: 30 * time.Second, choose: link("member", "member"), inject: cut},
		{Name: "network cut between operator and member", Longest: 40 * time.Second, choose: link(theOperator, "member"), inject: cut},
		{Name: "network cut between operator and API server", Longest: 25 * time.Second, choose: link(theOperator, theAPIServer), inject: cut},
		{Name: "member cut off from members", Longest: 100 * time.Second, choose: anyMember, inject: isolate},
		{Name: "members cut off from each other", Longest: 45 * time.Second, choose: allMembers, inject: scatter},
		{Name: "operator sees only a member that is cut off", Longest: 60 * time.Second, choose: anyMember, inject: blind},
		{Name: "packets between members are lost", Longest: 40 * time.Second, choose: allMembers, inject: losePeers},
		{Name: "packets of the operator are lost", Longest: 40 * time.Second, choose: nothing(theOperator), inject: loseOperator},
	}
}

// pair is a direction in which packets are dropped.
type pair struct{ from, to string }

// cut drops what goes from one end to the other, or both ways.
func cut(ctx context.Context, m *Machine, t target) (heal, error) {
	pairs := []pair{{t.from, t.to}}
	if t.both {
		pairs = append(pairs, pair{t.to, t.from})
	}
	return m.drop(ctx, pairs)
}

// isolate cuts a member off from the other members, but not from the operator.
func isolate(ctx context.Context, m *Machine, t target) (heal, error) {
	return m.drop(ctx, m.apart(t.members[0]))
}

// scatter cuts every member off from every other: there is no quorum, and the operator reaches all.
func scatter(ctx context.Context, m *Machine, t target) (heal, error) {
	var pairs []pair
	for _, member := range t.members {
		pairs = append(pairs, m.apart(member)...)
	}
	return m.drop(ctx, pairs)
}

// blind is the case in which the operator is on the wrong side: it reaches only a member that the others are cut off
// from, and they have the quorum.
func blind(ctx context.Context, m *Machine, t target) (heal, error) {
	pairs := m.apart(t.members[0])
	for i := range m.Members {
		if other := m.pod(i); other != t.members[0] {
			pairs = append(pairs, pair{theOperator, other}, pair{other, theOperator})
		}
	}
	return m.drop(ctx, pairs)
}

// lost are the packets that are lost where some are: one of four. TCP repeats them, later and later.
const lost = "numgen random mod 100 < 25"

// losePeers loses some of the packets between members.
func losePeers(ctx context.Context, m *Machine, t target) (heal, error) {
	var pairs []pair
	for _, member := range t.members {
		pairs = append(pairs, m.apart(member)...)
	}
	return m.dropSome(ctx, pairs, lost)
}

// loseOperator loses some of the packets between the operator and everybody whom it talks to.
func loseOperator(ctx context.Context, m *Machine, _ target) (heal, error) {
	pairs := []pair{{theOperator, theAPIServer}, {theAPIServer, theOperator}}
	for i := range m.Members {
		pairs = append(pairs, pair{theOperator, m.pod(i)}, pair{m.pod(i), theOperator})
	}
	return m.dropSome(ctx, pairs, lost)
}

// apart returns the directions between a member and all others.
func (m *Machine) apart(member string) []pair {
	var pairs []pair
	for i := range m.Members {
		if other := m.pod(i); other != member {
			pairs = append(pairs, pair{member, other}, pair{other, member})
		}
	}
	return pairs
}

var tables atomic.Int64

// drop drops packets until it is healed.
func (m *Machine) drop(ctx context.Context, pairs []pair) (heal, error) {
	return m.dropSome(ctx, pairs, "")
}

// dropSome drops the packets that are also matched by an expression of nft, until it is healed. Pods that are replaced get other
// addresses: the rules follow them.
func (m *Machine) dropSome(ctx context.Context, pairs []pair, matched string) (heal, error) {
	table := fmt.Sprintf("robustness-%d", tables.Add(1))
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var rules string
	dropped := 0
	apply := func() error {
		now, err := m.rules(ctx, pairs, matched)
		if err != nil || now == rules {
			return err
		}
		if rules != "" {
			dropped += counted(ctx, table)
		}
		rules = now
		return nft(ctx, fmt.Sprintf("add table bridge %[1]s\ndelete table bridge %[1]s\ntable bridge %[1]s {\n%[2]s}\n", table, rules))
	}
	if err := apply(); err != nil {
		cancel()
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for wait(ctx, 500*time.Millisecond) {
			_ = apply() // the API server may be down: the rules stay as they are
		}
	}()
	return func(ctx context.Context) (string, error) {
		cancel()
		<-done
		dropped += counted(ctx, table)
		err := nft(ctx, "delete table bridge "+table+"\n")
		if dropped == 0 {
			return "", err
		}
		return fmt.Sprintf("%d packets were dropped", dropped), err
	}, nil
}

// rules returns chains that drop what goes between the present addresses. Packets between pods are forwarded by the
// bridge; those between a pod and the node arrive there, and leave it.
func (m *Machine) rules(ctx context.Context, pairs []pair, matched string) (string, error) {
	var drops []string
	for _, p := range pairs {
		from, err := m.addresses(ctx, p.from)
		if err != nil {
			return "", err
		}
		to, err := m.addresses(ctx, p.to)
		if err != nil {
			return "", err
		}
		for _, a := range from {
			for _, b := range to {
				rule := fmt.Sprintf("ip saddr %s ip daddr %s", a, b)
				switch theAPIServer {
				case p.to:
					rule += fmt.Sprintf(" tcp dport %d", m.ProxyPort)
				case p.from:
					rule += fmt.Sprintf(" tcp sport %d", m.ProxyPort)
				}
				drops = append(drops, "    "+rule+" "+matched+" counter drop\n")
			}
		}
	}
	var rules strings.Builder
	for _, hook := range []string{"forward", "input", "output"} {
		fmt.Fprintf(&rules, "  chain %[1]s {\n    type filter hook %[1]s priority 0;\n%[2]s  }\n", hook, strings.Join(drops, ""))
	}
	return rules.String(), nil
}

// addresses returns the present addresses of an end.
func (m *Machine) addresses(ctx context.Context, end string) ([]string, error) {
	switch end {
	case theAPIServer:
		return []string{nodeIP}, nil
	case theOperator:
		pods, err := m.operatorPods(ctx)
		var ips []string
		for _, pod := range pods {
			if pod.Status.PodIP != "" {
				ips = append(ips, pod.Status.PodIP)
			}
		}
		slices.Sort(ips)
		return ips, err
	}
	if pod, there := m.Roster.Pod(end); there {
		return []string{pod.IP}, nil
	}
	return nil, nil
}

func (m *Machine) operatorPods(ctx context.Context) ([]corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	pods := &corev1.PodList{}
	if err := m.Kube.List(ctx, pods, client.InNamespace(m.Operator.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the operator's pods: %w", err)
	}
	return pods.Items, nil
}

func nft(ctx context.Context, script string) error {
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running nft: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// counted returns how many packets the rules of a table have dropped.
func counted(ctx context.Context, table string) int {
	out, err := exec.CommandContext(ctx, "nft", "--json", "list", "table", "bridge", table).Output()
	if err != nil {
		return 0
	}
	var list struct {
		Nftables []struct {
			Rule struct {
				Expr []struct{ Counter struct{ Packets int } }
			}
		}
	}
	if json.Unmarshal(out, &list) != nil {
		return 0
	}
	packets := 0
	for _, item := range list.Nftables {
		for _, e := range item.Rule.Expr {
			packets += e.Counter.Packets
		}
	}
	return packets
}
