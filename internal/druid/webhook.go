// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package druid

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/etcd-foreman/etcd-foreman/internal/druid/admission"
	"github.com/etcd-foreman/etcd-foreman/internal/druid/webhookcert"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	webhookadmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	// webhookSecret has the CA of the webhook. It is installed empty.
	webhookSecret = "etcd-foreman-webhook-ca"
	// webhookName is the name of the MutatingWebhookConfiguration.
	webhookName = "etcd-foreman-rollouts"
	// webhookService is the name of the Service.
	webhookService = "etcd-foreman-webhook"
)

// NewWebhook makes the keeper of the webhook's certificate, and the server that serves it. The limits restrict versions and cipher suites.
func NewWebhook(kubeconfig *rest.Config, address, namespace string, limits func(*tls.Config)) (*webhookcert.Keeper, webhook.Server, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, nil, fmt.Errorf("reading server.webhookBindAddress: %w", err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, nil, fmt.Errorf("reading server.webhookBindAddress: %w", err)
	}
	c, err := webhookClient(kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	keeper := &webhookcert.Keeper{
		Client: c, Secret: client.ObjectKey{Namespace: namespace, Name: webhookSecret}, Configuration: webhookName,
		Host: fmt.Sprintf("%s.%s.svc", webhookService, namespace), Clock: clock.RealClock{},
	}
	return keeper, webhook.NewServer(webhook.Options{Host: host, Port: port, TLSOpts: []func(*tls.Config){limits, func(c *tls.Config) { c.GetCertificate = keeper.GetCertificate }}}), nil
}

func webhookClient(kubeconfig *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), admissionregistrationv1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	c, err := client.New(kubeconfig, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client for the webhook: %w", err)
	}
	return c, nil
}

// PublishWebhookCA writes the CA of the webhook to the webhook's configuration until the context ends. It runs with a ServiceAccount of
// its own.
func PublishWebhookCA(ctx context.Context, kubeconfig *rest.Config, namespace string) error {
	c, err := webhookClient(kubeconfig)
	if err != nil {
		return err
	}
	p := &webhookcert.Publisher{
		Client: c, Secret: client.ObjectKey{Namespace: namespace, Name: webhookSecret}, Configuration: webhookName, Clock: clock.RealClock{},
	}
	p.Run(ctx)
	return nil
}

// AddWebhook serves the webhook in each replica.
func AddWebhook(mgr ctrl.Manager, keeper *webhookcert.Keeper) error {
	mgr.GetWebhookServer().Register(admission.Path, admission.Bounded(&webhookadmission.Webhook{
		Handler: &admission.Handler{Live: mgr.GetAPIReader(), Namespace: keeper.Secret.Namespace, Clock: keeper.Clock},
	}))
	return errors.Join(mgr.Add(keeper), mgr.AddReadyzCheck("webhook", keeper.Ready))
}
