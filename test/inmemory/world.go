// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package inmemory

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient/etcdfake"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Namespace and Name are those of the Etcd.
const (
	Namespace = "ns"
	Name      = "main"
)

// World is a cluster in memory.
type World struct {
	*server
	Members *etcdfake.Cluster
	// Down are the pods that do not become ready, and Crashing those whose containers do not run.
	Down, Crashing map[string]bool
	// Result is what the agent reports in a Job.
	Result func(*batchv1.Job) string
	// Claims: the StatefulSet controller makes claims, as it does for each pod; without it, the StatefulSet has none.
	Claims bool
	// Reporting is the image of the agent that reports what it reads; empty if every one does.
	Reporting string
	// Broken is a StorageClass whose claims get no volume, so that their pods do not start.
	Broken string
	// ready are the pods whose members serve, and ids are those that the members of pods had last.
	ready map[string]bool
	ids   map[string]uint64
}

// New returns a world with an Etcd of n members, whose objects nobody has made yet. It takes the time from a function.
func New(etcd *v1alpha1.Etcd, now func() time.Time) (*World, error) {
	scheme, err := NewScheme()
	if err != nil {
		return nil, err
	}
	s, err := newServer(scheme, now)
	if err != nil {
		return nil, err
	}
	w := &World{server: s, Down: map[string]bool{}, Crashing: map[string]bool{}, ready: map[string]bool{}, ids: map[string]uint64{}, Result: func(*batchv1.Job) string { return "{}" }}
	w.Members = &etcdfake.Cluster{Up: func(i int) bool { return w.ready[w.Members.Names[i]] }, Listed: int(etcd.Spec.Replicas)}
	for i := range maxMembers {
		w.Members.Names = append(w.Members.Names, PodName(i))
		w.Members.Endpoints = append(w.Members.Endpoints, fmt.Sprintf("http://%s:2379", podIP(i)))
	}
	for _, name := range Nodes {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := s.Create(context.Background(), node); err != nil {
			return nil, err
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if err := s.Status().Update(context.Background(), node); err != nil {
			return nil, err
		}
	}
	if b := etcd.Spec.Backup; b != nil && b.Store != nil {
		store := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: b.Store.Container}}
		if err := s.Create(context.Background(), store); err != nil {
			return nil, err
		}
	}
	return w, s.Create(context.Background(), etcd)
}

// maxMembers is how many members there may be.
const maxMembers = 5

// Nodes are the names of the nodes. A pod goes to the first of them that takes pods.
var Nodes = [2]string{"node", "another-node"}

// schedule binds a pod to a node, and reports whether it is on one.
func (w *World) schedule(ctx context.Context, p *corev1.Pod) (bool, error) {
	if p.Spec.NodeName != "" {
		return true, nil
	}
	for _, name := range Nodes {
		node := &corev1.Node{}
		if err := w.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return false, err
		}
		if !node.Spec.Unschedulable {
			p.Spec.NodeName = name
			return true, nil
		}
	}
	return false, nil
}

// Cordon has a node take no new pods, or take them again.
func (w *World) Cordon(ctx context.Context, name string, cordoned bool) error {
	node := &corev1.Node{}
	if err := w.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return err
	}
	node.Spec.Unschedulable = cordoned
	return w.Update(ctx, node)
}

// PodName returns the name of a member's pod.
func PodName(i int) string { return fmt.Sprintf("%s-%d", Name, i) }

// Ready reports whether the member of a pod serves.
func (w *World) Ready(pod string) bool { return w.ready[pod] }

// Removed counts, by name, the pods that were removed.
func (w *World) Removed() map[string]int { return w.removed }

// Serving counts the members that serve.
func (w *World) Serving() (n int) {
	for _, name := range w.Members.Names {
		if w.ready[name] {
			n++
		}
	}
	return n
}

func podIP(i int) string { return fmt.Sprintf("192.0.2.%d", i+1) }

// Step has the controllers and the kubelet do the next thing, and reports whether there was something to do.
func (w *World) Step(ctx context.Context) (changed bool, err error) {
	before := w.writes
	w.Server.Collect()
	for _, part := range []func(context.Context) error{w.protect, w.statefulSets, w.jobs, w.kubelet, w.agents} {
		if err := part(ctx); err != nil {
			return false, err
		}
	}
	return w.writes != before, nil
}

// StatefulSet returns that of the Etcd; nil if there is none.
func (w *World) StatefulSet(ctx context.Context) (*appsv1.StatefulSet, error) {
	set := &appsv1.StatefulSet{}
	err := w.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: Name}, set)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if err != nil {
		return nil, nil
	}
	return set, nil
}

// Pods are those of the StatefulSet, by name.
func (w *World) Pods(ctx context.Context) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	if err := w.List(ctx, pods, client.InNamespace(Namespace)); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.Labels[appsv1.ControllerRevisionHashLabelKey] == "" }), nil
}

// statefulSets makes and removes pods, and writes the status of the StatefulSet.
func (w *World) statefulSets(ctx context.Context) error {
	set, err := w.StatefulSet(ctx)
	if set == nil || err != nil {
		return err
	}
	pods, err := w.Pods(ctx)
	if err != nil {
		return err
	}
	revision, replicas := Revision(set), int(ptr.Deref(set.Spec.Replicas, 1))
	status := appsv1.StatefulSetStatus{ObservedGeneration: set.Generation, UpdateRevision: revision, CurrentRevision: revision, Replicas: int32(len(pods))}
	there := map[string]bool{}
	for i := range pods {
		p := &pods[i]
		there[p.Name] = true
		if metav1.GetControllerOf(p) == nil { // it may have other owners
			p.OwnerReferences = append(p.OwnerReferences, controlledBy(set)...)
			if err := w.Update(ctx, p); err != nil {
				return err
			}
		}
		if w.ready[p.Name] {
			status.ReadyReplicas++
			status.AvailableReplicas++
		}
		if p.Labels[appsv1.ControllerRevisionHashLabelKey] == revision {
			status.UpdatedReplicas++
		}
		if n, err := strconv.Atoi(strings.TrimPrefix(p.Name, Name+"-")); err == nil && n >= replicas && p.DeletionTimestamp == nil {
			if err := w.Delete(ctx, p); err != nil {
				return err
			}
		}
	}
	for i := range replicas {
		if err := w.claim(ctx, set, i); err != nil {
			return err
		}
		if there[PodName(i)] {
			continue
		}
		pod := podOf(set, i, revision)
		if _, err := w.schedule(ctx, pod); err != nil {
			return err
		}
		if err := w.Create(ctx, pod); err != nil {
			return err
		}
	}
	if equality.Semantic.DeepEqual(set.Status, status) {
		return nil
	}
	set.Status = status
	return w.Status().Update(ctx, set)
}

func controlledBy(set *appsv1.StatefulSet) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
}

const claimProtection = "kubernetes.io/pvc-protection"

// protect removes claims that are deleted once their pods are gone.
func (w *World) protect(ctx context.Context) error {
	claims := &corev1.PersistentVolumeClaimList{}
	if err := w.List(ctx, claims, client.InNamespace(Namespace)); err != nil {
		return err
	}
	pods, err := w.Pods(ctx)
	if err != nil {
		return err
	}
	for i := range claims.Items {
		c := &claims.Items[i]
		if c.DeletionTimestamp == nil || slices.ContainsFunc(pods, func(p corev1.Pod) bool { return strings.HasSuffix(c.Name, "-"+p.Name) }) {
			continue
		}
		c.Finalizers = nil
		if err := w.Update(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// claim makes the claim of a pod, unless there is one.
func (w *World) claim(ctx context.Context, set *appsv1.StatefulSet, i int) error {
	if !w.Claims {
		return nil
	}
	for _, template := range set.Spec.VolumeClaimTemplates {
		c := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: template.Name + "-" + PodName(i), Labels: set.Spec.Selector.MatchLabels, Finalizers: []string{claimProtection}},
			Spec:       template.Spec,
		}
		err := w.Create(ctx, c)
		if apierrors.IsAlreadyExists(err) {
			continue
		}
		if err != nil {
			return err
		}
		c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: template.Spec.Resources.Requests}
		if w.Broken != "" && ptr.Deref(template.Spec.StorageClassName, "") == w.Broken {
			c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
		}
		if err := w.Status().Update(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// Revision is that of a StatefulSet's template.
func Revision(set *appsv1.StatefulSet) string {
	hash := fnv.New32a()
	// What is behind pointers counts, and not where it is.
	template, err := json.Marshal(set.Spec.Template)
	if err != nil {
		panic(err)
	}
	_, _ = hash.Write(template)
	return fmt.Sprintf("%s-%x", set.Name, hash.Sum32())
}

func podOf(set *appsv1.StatefulSet, i int, revision string) *corev1.Pod {
	labels := map[string]string{appsv1.ControllerRevisionHashLabelKey: revision}
	for k, v := range set.Spec.Template.Labels {
		labels[k] = v
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace, Name: PodName(i), Labels: labels, Annotations: set.Spec.Template.Annotations,
			OwnerReferences: controlledBy(set),
		},
		Spec: *set.Spec.Template.Spec.DeepCopy(),
	}
}

// kubelet starts the members of pods, one step after they are made.
func (w *World) kubelet(ctx context.Context) error {
	pods, err := w.Pods(ctx)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	waits, err := w.withoutVolume(ctx)
	if err != nil {
		return err
	}
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp != nil {
			if err := w.Delete(ctx, p, client.GracePeriodSeconds(0)); err != nil {
				return err
			}
			continue
		}
		there[p.Name] = true
		n, err := strconv.Atoi(strings.TrimPrefix(p.Name, Name+"-"))
		if err != nil {
			return err
		}
		if waits(p) {
			continue
		}
		if p.Spec.NodeName == "" {
			bound, err := w.schedule(ctx, p)
			if err == nil && bound {
				err = w.Update(ctx, p)
			}
			if err != nil || !bound {
				return err
			}
		}
		listed, _, _ := w.Members.Lists(n)
		ready := listed && !w.Down[p.Name] && !w.Crashing[p.Name]
		if listed {
			w.ids[p.Name] = w.Members.ID(n)
		}
		if listed && !w.start(p, n, ready) || !listed && !w.await(p, n) {
			continue
		}
		if err := w.Status().Update(ctx, p); err != nil {
			return err
		}
		w.ready[p.Name] = ready
	}
	for name := range w.ready {
		w.ready[name] = w.ready[name] && there[name]
	}
	return nil
}

// withoutVolume returns which pods wait for the volumes of their claims.
func (w *World) withoutVolume(ctx context.Context) (func(*corev1.Pod) bool, error) {
	claims := &corev1.PersistentVolumeClaimList{}
	err := w.List(ctx, claims, client.InNamespace(Namespace))
	return func(p *corev1.Pod) bool {
		return slices.ContainsFunc(claims.Items, func(c corev1.PersistentVolumeClaim) bool {
			return c.Status.Phase == corev1.ClaimPending && strings.HasSuffix(c.Name, "-"+p.Name)
		})
	}, err
}

// start gives a pod the status of one that runs, and reports whether it had another.
func (w *World) start(p *corev1.Pod, ordinal int, ready bool) bool {
	if p.Status.Phase == corev1.PodRunning && len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].Ready == ready {
		return false
	}
	now := metav1.NewTime(w.now())
	isReady := corev1.ConditionFalse
	if ready {
		isReady = corev1.ConditionTrue
	}
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &now, PodIP: podIP(ordinal), PodIPs: []corev1.PodIP{{IP: podIP(ordinal)}},
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now},
			{Type: corev1.ContainersReady, Status: isReady, LastTransitionTime: now},
			{Type: corev1.PodReady, Status: isReady, LastTransitionTime: now},
		},
	}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	if w.Crashing[p.Name] {
		runs = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	}
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: ready, Started: ptr.To(!w.Crashing[p.Name]), State: runs,
		})
	}
	return true
}

// jobs has the agent do the work of each Job at once.
func (w *World) jobs(ctx context.Context) error {
	all := &batchv1.JobList{}
	if err := w.List(ctx, all, client.InNamespace(Namespace)); err != nil {
		return err
	}
	for i := range all.Items {
		j := &all.Items[i]
		if len(j.Status.Conditions) > 0 {
			continue
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace, Name: j.Name + "-pod", Labels: map[string]string{batchv1.ControllerUidLabel: string(j.UID), batchv1.JobNameLabel: j.Name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))},
		}}
		if err := w.Create(ctx, pod); err != nil {
			return err
		}
		pod.Status = corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{
			Name:  j.Spec.Template.Spec.Containers[0].Name,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: w.Result(j)}},
		}}}
		if err := w.Status().Update(ctx, pod); err != nil {
			return err
		}
		j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		if err := w.Status().Update(ctx, j); err != nil {
			return err
		}
	}
	return nil
}
