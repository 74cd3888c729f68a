//go:build nodruid

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// connectDruid changes nothing: this operator is built without internal/druid.
func connectDruid(*configv1alpha1.OperatorConfiguration, *rest.Config, *ctrl.Options, string) (func(ctrl.Manager) error, error) {
	return func(ctrl.Manager) error { return nil }, nil
}

// PublishWebhookCA returns an error.
func PublishWebhookCA(context.Context, *configv1alpha1.OperatorConfiguration) error {
	return errors.New("this operator is built without executor mode")
}

// besideDruid returns that nothing changes, and an error in executor mode.
func besideDruid(mode configv1alpha1.Mode, _ prometheus.Registerer) (beside, error) {
	if mode == configv1alpha1.ModeExecutor {
		return beside{}, errors.New("this operator is built without executor mode")
	}
	return beside{
		rule: replacer.Operator{}, live: func(r client.Reader) client.Reader { return r },
		parts:   func(*composition) []part { return nil },
		adopter: func(*etcd.Reconciler) state.Adopter { return state.NoAdopter{} },
	}, nil
}
