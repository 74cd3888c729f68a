// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package webhookcert

import (
	"bytes"
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Publisher writes the CA in a Secret to the configuration of a webhook. It runs with a ServiceAccount of its own: who may write the
// configuration of a webhook may have every request to the API server sent to it, and neither RBAC nor an admission policy can limit
// that right to the CA.
type Publisher struct {
	Client client.Client
	// Secret with the CA.
	Secret client.ObjectKey
	// Configuration is the name of the MutatingWebhookConfiguration.
	Configuration string
	Clock         clock.WithTicker
}

// Run publishes the CA until the context ends.
func (p *Publisher) Run(ctx context.Context) {
	repeat(ctx, p.Clock, "Publishing the CA of the webhook failed", p.sync)
}

// sync writes the CA where it is not yet, and changes nothing else.
func (p *Publisher) sync(ctx context.Context) error {
	secret := &corev1.Secret{}
	if err := p.Client.Get(ctx, p.Secret, secret); err != nil {
		return fmt.Errorf("reading the CA of the webhook in Secret %s: %w", p.Secret, err)
	}
	current, err := readAuthority(secret.Data, p.Clock.Now())
	if err != nil {
		return fmt.Errorf("the operator has not made the CA in Secret %s yet: %w", p.Secret, err)
	}
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := p.Client.Get(ctx, client.ObjectKey{Name: p.Configuration}, configuration); err != nil {
		return fmt.Errorf("reading MutatingWebhookConfiguration %s: %w", p.Configuration, err)
	}
	changed := false
	for i := range configuration.Webhooks {
		if c := &configuration.Webhooks[i].ClientConfig; !bytes.Equal(c.CABundle, current.bundle) {
			c.CABundle, changed = current.bundle, true
		}
	}
	if !changed {
		return nil
	}
	if err := p.Client.Update(ctx, configuration); err != nil {
		return fmt.Errorf("writing the CA to MutatingWebhookConfiguration %s: %w", p.Configuration, err)
	}
	return nil
}
