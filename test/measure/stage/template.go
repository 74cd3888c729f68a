// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// restartedAt is the annotation of the pod template that `kubectl rollout restart` writes too.
const restartedAt = "kubectl.kubernetes.io/restartedAt"

// observeTimeout is how long the controllers may take to create a revision for a new template.
const observeTimeout = 30 * time.Second

// Change is a change of a pod template.
type Change struct {
	// At is the moment before the request was sent.
	At time.Time
	// Revision that resulted.
	Revision string
}

// ChangeEtcd changes the template as a user of an Etcd does: an annotation in its spec, which takes new pods.
func (c Cluster) ChangeEtcd(ctx context.Context) (Change, error) {
	return c.PatchEtcd(ctx, fmt.Sprintf(`{"spec":{"annotations":{%q:%q}}}`, restartedAt, time.Now().UTC().Format(time.RFC3339Nano)))
}

// PatchEtcd changes the template by a merge patch of the Etcd.
func (c Cluster) PatchEtcd(ctx context.Context, patch string) (Change, error) {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}}
	return c.change(ctx, etcd, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// PatchTemplate changes the template of a StatefulSet that belongs to no Etcd, by a strategic merge patch.
func (c Cluster) PatchTemplate(ctx context.Context, patch string) (Change, error) {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}}
	return c.change(ctx, set, client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"template":`+patch+`}}`)))
}

func (c Cluster) change(ctx context.Context, object client.Object, patch client.Patch) (Change, error) {
	before, err := c.StatefulSet(ctx)
	if err != nil {
		return Change{}, err
	}
	change := Change{At: time.Now()}
	if err := c.Client.Patch(ctx, object, patch); err != nil {
		return Change{}, fmt.Errorf("changing the template of %s: %w", c.Key(), err)
	}
	err = until(ctx, observeTimeout, "a new revision of "+c.Key().String(), func(string) {}, func(ctx context.Context) (string, error) {
		set, err := c.StatefulSet(ctx)
		if err != nil || set.Status.UpdateRevision == before.Status.UpdateRevision {
			return "the StatefulSet has no new revision", err
		}
		change.Revision = set.Status.UpdateRevision
		return "", nil
	})
	return change, err
}

// RaiseResources raises the requests of etcd a little.
func (c Cluster) RaiseResources(ctx context.Context) (Change, error) {
	set, err := c.StatefulSet(ctx)
	if err != nil {
		return Change{}, err
	}
	for _, container := range set.Spec.Template.Spec.Containers {
		if container.Name != v1alpha1.ContainerEtcd {
			continue
		}
		cpu, memory := container.Resources.Requests.Cpu().DeepCopy(), container.Resources.Requests.Memory().DeepCopy()
		cpu.Add(resource.MustParse("10m"))
		memory.Add(resource.MustParse("16Mi"))
		return c.PatchEtcd(ctx, fmt.Sprintf(`{"spec":{"etcd":{"resources":{"requests":{"cpu":%q,"memory":%q}}}}}`, cpu.String(), memory.String()))
	}
	return Change{}, fmt.Errorf("raising the resources of %s: its template has no container %s", c.Key(), v1alpha1.ContainerEtcd)
}

// PodUpdatePolicy returns how the pods of an Etcd follow its template; empty if it does not say.
func (c Cluster) PodUpdatePolicy(ctx context.Context) (v1alpha1.PodUpdatePolicy, error) {
	etcd := &v1alpha1.Etcd{}
	if err := c.Client.Get(ctx, c.Key(), etcd); err != nil {
		return "", fmt.Errorf("reading Etcd %s: %w", c.Key(), err)
	}
	return etcd.Spec.PodUpdatePolicy, nil
}

// SetPodUpdatePolicy says how the pods of an Etcd follow its template; with an empty policy, it no longer says.
func (c Cluster) SetPodUpdatePolicy(ctx context.Context, policy v1alpha1.PodUpdatePolicy, note Note) error {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}}
	value := "null"
	if policy != "" {
		value = strconv.Quote(string(policy))
	}
	patch := fmt.Sprintf(`{"spec":{"podUpdatePolicy":%s}}`, value)
	if err := c.Client.Patch(ctx, etcd, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return fmt.Errorf("setting the policy of Etcd %s: %w", c.Key(), err)
	}
	return c.WaitEtcd(ctx, note)
}

// strategies are the patches that set an update strategy as the operator does.
var strategies = map[appsv1.StatefulSetUpdateStrategyType]string{
	appsv1.OnDeleteStatefulSetStrategyType:      `{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null}}}`,
	appsv1.RollingUpdateStatefulSetStrategyType: `{"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":0}}}}`,
}

// SetStrategy sets the update strategy of a StatefulSet that belongs to no Etcd.
func (c Cluster) SetStrategy(ctx context.Context, strategy appsv1.StatefulSetUpdateStrategyType) error {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}}
	if err := c.Client.Patch(ctx, set, client.RawPatch(types.MergePatchType, []byte(strategies[strategy]))); err != nil {
		return fmt.Errorf("setting the update strategy of %s: %w", c.Key(), err)
	}
	return nil
}
