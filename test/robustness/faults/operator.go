// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/node"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/proxy"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
)

// byOperator: the process of the operator that leads.
const byOperator = "signals to the operator"

func operators() []Kind {
	return []Kind{
		{Name: "operator frozen (SIGSTOP)", Longest: 12 * time.Second, SparesWrites: true, by: byOperator, choose: nothing("the leading operator"), inject: freezeOperator},
		{Name: "operator killed (SIGKILL)", Longest: 2 * time.Second, SparesWrites: true, by: byOperator, choose: nothing("the leading operator"), inject: killOperator},
		{Name: "two operators at once", Longest: 2 * time.Second, SparesWrites: true, by: byOperator, choose: nothing("the leading operator"), inject: twin},
	}
}

// leader returns the name of the leading operator's pod and its process.
func (m *Machine) leader(ctx context.Context) (string, node.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, findPatience)
	defer cancel()
	lease := &coordinationv1.Lease{}
	if err := m.Kube.Get(ctx, m.Operator, lease); err != nil {
		return "", node.Process{}, err
	}
	pods, err := m.operatorPods(ctx)
	if err != nil {
		return "", node.Process{}, err
	}
	for _, pod := range pods {
		if strings.HasPrefix(ptr.Deref(lease.Spec.HolderIdentity, ""), pod.Name+"_") {
			p, err := node.Find(ctx, string(pod.UID), m.Operator.Name)
			return pod.Name, p, err
		}
	}
	return "", node.Process{}, fmt.Errorf("no pod holds Lease %s", m.Operator)
}

func freezeOperator(ctx context.Context, m *Machine, _ target) (heal, error) {
	_, p, err := m.leader(ctx)
	if err != nil {
		return notInEffect, nil
	}
	if err := p.Freeze(ctx); err != nil {
		return notInEffect, nil
	}
	return thaw(p), nil
}

// thaw continues a process, which was frozen if it still is.
func thaw(p node.Process) heal {
	return func(ctx context.Context) (string, error) {
		if !p.Stopped() {
			return "", p.Thaw(ctx)
		}
		return p.String() + " was stopped until the end", p.Thaw(ctx)
	}
}

func killOperator(ctx context.Context, m *Machine, _ target) (heal, error) {
	_, p, err := m.leader(ctx)
	if err != nil {
		return notInEffect, nil
	}
	if err := p.Kill(ctx); err != nil {
		return nil, err
	}
	return func(context.Context) (string, error) { return p.String() + " has ended", nil }, nil
}

// twin freezes the leading operator until another one leads, and lets it run again: for a moment both act.
func twin(ctx context.Context, m *Machine, _ target) (heal, error) {
	name, p, err := m.leader(ctx)
	if err != nil {
		return notInEffect, nil
	}
	if err := p.Freeze(ctx); err != nil {
		return notInEffect, nil
	}
	return func(ctx context.Context) (string, error) {
		successor := ""
		err := poll(ctx, "another operator leads", func() (bool, error) {
			now, _, err := m.leader(ctx)
			successor = now
			return err == nil && now != name, err
		})
		if err != nil {
			successor = ""
		}
		thawed := p.Thaw(ctx)
		if thawed != nil && p.Alive() {
			return "", thawed
		}
		if successor == "" || thawed != nil {
			return "", nil
		}
		return fmt.Sprintf("%s led while %s ran again", successor, name), nil
	}, nil
}

// byProxy: what the proxy does to requests.
const byProxy = "the proxy before the API server"

func apiServers() []Kind {
	mischief := func(m proxy.Mischief) func(context.Context, *Machine, target) (heal, error) {
		return func(_ context.Context, machine *Machine, _ target) (heal, error) {
			machine.Proxy.Set(m)
			return func(context.Context) (string, error) {
				affected := machine.Proxy.Set(proxy.Mischief{})
				if affected == 0 {
					return "", nil
				}
				return fmt.Sprintf("%d requests or watches were affected", affected), nil
			}, nil
		}
	}
	requests := nothing("the operator's requests")
	return []Kind{
		{Name: "API server frozen (SIGSTOP)", Longest: 10 * time.Second, SparesWrites: true, choose: nothing("kube-apiserver"), inject: freezeProgram("kube-apiserver")},
		{Name: "API server slow", Longest: 40 * time.Second, SparesWrites: true, by: byProxy, choose: requests, inject: mischief(proxy.Mischief{Delay: 1200 * time.Millisecond})},
		{Name: "API server answers 409", Longest: 30 * time.Second, SparesWrites: true, by: byProxy, choose: requests, inject: mischief(proxy.Mischief{Refuse: http.StatusConflict, Share: 40})},
		{Name: "API server answers 429", Longest: 30 * time.Second, SparesWrites: true, by: byProxy, choose: requests, inject: mischief(proxy.Mischief{Refuse: http.StatusTooManyRequests, Share: 40})},
		{Name: "API server answers 500", Longest: 30 * time.Second, SparesWrites: true, by: byProxy, choose: requests, inject: mischief(proxy.Mischief{Refuse: http.StatusInternalServerError, Share: 40})},
		{Name: "answers lost after the write", Longest: 30 * time.Second, SparesWrites: true, by: byProxy, choose: requests, inject: mischief(proxy.Mischief{Lose: true, Share: 40})},
		{Name: "removals arrive late", Longest: 90 * time.Second, SparesWrites: true, by: byProxy, choose: requests, inject: mischief(proxy.Mischief{Late: lateRemoval})},
		{Name: "watches held back", Longest: 45 * time.Second, SparesWrites: true, by: byProxy, choose: nothing("the operator's watches"), inject: mischief(proxy.Mischief{Hold: true})},
		{Name: "kubelet frozen (SIGSTOP)", Longest: 20 * time.Second, SparesWrites: true, choose: nothing("kubelet"), inject: freezeProgram("kubelet")},
	}
}

// lateRemoval is how long a removal is on its way. By then, the operator has repeated it, the pod is back, and the next one is gone.
const lateRemoval = 28 * time.Second

func freezeProgram(name string) func(context.Context, *Machine, target) (heal, error) {
	return func(ctx context.Context, _ *Machine, _ target) (heal, error) {
		p, err := node.Program(name)
		if err != nil {
			return nil, err
		}
		if err := p.Freeze(ctx); err != nil {
			return nil, err
		}
		return thaw(p), nil
	}
}
