// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package druid

import (
	"errors"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

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
