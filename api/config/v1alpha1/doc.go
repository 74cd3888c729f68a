// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the configuration of the operator: the OperatorConfiguration, which is read from a
// file when the operator starts, and its feature gates. It imports nothing else of this project.
package v1alpha1
