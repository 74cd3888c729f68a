// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package webhookcert keeps the certificate of a webhook, without manual steps and for all replicas: a CA in one Secret, which is
// installed empty; a certificate signed by it in the memory of each replica; and the CA in the configuration of the webhook, which a
// process of its own writes (ADR 55).
package webhookcert

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Keys of the Secret.
const (
	keyCA       = "ca.crt"
	keyCAKey    = "ca.key"
	keyPrevious = "previous.crt"
)

const (
	// interval is how often the Secret and the configuration are read.
	interval = 30 * time.Second
	// retry is the interval after a failure.
	retry = 2 * time.Second
)

// Keeper keeps the certificate. It is a Runnable that runs in each replica.
type Keeper struct {
	// Client reads from the API server, and writes the Secret.
	Client client.Client
	// Secret with the CA.
	Secret client.ObjectKey
	// Configuration is the name of the MutatingWebhookConfiguration.
	Configuration string
	// Host at which the API server reaches the webhook.
	Host  string
	Clock clock.WithTicker

	mu sync.RWMutex
	// leaf is nil until the configuration has its CA.
	leaf *leaf
	// problem is the error of the last sync.
	problem error
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: each replica serves.
func (k *Keeper) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (k *Keeper) Start(ctx context.Context) error {
	repeat(ctx, k.Clock, "Keeping the certificate of the webhook failed", k.sync)
	return nil
}

// repeat calls a function at intervals, until the context ends.
func repeat(ctx context.Context, clock clock.WithTicker, failed string, sync func(context.Context) error) {
	for {
		wait := interval
		if err := sync(ctx); err != nil {
			wait = retry
			log.FromContext(ctx).Error(err, failed, "retryAfter", wait)
		}
		timer := clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
	}
}

// GetCertificate implements the field of a tls.Config.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.leaf == nil {
		return nil, errors.New("the webhook has no certificate yet")
	}
	return &k.leaf.certificate, nil
}

// Ready implements healthz.Checker: a replica is ready once the API server trusts it.
func (k *Keeper) Ready(*http.Request) error {
	k.mu.RLock()
	defer k.mu.RUnlock()
	switch {
	case k.leaf == nil:
		return fmt.Errorf("the webhook has no certificate yet: %w", k.problem)
	case k.Clock.Now().After(k.leaf.certificate.Leaf.NotAfter):
		return errors.Join(errors.New("the certificate of the webhook has expired"), k.problem)
	}
	return nil
}

// sync renews what is due. The configuration has a CA before any replica serves a certificate of it, and keeps the previous one
// for those that still do.
func (k *Keeper) sync(ctx context.Context) error {
	err := k.renew(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.problem = err
	return err
}

func (k *Keeper) renew(ctx context.Context) error {
	now := k.Clock.Now()
	current, err := k.authority(ctx, now)
	if err != nil {
		return err
	}
	if err := k.published(ctx, current.bundle); err != nil {
		return err
	}
	k.mu.RLock()
	fresh := k.leaf != nil && k.leaf.isFresh(current, now)
	k.mu.RUnlock()
	if fresh {
		return nil
	}
	signed, err := current.sign(k.Host, now)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.leaf = signed
	return nil
}

// authority reads the CA, and makes one if there is none or it is about to expire.
func (k *Keeper) authority(ctx context.Context, now time.Time) (*authority, error) {
	secret := &corev1.Secret{}
	if err := k.Client.Get(ctx, k.Secret, secret); err != nil {
		return nil, fmt.Errorf("reading the CA of the webhook in Secret %s, which is installed empty: %w", k.Secret, err)
	}
	if len(secret.Data) > 0 && len(secret.Data[keyCAKey]) == 0 {
		return nil, fmt.Errorf("secret %s has other keys than %s: it is not the operator's; install it empty", k.Secret, keyCAKey)
	}
	current, err := readAuthority(secret.Data, now)
	if err == nil && !current.isDue(now) {
		return current, nil
	}
	certificate, key, err := newAuthority(now)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{keyCA: certificate, keyCAKey: key}
	if current != nil {
		data[keyPrevious] = current.pem
	}
	secret.Data = data
	if err := k.Client.Update(ctx, secret); apierrors.IsConflict(err) {
		return nil, fmt.Errorf("another replica has just written Secret %s: %w", k.Secret, err)
	} else if err != nil {
		return nil, fmt.Errorf("writing the CA of the webhook to Secret %s: %w", k.Secret, err)
	}
	return readAuthority(data, now)
}

// published returns an error unless the configuration of the webhook has the CAs.
func (k *Keeper) published(ctx context.Context, bundle []byte) error {
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := k.Client.Get(ctx, client.ObjectKey{Name: k.Configuration}, configuration); err != nil {
		return fmt.Errorf("reading MutatingWebhookConfiguration %s: %w", k.Configuration, err)
	}
	for _, w := range configuration.Webhooks {
		if !bytes.Equal(w.ClientConfig.CABundle, bundle) {
			return fmt.Errorf("MutatingWebhookConfiguration %s does not have the CA of Secret %s yet: if this persists, look at Deployment etcd-foreman-webhook-ca, which writes it", k.Configuration, k.Secret)
		}
	}
	return nil
}
