// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/node"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// byVolumes: two members without data may be a quorum.
const byVolumes = "lost volumes"

func others() []Kind {
	return []Kind{
		{Name: "pod deleted by another client", Longest: 2 * time.Second, choose: anyMember, inject: deletePod},
		{Name: "pod evicted by another client", Longest: 2 * time.Second, choose: anyMember, inject: evictPod},
		{Name: "volume lost", Longest: 2 * time.Second, by: byVolumes, choose: anyMember, inject: loseVolume},
		{Name: "volume lost and no promotion", Longest: 60 * time.Second, by: byVolumes, also: bySignals, choose: anyMember, inject: loseVolumeAndStayLearner},
		{Name: "finalizer on a pod", Longest: 25 * time.Second, SparesWrites: true, choose: anyMember, inject: finalizer},
		{Name: "node cordoned", Longest: 25 * time.Second, SparesWrites: true, choose: nothing("the node"), inject: changeNode(func(n *corev1.Node, on bool) { n.Spec.Unschedulable = on })},
		{Name: "node tainted", Longest: 25 * time.Second, SparesWrites: true, choose: nothing("the node"), inject: changeNode(taint)},
	}
}

func (m *Machine) read(ctx context.Context, name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	err := m.Kube.Get(ctx, types.NamespacedName{Namespace: m.Namespace, Name: name}, pod)
	return pod, err
}

func deletePod(ctx context.Context, m *Machine, t target) (heal, error) {
	pod, err := m.read(ctx, t.name)
	if err == nil {
		err = m.Kube.Delete(ctx, pod)
	}
	return removed(pod, err)
}

func evictPod(ctx context.Context, m *Machine, t target) (heal, error) {
	pod, err := m.read(ctx, t.name)
	if err == nil {
		err = m.Kube.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{})
	}
	if apierrors.IsTooManyRequests(err) {
		return notInEffect, nil // by the PodDisruptionBudget
	}
	return removed(pod, err)
}

// loseVolume deletes the claim of a member and its pod: the member comes back without data, as a learner.
func loseVolume(ctx context.Context, m *Machine, t target) (heal, error) {
	claim := &corev1.PersistentVolumeClaim{}
	claim.Namespace, claim.Name = m.Namespace, setOf(t.name)+"-"+t.name
	if err := client.IgnoreNotFound(m.Kube.Delete(ctx, claim)); err != nil {
		return nil, err
	}
	return deletePod(ctx, m, t)
}

// agent is the name of the agent's process, which has a learner promoted.
const agent = "etcd-agent"

// loseVolumeAndStayLearner lets a member lose its data, and freezes the agent of the one that comes back: it stays a learner.
func loseVolumeAndStayLearner(ctx context.Context, m *Machine, t target) (heal, error) {
	lost, err := m.read(ctx, t.name)
	if err != nil {
		return notInEffect, client.IgnoreNotFound(err)
	}
	end, err := loseVolume(ctx, m, t)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var frozen node.Process
	var all sync.WaitGroup
	all.Go(func() {
		for wait(ctx, 50*time.Millisecond) && frozen == (node.Process{}) {
			frozen = m.freezeAgent(ctx, t.name, string(lost.UID))
		}
	})
	return func(ctx context.Context) (string, error) {
		cancel()
		all.Wait()
		evidence, err := end(ctx)
		if frozen == (node.Process{}) {
			return "", err
		}
		if !frozen.Stopped() {
			return "", errors.Join(err, frozen.Thaw(ctx))
		}
		return fmt.Sprintf("%s, and its agent, %s, was stopped until the end", evidence, frozen), errors.Join(err, frozen.Thaw(ctx))
	}, nil
}

// freezeAgent freezes the agent of a member whose pod is not the one of a UID. It leaves alone the agent that prepares the
// volume before etcd starts.
func (m *Machine) freezeAgent(ctx context.Context, member, notOf string) node.Process {
	pod, there := m.Roster.Pod(member)
	if !there || pod.UID == notOf {
		return node.Process{}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	p, err := node.Find(ctx, pod.UID, agent)
	if err != nil {
		return node.Process{}
	}
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID()))
	if err != nil || !bytes.Contains(command, []byte("\x00serve\x00")) || p.Freeze(ctx) != nil {
		return node.Process{}
	}
	return p
}

func removed(pod *corev1.Pod, err error) (heal, error) {
	if apierrors.IsNotFound(err) {
		return notInEffect, nil
	}
	if err != nil {
		return nil, err
	}
	return func(context.Context) (string, error) {
		return fmt.Sprintf("%s of UID %s was removed", pod.Name, pod.UID), nil
	}, nil
}

// hold is the finalizer of another controller.
const hold = "robustness.example.org/hold"

// finalizer keeps a pod from being gone, once it is deleted.
func finalizer(ctx context.Context, m *Machine, t target) (heal, error) {
	pod, err := m.read(ctx, t.name)
	if err != nil || pod.DeletionTimestamp != nil {
		return notInEffect, client.IgnoreNotFound(err)
	}
	before := client.MergeFrom(pod.DeepCopy())
	pod.Finalizers = append(pod.Finalizers, hold)
	if err := m.Kube.Patch(ctx, pod, before); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (string, error) {
		evidence := "" // it was not deleted
		err := poll(ctx, "the finalizer is gone", func() (bool, error) {
			now, err := m.read(ctx, t.name)
			if err != nil || now.UID != pod.UID {
				return apierrors.IsNotFound(err) || err == nil, err
			}
			if now.DeletionTimestamp != nil {
				evidence = fmt.Sprintf("%s has been kept since %s", pod.Name, now.DeletionTimestamp.Format(time.TimeOnly))
			}
			before := client.MergeFrom(now.DeepCopy())
			now.Finalizers = slices.DeleteFunc(now.Finalizers, func(f string) bool { return f == hold })
			err = m.Kube.Patch(ctx, now, before)
			return err == nil, err
		})
		return evidence, err
	}, nil
}

// taint is a taint of another controller.
func taint(n *corev1.Node, on bool) {
	isOurs := func(t corev1.Taint) bool { return t.Key == hold }
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, isOurs)
	if on {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: hold, Effect: corev1.TaintEffectNoSchedule})
	}
}

// changeNode changes the node, and undoes that.
func changeNode(change func(n *corev1.Node, on bool)) func(context.Context, *Machine, target) (heal, error) {
	return func(ctx context.Context, m *Machine, _ target) (heal, error) {
		set := func(ctx context.Context, on bool) error {
			nodes := &corev1.NodeList{}
			if err := m.Kube.List(ctx, nodes); err != nil {
				return err
			}
			for _, n := range nodes.Items {
				before := client.MergeFrom(n.DeepCopy())
				change(&n, on)
				if err := m.Kube.Patch(ctx, &n, before); err != nil {
					return err
				}
			}
			return nil
		}
		if err := set(ctx, true); err != nil {
			return nil, err
		}
		return func(ctx context.Context) (string, error) {
			evidence := m.unscheduled(ctx)
			return evidence, poll(ctx, "the node is as it was", func() (bool, error) {
				err := set(ctx, false)
				return err == nil, err
			})
		}, nil
	}
}

// unscheduled names the pods that no node takes, if the API server can be asked.
func (m *Machine) unscheduled(ctx context.Context) string {
	pods := &corev1.PodList{}
	if m.Kube.List(ctx, pods, client.InNamespace(m.Namespace)) != nil {
		return ""
	}
	var waiting []string
	for _, pod := range pods.Items {
		if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
		}) {
			waiting = append(waiting, pod.Name)
		}
	}
	if len(waiting) == 0 {
		return ""
	}
	return fmt.Sprintf("no node took %v", waiting)
}
