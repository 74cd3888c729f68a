// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package druid

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/servedcrd"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

// CopyBackupsTasks returns the definition of EtcdCopyBackupsTasks.
func CopyBackupsTasks() servedcrd.Definition {
	return servedcrd.Definition{Kind: v1alpha1.KindEtcdCopyBackupsTask, Plural: "etcdcopybackupstasks", Component: "copybackupstask", Status: reflect.TypeFor[v1alpha1.EtcdCopyBackupsTaskStatus]()}
}

// OpsTasks returns the definition of EtcdOpsTasks.
func OpsTasks() servedcrd.Definition {
	return servedcrd.Definition{Kind: v1alpha1.KindEtcdOpsTask, Plural: "etcdopstasks", Component: "opstask", Status: reflect.TypeFor[v1alpha1.EtcdOpsTaskStatus]()}
}

// AddIfServed adds the controller of a type of etcd-druid whose served definition is the operator's own. Any other belongs to
// another operator, or is not installed: the log says which.
func AddIfServed(ctx context.Context, mgr ctrl.Manager, d servedcrd.Definition, add func(ctrl.Manager) error) error {
	api, err := discovery.NewDiscoveryClientForConfig(mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	list, err := api.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if err != nil {
		return fmt.Errorf("listing the types of %s: %w", v1alpha1.GroupVersion, err)
	}
	if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == d.Kind }) {
		mgr.GetLogger().Info("Not serving a type that is not installed", "kind", d.Kind)
		return nil
	}
	if err := d.Check(ctx, api.OpenAPIV3()); err != nil {
		mgr.GetLogger().Error(err, "Not serving a type whose definition is not this operator's", "kind", d.Kind)
		return nil
	}
	return add(mgr)
}

// errNoPolicies is why an operator in executor mode without a webhook replaces no pods.
var errNoPolicies = errors.New("this API server has no MutatingAdmissionPolicy of admissionregistration.k8s.io/v1, which Kubernetes serves from 1.36 on, " +
	"and this operator serves no webhook, so no StatefulSet of etcd-druid becomes OnDelete and its own controller replaces pods: install config/executor/webhook")

// CheckPolicies logs if the API server lacks the admission that an operator in executor mode without a webhook relies on. The
// operator starts without it: other tasks need no admission, and the administrator may have installed another.
func CheckPolicies(kubeconfig *rest.Config) {
	api, err := discovery.NewDiscoveryClientForConfig(kubeconfig)
	if err == nil {
		err = servesPolicies(api)
	}
	if err != nil {
		ctrl.Log.Error(err, "Rollouts may not be taken over from etcd-druid")
	}
}

// servesPolicies returns errNoPolicies if the API server has none, and another error if that is not known.
func servesPolicies(api discovery.ServerResourcesInterface) error {
	served, err := api.ServerResourcesForGroupVersion(admissionregistrationv1.SchemeGroupVersion.String())
	if err != nil {
		return fmt.Errorf("reading whether the API server has MutatingAdmissionPolicies: %w", err)
	}
	if !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == "mutatingadmissionpolicies" }) {
		return errNoPolicies
	}
	return nil
}
