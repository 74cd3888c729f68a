// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 defines the operator's configuration file, OperatorConfiguration, and the feature gates. It imports no
// other package of this project.
package v1alpha1
