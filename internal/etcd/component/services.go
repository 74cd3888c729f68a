// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
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

func peerPort(etcd *v1alpha1.Etcd) int32 { return ptr.Deref(etcd.Spec.Etcd.ServerPort, 2380) }

// metricsPort serves metrics and readiness without a client certificate, because the kubelet's probes have none.
func metricsPort(etcd *v1alpha1.Etcd) int32 { return ptr.Deref(etcd.Spec.Etcd.WrapperPort, 9095) }

// clientService routes clients to ready members and their agents. It has the port for peers too, although no member uses it
// here: network policies are made from the ports of a Service, and allow the traffic to all pods that it selects.
func clientService(in Input) *corev1ac.ServiceApplyConfiguration {
	s := service(in, in.Etcd.ClientServiceName(), v1alpha1.ComponentClientService,
		corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			WithPorts(
				servicePort(clientPortName, in.Etcd.ClientPort()),
				servicePort(serverPortName, peerPort(in.Etcd)),
				servicePort(backupPortName, BackupPort(in.Etcd))))
	users := ptr.Deref(in.Etcd.Spec.Etcd.ClientService, v1alpha1.ClientService{})
	s.Labels = over(users.Labels, s.Labels)
	s.WithAnnotations(users.Annotations)
	if d := users.TrafficDistribution; d != nil {
		s.Spec.WithTrafficDistribution(string(*d))
	}
	return s
}

// peerService gives each member its host name. It publishes members that are not ready, because members must find each other
// to become ready.
func peerService(in Input) *corev1ac.ServiceApplyConfiguration {
	return service(in, in.Etcd.PeerServiceName(), v1alpha1.ComponentPeerService,
		corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			WithClusterIP(corev1.ClusterIPNone).
			WithPublishNotReadyAddresses(true).
			WithPorts(servicePort(peerPortName, peerPort(in.Etcd))))
}

func service(in Input, name, component string, spec *corev1ac.ServiceSpecApplyConfiguration) *corev1ac.ServiceApplyConfiguration {
	return corev1ac.Service(name, in.Etcd.Namespace).
		WithLabels(in.labels(component, name)).
		WithOwnerReferences(owner(in.Etcd)).
		WithSpec(spec.WithSelector(MemberSelector(in.Etcd.Name, in.podsManagedBy())))
}

// servicePort is a port of a Service and of its pods. Its target is a number, because network policies are named after it.
func servicePort(name string, port int32) *corev1ac.ServicePortApplyConfiguration {
	return corev1ac.ServicePort().
		WithName(name).
		WithProtocol(corev1.ProtocolTCP).
		WithPort(port).
		WithTargetPort(intstr.FromInt32(port))
}
