// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/faults/nft"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	theOperator  = "operator"
	theAPIServer = "API server"
	// theService is where agents find the API server; the operator is led to the proxy.
	theService = "Service of the API server"
	nodeIP     = "10.88.0.1"
)

func links() []Kind {
	link := func(from, to string) func(*Machine, *rand.Rand) target {
		return func(m *Machine, random *rand.Rand) target {
			t := target{from: from, to: to}
			members := m.pods()
			order := random.Perm(len(members))
			for _, end := range []*string{&t.from, &t.to} {
				if *end == "member" {
					*end, order = members[order[0]], order[1:]
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
		{Name: "network cut between operator and member", Longest: 40 * time.Second, SparesWrites: true, choose: link(theOperator, "member"), inject: cut},
		{Name: "network cut between operator and API server", Longest: 25 * time.Second, SparesWrites: true, choose: link(theOperator, theAPIServer), inject: cut},
		{Name: "network cut between member and API server", Longest: 60 * time.Second, SparesWrites: true, choose: link("member", theService), inject: cut},
		{Name: "member cut off from members", Longest: 100 * time.Second, choose: anyMember, inject: isolate},
		{Name: "members cut off from each other", Longest: 45 * time.Second, choose: allMembers, inject: scatter},
		{Name: "operator sees only a member that is cut off", Longest: 60 * time.Second, choose: anyMember, inject: blind},
		{Name: "source and target cut off from each other", Longest: 60 * time.Second, Both: true, choose: allMembers, inject: divide},
		{Name: "packets between members are lost", Longest: 40 * time.Second, choose: allMembers, inject: losePeers},
		{Name: "packets of the operator are lost", Longest: 40 * time.Second, SparesWrites: true, choose: nothing(theOperator), inject: loseOperator},
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
	return m.drop(ctx, between(t.members))
}

// divide cuts the members of one StatefulSet off from those of the other, as between the networks of a migration.
func divide(ctx context.Context, m *Machine, t target) (heal, error) {
	return m.drop(ctx, slices.DeleteFunc(between(t.members), func(p pair) bool { return setOf(p.from) == setOf(p.to) }))
}

// blind is the case in which the operator is on the wrong side: it reaches only a member that the others are cut off
// from, and they have the quorum.
func blind(ctx context.Context, m *Machine, t target) (heal, error) {
	var others []pair
	for _, other := range m.pods() {
		if other != t.members[0] {
			others = append(others, pair{theOperator, other}, pair{other, theOperator})
		}
	}
	connect, err := m.drop(ctx, m.apart(t.members[0]))
	if err != nil {
		return nil, err
	}
	see, err := m.drop(ctx, others)
	if err != nil {
		_, failed := connect(context.WithoutCancel(ctx))
		return nil, errors.Join(err, failed)
	}
	return func(ctx context.Context) (string, error) {
		cut, err := connect(ctx)
		unseen, failed := see(ctx)
		if cut == "" || unseen == "" {
			return "", errors.Join(err, failed)
		}
		return fmt.Sprintf("between members %s, and of the operator %s", cut, unseen), errors.Join(err, failed)
	}, nil
}

// lost are the packets that are lost where some are: one of four. TCP repeats them, later and later.
const lost = "numgen random mod 100 < 25"

// losePeers loses some of the packets between members.
func losePeers(ctx context.Context, m *Machine, t target) (heal, error) {
	return m.dropSome(ctx, between(t.members), lost)
}

// loseOperator loses some of the packets between the operator and everybody whom it talks to.
func loseOperator(ctx context.Context, m *Machine, _ target) (heal, error) {
	pairs := []pair{{theOperator, theAPIServer}, {theAPIServer, theOperator}}
	for _, member := range m.pods() {
		pairs = append(pairs, pair{theOperator, member}, pair{member, theOperator})
	}
	return m.dropSome(ctx, pairs, lost)
}

// between returns the directions between members, each once: two rules for the same packets would drop more of them.
func between(members []string) []pair {
	var pairs []pair
	for _, from := range members {
		for _, to := range members {
			if from != to {
				pairs = append(pairs, pair{from, to})
			}
		}
	}
	return pairs
}

// apart returns the directions between a member and all others.
func (m *Machine) apart(member string) []pair {
	var pairs []pair
	for _, other := range m.pods() {
		if other != member {
			pairs = append(pairs, pair{member, other}, pair{other, member})
		}
	}
	return pairs
}

// drop drops packets until it is healed.
func (m *Machine) drop(ctx context.Context, pairs []pair) (heal, error) {
	return m.dropSome(ctx, pairs, "")
}

// dropSome drops the packets that are also matched by an expression of nft, until it is healed. Pods that are replaced get other
// addresses: the rules follow them.
func (m *Machine) dropSome(ctx context.Context, pairs []pair, matched string) (heal, error) {
	stop, err := nft.Drop(ctx, func(ctx context.Context) ([]string, error) { return m.matches(ctx, pairs, matched) })
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (string, error) {
		dropped, err := stop(ctx)
		if dropped == 0 {
			return "", err
		}
		return fmt.Sprintf("%d packets were dropped", dropped), err
	}, nil
}

// matches returns expressions of nft for what goes between the present addresses.
func (m *Machine) matches(ctx context.Context, pairs []pair, matched string) ([]string, error) {
	var all []string
	for _, p := range pairs {
		from, err := m.addresses(ctx, p.from)
		if err != nil {
			return nil, err
		}
		to, err := m.addresses(ctx, p.to)
		if err != nil {
			return nil, err
		}
		for _, a := range from {
			for _, b := range to {
				match := fmt.Sprintf("ip saddr %s ip daddr %s", a, b)
				switch theAPIServer {
				case p.to:
					match += fmt.Sprintf(" tcp dport %d", m.ProxyPort)
				case p.from:
					match += fmt.Sprintf(" tcp sport %d", m.ProxyPort)
				}
				all = append(all, match+" "+matched)
			}
		}
	}
	return all, nil
}

// addresses returns the present addresses of an end.
func (m *Machine) addresses(ctx context.Context, end string) ([]string, error) {
	switch end {
	case theAPIServer:
		return []string{nodeIP}, nil
	case theService:
		return m.serviceIPs(ctx)
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

// serviceIPs are what packets to the API server are addressed to on the bridge: they get its own address later.
func (m *Machine) serviceIPs(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	service := &corev1.Service{}
	if err := m.Kube.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}, service); err != nil {
		return nil, fmt.Errorf("reading the Service of the API server: %w", err)
	}
	return service.Spec.ClusterIPs, nil
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
