// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the configuration of the operator: the OperatorConfiguration and its feature gates.
//
// +kubebuilder:object:generate=true
// +groupName=operator.config.druid.gardener.cloud
package v1alpha1
