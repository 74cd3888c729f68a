// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API of etcd-foreman: the Etcd, the EtcdOperatorTask, and the names that
// other programs rely on (condition types and reasons, error codes, labels, annotations).
//
// It imports k8s.io/api and k8s.io/apimachinery only, so that a client can use it without the operator.
//
// +kubebuilder:object:generate=true
// +groupName=druid.gardener.cloud
package v1alpha1
