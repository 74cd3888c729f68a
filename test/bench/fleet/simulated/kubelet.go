// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Annotation of a pod by which its template is bad, and its values: the containers of one that Crashes do not run, those of one that
// Restarts do so once, badAfter they became ready, and the members of one that Alarms raise NOSPACE then.
const (
	Annotation = "rolled"
	Crashes    = "crashes"
	Restarts   = "restarts"
	Alarms     = "alarms"
)

const badAfter = 20 * time.Second

// nodes is the number of nodes.
const nodes = 100

// Kubelet simulates scheduler, kubelets and provisioner, and records when pods are deleted and become ready.
type Kubelet struct {
	client   client.Client
	fleet    *Fleet
	podStart time.Duration
	done     chan struct{}

	mu      sync.Mutex
	entries map[int][]Entry
}

// Entry is an entry of the record: a pod was deleted or became ready.
type Entry struct {
	At    time.Time
	Pod   string
	Ready bool
}

// Namespace returns the namespace of an Etcd.
func Namespace(etcd int) string { return fmt.Sprintf("fleet-%04d", etcd) }

// Crowd is a namespace with many Etcds, and CrowdedName the name of each.
const Crowd = "crowd"

// CrowdedName returns the name of an Etcd in Crowd.
func CrowdedName(etcd int) string { return fmt.Sprintf("crowded-%d", etcd) }

// memberOf returns the Etcd and the ordinal of a member's pod.
func memberOf(pod types.NamespacedName) (etcd, member int, ok bool) {
	dash := max(strings.LastIndexByte(pod.Name, '-'), 0)
	number, found := strings.CutPrefix(pod.Namespace, "fleet-")
	if pod.Namespace == Crowd {
		number, found = strings.CutPrefix(pod.Name[:dash], "crowded-")
	}
	etcd, err := strconv.Atoi(number)
	member, memberErr := strconv.Atoi(strings.TrimPrefix(pod.Name[dash:], "-"))
	return etcd, member, found && err == nil && memberErr == nil
}

// StartKubelet creates the nodes and simulates pods and claims until the context ends.
func StartKubelet(ctx context.Context, e *env.Env, f *Fleet, podStart time.Duration) (*Kubelet, error) {
	config := rest.CopyConfig(e.Config)
	config.QPS = -1
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: e.Scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return nil, fmt.Errorf("making a manager: %w", err)
	}
	k := &Kubelet{client: mgr.GetClient(), fleet: f, podStart: podStart, done: make(chan struct{}), entries: map[int][]Entry{}}
	for name, c := range map[string]struct {
		object    client.Object
		reconcile reconcile.Func
	}{"kubelet": {&corev1.Pod{}, k.pod}, "provisioner": {&corev1.PersistentVolumeClaim{}, k.claim}} {
		err := ctrl.NewControllerManagedBy(mgr).Named(name).For(c.object).WithOptions(controller.Options{MaxConcurrentReconciles: 10}).Complete(c.reconcile)
		if err != nil {
			return nil, fmt.Errorf("setting up the simulated %s: %w", name, err)
		}
	}
	go k.run(ctx, mgr)
	for i := range nodes {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)}}
		if err := e.Client.Create(ctx, node); err != nil {
			return k, fmt.Errorf("creating a node: %w", err)
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if err := e.Client.Status().Update(ctx, node); err != nil {
			return k, fmt.Errorf("making a node ready: %w", err)
		}
	}
	return k, nil
}

func (k *Kubelet) run(ctx context.Context, mgr manager.Manager) {
	defer close(k.done)
	// If it fails, pods do not become ready, and the benchmark reports that.
	_ = mgr.Start(ctx)
}

// Wait waits until the simulation has ended.
func (k *Kubelet) Wait() { <-k.done }

func nodeName(i int) string { return fmt.Sprintf("node-%02d", i%nodes) }

// pod advances a pod by one step: to a node, to readiness, or to its removal.
func (k *Kubelet) pod(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	etcd, member, ok := memberOf(request.NamespacedName)
	pod := &corev1.Pod{}
	err := k.client.Get(ctx, request.NamespacedName, pod)
	if err != nil || !ok {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	at := address(etcd, member)
	state := env.Ready
	switch {
	case k.fleet.probeFails(etcd, member):
		state = env.NotReady
	case pod.Annotations[Annotation] == Crashes:
		state = env.Crashing
	}
	want := env.PodStatus(pod, state, at)
	left := k.turnBad(pod, &want, func() { k.fleet.clusters[etcd].Raise(etcdclient.AlarmNoSpace, member) })
	switch {
	case pod.DeletionTimestamp != nil:
		k.fleet.set(at, false)
		k.record(etcd, Entry{time.Now(), pod.Name, false})
		err = k.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	case pod.Spec.NodeName == "":
		err = k.client.SubResource("binding").Create(ctx, pod, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: nodeName(etcd + member)},
		})
	case equality.Semantic.DeepEqual(pod.Status, want) && state == env.NotReady:
		// Until it answers again.
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case equality.Semantic.DeepEqual(pod.Status, want):
		return reconcile.Result{RequeueAfter: left}, nil
	case time.Since(pod.CreationTimestamp.Time) < k.podStart:
		return reconcile.Result{RequeueAfter: k.podStart - time.Since(pod.CreationTimestamp.Time)}, nil
	default:
		pod.Status = want
		k.fleet.set(at, state == env.Ready)
		if err = k.client.Status().Update(ctx, pod); err == nil && state == env.Ready {
			k.record(etcd, Entry{time.Now(), pod.Name, true})
		}
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		// An event for the change follows.
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, err
}

// turnBad says in the status of a pod that its containers were restarted, or has its member raise an alarm, if its template does that, or
// returns how long until then.
func (k *Kubelet) turnBad(pod *corev1.Pod, status *corev1.PodStatus, raise func()) (left time.Duration) {
	kind := pod.Annotations[Annotation]
	if kind != Restarts && kind != Alarms {
		return 0
	}
	at := pod.CreationTimestamp.Add(k.podStart + badAfter)
	if left = time.Until(at); left > 0 {
		return left
	}
	if kind == Alarms {
		raise()
		return 0
	}
	for i := range status.ContainerStatuses {
		if c := &status.ContainerStatuses[i]; c.State.Running != nil {
			c.State.Running, c.RestartCount = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at.Truncate(time.Second))}, 1
		}
	}
	return 0
}

// claim binds a claim to a new volume.
func (k *Kubelet) claim(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := k.client.Get(ctx, request.NamespacedName, claim); err != nil || claim.Status.Phase == corev1.ClaimBound {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID)},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes,
			ClaimRef:               &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "simulated", VolumeHandle: string(claim.UID)}},
		},
	}
	if claim.Spec.VolumeName == "" {
		if err := k.client.Create(ctx, volume); err != nil && !apierrors.IsAlreadyExists(err) {
			return reconcile.Result{}, fmt.Errorf("creating volume %s: %w", volume.Name, err)
		}
		claim.Spec.VolumeName = volume.Name
		return reconcile.Result{}, ignoreConflict(k.client.Update(ctx, claim))
	}
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes}
	return reconcile.Result{}, ignoreConflict(k.client.Status().Update(ctx, claim))
}

func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func (k *Kubelet) record(etcd int, e Entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if all := k.entries[etcd]; !e.Ready && len(all) > 0 && all[len(all)-1].Pod == e.Pod && !all[len(all)-1].Ready {
		// The same deletion, observed again.
		return
	}
	k.entries[etcd] = append(k.entries[etcd], e)
}

// Touch triggers another reconcile of a pod with a meaningless annotation.
func (k *Kubelet) Touch(ctx context.Context, etcd, member int) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace(etcd), Name: PodName(member)}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"simulated":"hangs"}}}`))
	return k.client.Patch(ctx, pod, patch)
}

// Since returns the entries of an Etcd after a time.
func (k *Kubelet) Since(etcd int, from time.Time) []Entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	var some []Entry
	for _, e := range k.entries[etcd] {
		if e.At.After(from) {
			some = append(some, e)
		}
	}
	return some
}
