// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"context"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	appsv1 "k8s.io/api/apps/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// handBack hands the objects of an Etcd back, or returns why not. The StatefulSet comes last: what is interrupted is continued.
func (a Adopter) handBack(ctx context.Context, etcd *v1alpha1.Etcd) (why string, err error) {
	reads := a.Live()
	f, err := a.gather(ctx, etcd)
	if err != nil {
		return "", err
	}
	if f.etcd.Annotations[v1alpha1.AnnotationOperation] != v1alpha1.OperationHandBack {
		return "", state.ErrBehind
	}
	if f.set != nil && f.set.Annotations[v1alpha1.AnnotationAdoptedBy] == "" && ownership.Adoptable(etcd, f.set) {
		// It was handed back.
		return "", a.finish(ctx, f.etcd, map[string]any{})
	}
	if f.set == nil || ownership.Manager(etcd, f.set) == "" {
		return "the Etcd was not adopted from etcd-druid: remove the annotation " + v1alpha1.AnnotationOperation, nil
	}
	defer a.Locker.Lock(client.ObjectKeyFromObject(etcd))()
	tasks, err := etcdtasks.List(ctx, a.API, etcd)
	if err != nil {
		return "", err
	}
	if why := refuseReturn(f, tasks); why != "" {
		return why, nil
	}
	objects, _, err := a.objects(ctx, f)
	if err != nil {
		return "", err
	}
	if err := reads.Fresh(ctx); err != nil {
		return "", err
	}
	for _, object := range objects {
		more := map[string]any{}
		if object == client.Object(f.set) {
			// As etcd-druid writes it, and without what it does not know: no pod is outdated, so none is replaced.
			more["spec"] = map[string]any{
				"updateStrategy":                       map[string]any{"type": appsv1.RollingUpdateStatefulSetStrategyType, "rollingUpdate": map[string]any{"partition": 0}},
				"persistentVolumeClaimRetentionPolicy": map[string]any{"whenDeleted": appsv1.RetainPersistentVolumeClaimRetentionPolicyType, "whenScaled": appsv1.RetainPersistentVolumeClaimRetentionPolicyType},
			}
		}
		annotations := map[string]any{v1alpha1.AnnotationAdoptedBy: nil, v1alpha1.AnnotationAppliedChecksum: nil, v1alpha1.AnnotationAdoptedVersion: nil}
		if err := a.annotate(ctx, object, annotations, more); err != nil {
			return "", err
		}
	}
	ctrl.LoggerFrom(ctx).Info("Handed the objects back to etcd-druid", "objects", len(objects))
	return "", a.finish(ctx, f.etcd, map[string]any{})
}
