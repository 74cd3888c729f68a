// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API of etcd-foreman: the types Etcd and EtcdOperatorTask, and the names that clients rely on:
// condition types and reasons, error codes, labels and annotations.
//
// It imports only k8s.io/api and k8s.io/apimachinery, so clients can use it without the operator.
//
// +kubebuilder:object:generate=true
// +groupName=druid.gardener.cloud
package v1alpha1
