// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"context"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/base/servertime"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// adopt adopts the objects of an Etcd, or returns why not. The StatefulSet comes last: until it is adopted, the others change
// nothing. What is interrupted is continued.
func (a Adopter) adopt(ctx context.Context, etcd *v1alpha1.Etcd) (why string, err error) {
	reads := a.Live()
	f, err := a.gather(ctx, etcd)
	if err != nil {
		return "", err
	}
	if f.etcd.Annotations[v1alpha1.AnnotationOperation] != v1alpha1.OperationAdopt {
		return "", state.ErrBehind
	}
	if f.now, err = servertime.Now(ctx, a.Client); err != nil {
		return "", err
	}
	if why := refuseAdoption(f); why != "" {
		return why, nil
	}
	objects, _, err := a.objects(ctx, f)
	if err != nil {
		return "", err
	}
	// A task that is queued does not act while this is written.
	defer a.Locker.Lock(client.ObjectKeyFromObject(etcd))()
	if err := reads.Fresh(ctx); err != nil {
		return "", err
	}
	for _, object := range objects {
		annotations := map[string]any{v1alpha1.AnnotationAdoptedBy: string(etcd.UID)}
		if object == client.Object(f.set) {
			// That of executor mode, which may have been there before, vouches for etcd-druid's writes.
			annotations[v1alpha1.AnnotationRolloutBy] = nil
			if f.set.Annotations[v1alpha1.AnnotationAdoptedBy] != string(etcd.UID) {
				annotations[v1alpha1.AnnotationAdoptedVersion] = f.newestEtcd()
			}
		}
		if err := a.annotate(ctx, object, annotations, withoutDruid(object)); err != nil {
			return "", err
		}
	}
	ctrl.LoggerFrom(ctx).Info("Adopted the objects from etcd-druid", "objects", len(objects))
	return "", a.finish(ctx, f.etcd, withoutDruid(f.etcd))
}

// adoptClaims adopts the claims that the StatefulSet controller has made since the adoption, such as when the cluster grew.
func (a Adopter) adoptClaims(ctx context.Context, s *state.State, phase phase) error {
	if s.StatefulSet == nil || phase == notAdopted || phase == contested {
		return nil
	}
	for i := range s.Claims {
		claim := &s.Claims[i]
		if ownership.OfClaim(s.Etcd, claim) == nil || !madeSince(s.StatefulSet, claim) {
			continue
		}
		if err := a.annotate(ctx, claim, map[string]any{v1alpha1.AnnotationAdoptedBy: string(s.Etcd.UID)}, map[string]any{}); err != nil {
			return err
		}
		ctrl.LoggerFrom(ctx).Info("Adopted a claim of the adopted StatefulSet", "claim", claim.Name)
	}
	return nil
}

// withoutDruid is a patch that removes the finalizer of etcd-druid.
func withoutDruid(object client.Object) map[string]any {
	if !ownership.DruidIsBack(object) {
		return map[string]any{}
	}
	kept := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(f string) bool { return f == v1alpha1.FinalizerDruid })
	return map[string]any{"metadata": map[string]any{"finalizers": kept}}
}
