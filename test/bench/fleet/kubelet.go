// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// nodes are how many nodes there are.
const nodes = 100

// kubelet simulates scheduler, kubelets and provisioner, and keeps a diary of what becomes of the pods.
type kubelet struct {
	client   client.Client
	fleet    *fleet
	podStart time.Duration
	done     chan struct{}

	mu    sync.Mutex
	diary map[int][]entry
}

// entry of a diary: a pod was deleted, or became ready.
type entry struct {
	at    time.Time
	pod   string
	ready bool
}

func namespaceOf(etcd int) string { return fmt.Sprintf("fleet-%04d", etcd) }

func etcdOf(namespace string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimPrefix(namespace, "fleet-"))
	return n, err == nil && strings.HasPrefix(namespace, "fleet-")
}

// startKubelet makes the nodes and starts to look after pods and claims, until the context ends.
func startKubelet(ctx context.Context, e *env.Env, f *fleet, podStart time.Duration) (*kubelet, error) {
	config := rest.CopyConfig(e.Config)
	config.QPS = -1
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: e.Scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return nil, fmt.Errorf("making a manager: %w", err)
	}
	k := &kubelet{client: mgr.GetClient(), fleet: f, podStart: podStart, done: make(chan struct{}), diary: map[int][]entry{}}
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

func (k *kubelet) run(ctx context.Context, mgr manager.Manager) {
	defer close(k.done)
	// What goes wrong here shows in pods that do not become ready.
	_ = mgr.Start(ctx)
}

func (k *kubelet) wait() { <-k.done }

func nodeName(i int) string { return fmt.Sprintf("node-%02d", i%nodes) }

// pod takes a pod one step further.
func (k *kubelet) pod(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	etcd, ours := etcdOf(request.Namespace)
	pod := &corev1.Pod{}
	if err := k.client.Get(ctx, request.NamespacedName, pod); err != nil || !ours {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	member, err := strconv.Atoi(strings.TrimPrefix(pod.Name, etcdName+"-"))
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the ordinal of pod %s: %w", request, err)
	}
	at := address(etcd, member)
	state := env.Ready
	if k.fleet.hangs(etcd, member) {
		state = env.NotReady
	}
	switch want := env.PodStatus(pod, state, at); {
	case pod.DeletionTimestamp != nil:
		k.fleet.set(at, false)
		k.note(etcd, entry{time.Now(), pod.Name, false})
		err = k.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	case pod.Spec.NodeName == "":
		err = k.client.SubResource("binding").Create(ctx, pod, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: nodeName(etcd + member)},
		})
	case equality.Semantic.DeepEqual(pod.Status, want) && state == env.NotReady:
		// Until it goes on.
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case equality.Semantic.DeepEqual(pod.Status, want):
	case time.Since(pod.CreationTimestamp.Time) < k.podStart:
		return reconcile.Result{RequeueAfter: k.podStart - time.Since(pod.CreationTimestamp.Time)}, nil
	default:
		pod.Status = want
		k.fleet.set(at, state == env.Ready)
		if err = k.client.Status().Update(ctx, pod); err == nil && state == env.Ready {
			k.note(etcd, entry{time.Now(), pod.Name, true})
		}
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		// It has an event of its own under way.
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, err
}

// claim gives a claim its volume.
func (k *kubelet) claim(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
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

func (k *kubelet) note(etcd int, e entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if all := k.diary[etcd]; !e.ready && len(all) > 0 && all[len(all)-1].pod == e.pod && !all[len(all)-1].ready {
		// The same deletion, seen again.
		return
	}
	k.diary[etcd] = append(k.diary[etcd], e)
}

// look has the pods of an Etcd looked at once more, by a change that means nothing.
func (k *kubelet) look(ctx context.Context, etcd, member int) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(etcd), Name: podName(member)}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"simulated":"hangs"}}}`))
	return k.client.Patch(ctx, pod, patch)
}

// since is what was noted of an Etcd since a moment.
func (k *kubelet) since(etcd int, from time.Time) []entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	var some []entry
	for _, e := range k.diary[etcd] {
		if e.at.After(from) {
			some = append(some, e)
		}
	}
	return some
}
