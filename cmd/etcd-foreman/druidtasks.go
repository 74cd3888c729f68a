// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/druid/copybackups"
	"github.com/etcd-foreman/etcd-foreman/internal/druid/opstask"
	"github.com/etcd-foreman/etcd-foreman/internal/druid/servedcrd"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/policy"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
)

// addDruidTasks adds the controllers of the task types of etcd-druid whose definitions are the operator's own. The others belong to
// another operator, or are not installed: the log says which.
func addDruidTasks(ctx context.Context, mgr ctrl.Manager, config *configv1alpha1.OperatorConfiguration) error {
	api, err := discovery.NewDiscoveryClientForConfig(mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	list, err := api.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if err != nil {
		return fmt.Errorf("listing the types of %s: %w", v1alpha1.GroupVersion, err)
	}
	kinds := map[string]bool{}
	for _, r := range list.APIResources {
		kinds[r.Kind] = true
	}
	for _, t := range []struct {
		kind  string
		check func(context.Context, openapi.Client) error
		setup func(ctrl.Manager, int) error
	}{
		{v1alpha1.KindEtcdCopyBackupsTask, servedcrd.CheckCopyBackupsTaskStatus, (&copybackups.Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}, Image: config.Images.EtcdAgent, Rules: policy.New(config),
		}).Setup},
		{v1alpha1.KindEtcdOpsTask, servedcrd.CheckOpsTaskStatus, (&opstask.Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{},
		}).Setup},
	} {
		if !kinds[t.kind] {
			mgr.GetLogger().Info("Not serving a type that is not installed", "kind", t.kind)
			continue
		}
		if err := t.check(ctx, api.OpenAPIV3()); err != nil {
			mgr.GetLogger().Error(err, "Not serving a type whose definition is not this operator's", "kind", t.kind)
			continue
		}
		if err := t.setup(mgr, config.Controllers.Task.ConcurrentSyncs); err != nil {
			return err
		}
	}
	return nil
}
