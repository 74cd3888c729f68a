// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"strings"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups="",namespace=etcd-foreman-system,resources=secrets,resourceNames=etcd-foreman-signing-key,verbs=get;update

const (
	// keySecret is the Secret in the operator's namespace that keeps the key by which agents recognize the operator. It is
	// installed empty, and the operator puts the key in: so it need not be allowed to make Secrets.
	keySecret = "etcd-foreman-signing-key"
	// keySeed is the key of the seed in it.
	keySeed = "ed25519.seed"
	// namespaceFile has the namespace of a pod.
	namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
)

// operatorNamespace is where the operator runs, or keeps its lease; empty where neither is known.
func operatorNamespace(config *configv1alpha1.OperatorConfiguration) string {
	// Outside of a cluster there is no such file.
	own, _ := os.ReadFile(namespaceFile)
	return cmp.Or(strings.TrimSpace(string(own)), config.LeaderElection.Namespace)
}

// signingKey is the key by which agents recognize the operator.
func signingKey(ctx context.Context, kubeconfig *rest.Config, namespace string) (ed25519.PrivateKey, error) {
	c, err := client.New(kubeconfig, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("making a client for the signing key: %w", err)
	}
	return loadKey(ctx, c, client.ObjectKey{Namespace: namespace, Name: keySecret})
}

// loadKey reads the key from the Secret, and puts one in where there is none. Where the operator may not, or there is no
// such Secret, the key is one of this process: the agents learn it a minute after each start.
func loadKey(ctx context.Context, c client.Client, at client.ObjectKey) (ed25519.PrivateKey, error) {
	_, fresh, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fmt.Errorf("making a signing key: %w", err)
	}
	secret := &corev1.Secret{}
	err = c.Get(ctx, at, secret)
	if err == nil && len(secret.Data[keySeed]) == 0 {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[keySeed] = fresh.Seed()
		if err = c.Update(ctx, secret); apierrors.IsConflict(err) {
			// Another replica was faster.
			err = c.Get(ctx, at, secret)
		}
	}
	switch {
	case at.Namespace == "" || apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
		ctrl.LoggerFrom(ctx).Info("The signing key is not persisted: agents refuse requests for up to two minutes after each start of the operator. Install the Secret and its Role (config/default)", "secret", at)
		return fresh, nil
	case err != nil:
		return nil, fmt.Errorf("reading the signing key in Secret %s: %w", at, err)
	case len(secret.Data[keySeed]) != ed25519.SeedSize:
		return nil, errors.New("the value of " + keySeed + " in Secret " + at.String() + " is not a key: remove it, and restart the operator to make another")
	}
	return ed25519.NewKeyFromSeed(secret.Data[keySeed]), nil
}
