// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package prepare

import (
	"context"
	"errors"
	"reflect"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/go-logr/logr"
)

// Run decides how a member starts and writes its configuration file. For a member that must wait, it decides again, by the
// configuration as it is then, until Patience has passed. For a member that does not start, it returns a *cluster.Refusal.
func Run(ctx context.Context, log logr.Logger, o Options) error {
	p := &preparation{Options: o, log: log, said: said(o.ConfigFile + ".said"), since: o.Clock.Now()}
	defer func() { p.others.close() }()
	logged := ""
	for {
		if err := p.read(); err != nil {
			return errors.Join(err, p.said.forget())
		}
		waits, err := p.once(ctx)
		if err != nil || waits == nil {
			// If the kubelet prepares this pod again, as after its node has restarted, nothing was said yet.
			return errors.Join(err, p.said.forget())
		}
		if waits.Message != logged {
			log.Info("The member waits", "member", p.id.Name, "reason", waits.Reason, "why", waits.Message)
			logged = waits.Message
		}
		ends, err := p.ends(waits)
		if err != nil {
			return err
		}
		if ends {
			return waits
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), waits)
		case <-o.Clock.After(retry):
		}
	}
}

// read reads the shared configuration. If it has changed, the others are dialed again.
func (p *preparation) read() error {
	shared, err := member.ReadShared(p.SharedDir)
	if err != nil {
		return err
	}
	if shared, err = shared.Settled().InPod(p.ConfigFile); err != nil {
		return err
	}
	if p.id.Name != "" && reflect.DeepEqual(shared, p.shared) {
		return nil
	}
	id, err := shared.Identify(p.Name)
	if err != nil {
		return err
	}
	if err := checkRecovery(shared); err != nil {
		return err
	}
	others, err := dialOthers(shared, id, p.ClientDir)
	if err != nil {
		return err
	}
	p.others.close()
	p.shared, p.id, p.others = shared, id, others
	return nil
}

// longPatience is the factor by which a run waits longer once it has said that its volume is free. The kubelet backs off from restarting a
// container that often ends soon, and the member could join at any moment.
const longPatience = 11

// ends reports whether a run ends because it has said the same of its volume for some time, so that the kubelet passes on why it waits. A run
// that has waited for long does not end only because the others do not answer for a moment: it would be heard again only after two back-offs.
func (p *preparation) ends(waits *cluster.Refusal) (bool, error) {
	if waits.Volume != p.says {
		p.since, p.says = p.Clock.Now(), waits.Volume
	}
	patience, waited := p.Patience, p.Clock.Since(p.since)
	if waits.Volume.Store == cluster.StoreFree {
		patience *= longPatience
	}
	fresh, err := p.said.tell(waits)
	if err == nil && waits.Volume == (cluster.Volume{}) && waited >= patience {
		err = p.said.forget()
	}
	return fresh || waited >= patience, err
}
