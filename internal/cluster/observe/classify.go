// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/pods"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// classify implements DEP-07's "Health Assessment" for every state of a pod, by the kubelet's report alone: a running etcd container is
// Unready, and only becomes Participating by the answer of its member. The second result is why a container is not running, in the words of
// the kubelet or the scheduler.
func classify(pod *corev1.Pod) (v1alpha1.PodClass, string) {
	switch {
	case pod == nil:
		return v1alpha1.ClassMissing, ""
	case pod.DeletionTimestamp != nil:
		return v1alpha1.ClassTerminating, ""
	case hasEnded(pod):
		return v1alpha1.ClassDead, joinTrouble("pod "+string(pod.Status.Phase), pod.Status.Reason, pod.Status.Message)
	}
	for _, c := range pod.Status.InitContainerStatuses {
		if dead, trouble := isDead(c); dead && !completed(c) {
			return v1alpha1.ClassDead, "init container " + c.Name + ": " + trouble
		}
	}
	etcd := pods.Container(pod, v1alpha1.ContainerEtcd)
	if etcd == nil {
		return v1alpha1.ClassStarting, unschedulable(pod)
	}
	if dead, trouble := isDead(*etcd); dead {
		return v1alpha1.ClassDead, "container " + etcd.Name + ": " + trouble
	}
	if etcd.State.Running != nil {
		return v1alpha1.ClassUnready, ""
	}
	return v1alpha1.ClassStarting, unschedulable(pod)
}

// isDead reports whether a container has exited or cannot be started. Any reason for waiting except its set-up counts: CrashLoopBackOff,
// ImagePullBackOff, CreateContainerConfigError, and unknown ones of later kubelets.
func isDead(c corev1.ContainerStatus) (bool, string) {
	if t := c.State.Terminated; t != nil {
		return true, joinTrouble(fmt.Sprintf("exited with code %d", t.ExitCode), t.Reason, t.Message)
	}
	if w := c.State.Waiting; w != nil {
		switch w.Reason {
		case "", "ContainerCreating", "PodInitializing":
			return false, ""
		}
		return true, joinTrouble(joinTrouble("", w.Reason, w.Message), "", lastWords(c))
	}
	return false, ""
}

// maxWords bounds what the last run of a container has said, in bytes.
const maxWords = 512

// lastWords returns why the last run of a container that waits for its restart has ended: what the agent says, or the end of a log. The kubelet's own
// words name the delay alone.
func lastWords(c corev1.ContainerStatus) string {
	t := c.LastTerminationState.Terminated
	if t == nil || t.ExitCode == 0 {
		return ""
	}
	if r := cluster.ParseRefusal(t.Message); r != nil {
		return r.Error()
	}
	text := strings.TrimSpace(t.Message)
	if len(text) > maxWords {
		text = "... " + strings.ToValidUTF8(text[len(text)-maxWords:], "")
	}
	return text
}

func completed(c corev1.ContainerStatus) bool {
	return c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
}

func unschedulable(pod *corev1.Pod) string {
	if c := pods.Condition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return joinTrouble("not scheduled", c.Reason, c.Message)
	}
	return ""
}

func joinTrouble(what, reason, message string) string {
	for _, s := range []string{reason, message} {
		switch {
		case s == "":
		case what == "":
			what = s
		default:
			what += ": " + s
		}
	}
	return what
}

// isReady reports whether the etcd container's readiness probe passes. When a node is lost, the container's own flag stays: the
// node controller sets the pod's Ready condition to False.
func isReady(pod *corev1.Pod, etcd *corev1.ContainerStatus) bool {
	return etcd != nil && etcd.Ready && !isMarkedUnready(pod)
}

// isMarkedUnready reports whether the node controller has marked the pod. It changes the status of the condition alone, and a pod that is
// ready has no reason; the kubelet gives one, also for readiness gates and for sidecars among the init containers.
func isMarkedUnready(pod *corev1.Pod) bool {
	ready := pods.Condition(pod, corev1.PodReady)
	return ready != nil && ready.Status != corev1.ConditionTrue && ready.Reason == "" && allReady(pod)
}

// isPodReady reports whether the pod is ready as budgets and Services count it.
func isPodReady(pod *corev1.Pod) bool {
	ready := pods.Condition(pod, corev1.PodReady)
	return allReady(pod) && (ready == nil || ready.Status == corev1.ConditionTrue)
}

// hasEnded reports whether the pod has a final phase. The kubelet reports one once no container is running; the pod garbage collector also
// writes Failed if the node is gone.
func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// isMarkedAsLost reports whether controllers of Kubernetes have marked a pod because its node is lost: as not ready, although its
// containers were ready in the kubelet's last report; or for deletion, because of a taint of the node or because the node is gone.
func isMarkedAsLost(pod *corev1.Pod) bool {
	return isMarkedUnready(pod) || isDisrupted(pod, "DeletionByTaintManager", "DeletionByPodGC")
}

// isDisrupted reports whether something other than the operator is about to remove the pod, for one of the given reasons, or for any.
func isDisrupted(pod *corev1.Pod, reasons ...string) bool {
	c := pods.Condition(pod, corev1.DisruptionTarget)
	return c != nil && c.Status == corev1.ConditionTrue && (len(reasons) == 0 || slices.Contains(reasons, c.Reason))
}

func allReady(pod *corev1.Pod) bool {
	all := pod.Status.ContainerStatuses
	return len(all) > 0 && !slices.ContainsFunc(all, func(c corev1.ContainerStatus) bool { return !c.Ready })
}

// describePod makes a cluster.Pod from a pod.
func describePod(pod *corev1.Pod, trouble string) *cluster.Pod {
	etcd := pods.Container(pod, v1alpha1.ContainerEtcd)
	sidecar := pods.Container(pod, v1alpha1.ContainerBackupRestore)
	p := &cluster.Pod{
		UID:                pod.UID,
		ResourceVersion:    pod.ResourceVersion,
		Revision:           pod.Labels[appsv1.StatefulSetRevisionLabel],
		Updating:           cluster.MarkOf(pod) != nil,
		Created:            pod.CreationTimestamp.Time,
		GracePeriod:        time.Duration(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)) * time.Second,
		Ready:              isReady(pod, etcd),
		AllContainersReady: isPodReady(pod),
		BackupSidecarReady: sidecar == nil || sidecar.Ready,
		Trouble:            trouble,
		Claims:             claims(pod),
		Finalizers:         pod.Finalizers,
		Disrupted:          isDisrupted(pod),
		Ended:              hasEnded(pod) && !isDisrupted(pod, "DeletionByPodGC"),
		NodeLost:           isMarkedAsLost(pod),
		Node:               cluster.Node{Name: pod.Spec.NodeName},
		PeerTLS:            PeerTLS(pod.ObjectMeta, pod.Spec),
		OfDruid:            runsDruid(pod.ObjectMeta),
		Authorities:        pod.Annotations[v1alpha1.AnnotationCAChecksum],
		EtcdVersion:        etcdVersion(pod.ObjectMeta, pod.Spec),
		Probed:             isProbed(pod),
		Refusal:            Refusal(pod),
		Prepared:           isPrepared(pod),
		ListChanged:        ListChanged(etcd),
	}
	if pod.Status.PodIP != "" {
		p.Endpoint = clientScheme(pod) + "://" + ClientAddress(pod)
	}
	if etcd != nil && etcd.State.Running != nil {
		p.EtcdStarted = etcd.State.Running.StartedAt.Time
	}
	return p
}

// etcdVersion returns the tag of the etcd container's image, without its v; empty if there is none. The tag of etcd-druid's image is the
// version of a wrapper.
func etcdVersion(of metav1.ObjectMeta, spec corev1.PodSpec) string {
	if runsDruid(of) {
		return ""
	}
	return ImageVersion(pods.Image(spec, v1alpha1.ContainerEtcd))
}

// agentImage returns the image of the agent's container; empty if there is none.
func agentImage(spec corev1.PodSpec) string { return pods.Image(spec, v1alpha1.ContainerBackupRestore) }

// ImageVersion returns the tag of an image without its v, also beside a digest; empty if there is none.
func ImageVersion(image string) string { return strings.TrimPrefix(pods.Tag(image), "v") }

func isProbed(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return c.Name == v1alpha1.ContainerEtcd && c.ReadinessProbe != nil
	})
}

func claims(pod *corev1.Pod) []string {
	var names []string
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		}
	}
	return names
}

// clientScheme returns the scheme for clients of this pod's member, which may differ from the Etcd's spec while a change is rolled out.
func clientScheme(pod *corev1.Pod) string {
	if pod.Annotations[v1alpha1.AnnotationClientTLS] == v1alpha1.TLSOn {
		return "https"
	}
	if runsDruid(pod.ObjectMeta) && hasVolume(pod.Spec, isClientTLSVolume) {
		return "https"
	}
	return "http"
}

// PeerTLS returns the stage of peer TLS of the member of a pod, or of the pods of a template. A member of etcd-druid is at the last stage
// once it has the certificate.
func PeerTLS(of metav1.ObjectMeta, spec corev1.PodSpec) string {
	if runsDruid(of) && hasVolume(spec, isPeerTLSVolume) {
		return v1alpha1.TLSOn
	}
	return of.Annotations[v1alpha1.AnnotationPeerTLS]
}

// IsServerTLSVolume reports whether a volume with this name, in a pod of etcd-druid, holds a server certificate of its member.
func IsServerTLSVolume(name string) bool { return isClientTLSVolume(name) || isPeerTLSVolume(name) }

// The second is the name in earlier versions.
func isClientTLSVolume(name string) bool {
	return name == "etcd-server-tls" || name == "client-url-etcd-server-tls"
}

func isPeerTLSVolume(name string) bool {
	return name == "etcd-peer-server-tls" || name == "peer-url-etcd-server-tls"
}

func hasVolume(spec corev1.PodSpec, like func(name string) bool) bool {
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return like(v.Name) })
}

// runsDruid reports whether etcd-druid has made a pod or a template. The operator's own have the same labels if it has adopted the
// StatefulSet, but also a checksum that those of etcd-druid do not have.
func runsDruid(of metav1.ObjectMeta) bool {
	_, converted := of.Annotations[v1alpha1.AnnotationConfigChecksum]
	return of.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedByDruid && !converted
}

// ClientAddress returns the address of the member of a pod, host and port; empty while the pod has none.
func ClientAddress(pod *corev1.Pod) string {
	if pod.Status.PodIP == "" {
		return ""
	}
	return net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(clientPort(pod))))
}

// clientPort returns the port that the member of this pod listens on, which may differ from the Etcd's spec while a change is rolled out.
func clientPort(pod *corev1.Pod) int32 {
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if c.Name == v1alpha1.ContainerEtcd && p.Name == clientPortName {
				return p.ContainerPort
			}
		}
	}
	return v1alpha1.DefaultClientPort
}
