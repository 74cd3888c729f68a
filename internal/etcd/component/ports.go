// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/utils/ptr"
)

// Names of the ports of a member's pod, and of the Services.
const (
	clientPortName  = "client"
	peerPortName    = "peer"
	serverPortName  = "server"
	metricsPortName = "metrics"
	backupPortName  = "backuprestore"
)

func clientPort(etcd *v1alpha1.Etcd) int32 { return ptr.Deref(etcd.Spec.Etcd.ClientPort, 2379) }

func peerPort(etcd *v1alpha1.Etcd) int32 { return ptr.Deref(etcd.Spec.Etcd.ServerPort, 2380) }

// metricsPort serves metrics and readiness without a client certificate, because the kubelet's probes have none.
func metricsPort(etcd *v1alpha1.Etcd) int32 { return ptr.Deref(etcd.Spec.Etcd.WrapperPort, 9095) }
