// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"strings"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/auth"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups="",namespace=etcd-foreman-system,resources=secrets,resourceNames=etcd-foreman-signing-key,verbs=get;update

// namespaceFile has the namespace of a pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// operatorNamespace returns the namespace of the operator, or else of its lease; empty if neither is known.
func operatorNamespace(config *configv1alpha1.OperatorConfiguration) string {
	// Outside a cluster there is no such file.
	own, _ := os.ReadFile(namespaceFile)
	return cmp.Or(strings.TrimSpace(string(own)), config.LeaderElection.Namespace)
}

// signingKey returns the key that the operator signs requests to agents with.
func signingKey(ctx context.Context, kubeconfig *rest.Config, namespace string) (ed25519.PrivateKey, error) {
	c, err := client.New(kubeconfig, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("making a client for the signing key: %w", err)
	}
	return loadKey(ctx, c, client.ObjectKey{Namespace: namespace, Name: auth.KeySecret})
}

// loadKey reads the key from the Secret, which is installed empty so that the operator needs no right to create Secrets, and generates it
// if it is still empty. If there is no Secret, or no right to it, the
// key lives as long as this process, and agents get it a minute after each start.
func loadKey(ctx context.Context, c client.Client, at client.ObjectKey) (ed25519.PrivateKey, error) {
	_, fresh, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fmt.Errorf("making a signing key: %w", err)
	}
	secret := &corev1.Secret{}
	err = c.Get(ctx, at, secret)
	if err == nil && len(secret.Data[auth.KeySeed]) == 0 {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[auth.KeySeed] = fresh.Seed()
		if err = c.Update(ctx, secret); apierrors.IsConflict(err) {
			// Another replica has just written it.
			err = c.Get(ctx, at, secret)
		}
	}
	switch {
	case at.Namespace == "" || apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
		ctrl.LoggerFrom(ctx).Info("The signing key is not persisted: agents refuse requests for up to two minutes after each start of the operator. Install the Secret and its Role (config/default)", "secret", at)
		return fresh, nil
	case err != nil:
		return nil, fmt.Errorf("reading the signing key in Secret %s: %w", at, err)
	case len(secret.Data[auth.KeySeed]) != ed25519.SeedSize:
		return nil, errors.New("the value of " + auth.KeySeed + " in Secret " + at.String() + " is not a key: remove it, and restart the operator to make another")
	}
	return ed25519.NewKeyFromSeed(secret.Data[auth.KeySeed]), nil
}
