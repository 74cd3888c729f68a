// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PodState is the state in which a Kubelet keeps a pod.
type PodState int

// The states of a pod. A deleted pod is removed at once, except in state Lost.
const (
	// Ready: every container runs and is ready. This is the default.
	Ready PodState = iota
	// NotReady: every container runs, and none is ready.
	NotReady
	// Crashing: every container is in CrashLoopBackOff.
	Crashing
	// Lost: the node of the pod is lost. A new pod stays unscheduled, a running one keeps its last status,
	// a deleted one stays terminating.
	Lost
	// Infeasible and Deferred: every container is ready, and a resize is not carried out.
	Infeasible
	Deferred
	// AgentDown: every container but the agent is ready.
	AgentDown
)

// Node is the ready node that all pods are bound to.
const Node = "simulated"

// Kubelet simulates scheduler and kubelet for the pods of one namespace: it binds each to a node, writes the
// status that a kubelet would write, and removes it when it is deleted. Nothing runs: there are no probes, image pulls,
// volume bindings or grace periods.
type Kubelet struct {
	client    client.WithWatch
	namespace string
	changed   chan struct{}
	// address is that of the pod of an ordinal.
	address func(ordinal int) string
	node    string

	// judge decides on the state of a pod whose name has none; nil: it is Ready.
	judge func(*corev1.Pod) PodState

	mu     sync.Mutex
	states map[string]PodState
	// ready are the names of the ready pods that are not being deleted.
	ready map[string]bool
}

// StartKubelet starts a Kubelet, which works until the test ends.
func (e *Env) StartKubelet(t testing.TB, namespace string) *Kubelet {
	t.Helper()
	return e.StartKubeletAt(t, namespace, PodIP)
}

// StartKubeletAt starts a Kubelet whose pods have other addresses, by ordinal.
func (e *Env) StartKubeletAt(t testing.TB, namespace string, address func(int) string) *Kubelet {
	t.Helper()
	k := &Kubelet{client: e.Client, namespace: namespace, address: address, node: Node, changed: make(chan struct{}, 1), states: map[string]PodState{}, ready: map[string]bool{}}
	if err := EnsureNode(t.Context(), e.Client, Node); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	pods, err := e.Client.Watch(ctx, &corev1.PodList{}, client.InNamespace(namespace))
	if err != nil {
		cancel()
		t.Fatalf("watching pods: %v", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.run(ctx, t, k.see(ctx, pods))
	}()
	t.Cleanup(func() {
		cancel()
		pods.Stop()
		<-done
	})
	return k
}

// BindTo has the Kubelet bind pods to another node, which need not exist. It is called before there are any.
func (k *Kubelet) BindTo(node string) { k.node = node }

// EnsureNode makes a node that is ready and large, unless it exists. A resize is admitted only for a pod on such a node.
func EnsureNode(ctx context.Context, c client.Client, name string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := client.IgnoreAlreadyExists(c.Create(ctx, node)); err != nil {
		return fmt.Errorf("creating node %s: %w", name, err)
	}
	large := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000"), corev1.ResourceMemory: resource.MustParse("1Ti"), corev1.ResourcePods: resource.MustParse("1000")}
	// Tests at once may write the same.
	node.ResourceVersion = ""
	node.Status = corev1.NodeStatus{Allocatable: large, Capacity: large, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	if err := c.Status().Patch(ctx, node, client.Merge); err != nil {
		return fmt.Errorf("writing the status of node %s: %w", name, err)
	}
	return nil
}

// Judge has a function decide on the state of pods that Set has not. It is called before there are any.
func (k *Kubelet) Judge(judge func(*corev1.Pod) PodState) { k.judge = judge }

// Set sets the state of the pods of a name: the present one and its replacements.
func (k *Kubelet) Set(pod string, state PodState) {
	k.mu.Lock()
	k.states[pod] = state
	k.mu.Unlock()
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

func (k *Kubelet) state(pod *corev1.Pod) PodState {
	k.mu.Lock()
	defer k.mu.Unlock()
	if state, set := k.states[pod.Name]; set || k.judge == nil {
		return state
	}
	return k.judge(pod)
}

// Ready reports whether a pod is ready and not being deleted: whether its etcd would answer.
func (k *Kubelet) Ready(pod string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ready[pod]
}

// see records at once which pods are ready, and passes them on to sync.
func (k *Kubelet) see(ctx context.Context, pods watch.Interface) <-chan *corev1.Pod {
	seen := make(chan *corev1.Pod, 100)
	go func() {
		defer close(seen)
		for event := range pods.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			k.mu.Lock()
			k.ready[pod.Name] = event.Type != watch.Deleted && pod.DeletionTimestamp == nil &&
				len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].Ready
			k.mu.Unlock()
			if event.Type == watch.Deleted {
				continue
			}
			select {
			case seen <- pod:
			case <-ctx.Done():
				return
			}
		}
	}()
	return seen
}

func (k *Kubelet) run(ctx context.Context, t testing.TB, pods <-chan *corev1.Pod) {
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-k.changed:
			err = k.syncAll(ctx)
		case pod, open := <-pods:
			if !open {
				return
			}
			err = k.sync(ctx, pod)
		}
		if err != nil && ctx.Err() == nil {
			t.Errorf("simulated kubelet: %v", err)
		}
	}
}

func (k *Kubelet) syncAll(ctx context.Context) error {
	var pods corev1.PodList
	if err := k.client.List(ctx, &pods, client.InNamespace(k.namespace)); err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	for i := range pods.Items {
		if err := k.sync(ctx, &pods.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// sync takes a pod one step further; the event of that step triggers the next. If the pod has changed or is gone, another
// event follows.
func (k *Kubelet) sync(ctx context.Context, pod *corev1.Pod) error {
	state := k.state(pod)
	var err error
	switch {
	case state == Lost:
		return nil
	case pod.DeletionTimestamp != nil:
		err = k.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	case pod.Spec.NodeName == "":
		err = k.client.SubResource("binding").Create(ctx, pod, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{UID: pod.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: k.node},
		})
	default:
		want := PodStatus(pod, state, k.address(ordinalOf(pod)))
		if equality.Semantic.DeepEqual(pod.Status, want) {
			return nil
		}
		pod.Status = want
		err = k.client.Status().Update(ctx, pod)
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("bringing pod %s to its state: %w", pod.Name, err)
	}
	return nil
}
