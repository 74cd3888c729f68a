// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types in this package.
var GroupVersion = schema.GroupVersion{Group: "druid.gardener.cloud", Version: "v1alpha1"}

// Kinds of this package.
const (
	KindEtcd                = "Etcd"
	KindEtcdOperatorTask    = "EtcdOperatorTask"
	KindEtcdCopyBackupsTask = "EtcdCopyBackupsTask"
	KindEtcdOpsTask         = "EtcdOpsTask"
	KindEtcdFleetPolicy     = "EtcdFleetPolicy"
)

// AddToScheme registers the types of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Etcd{}, &EtcdList{}, &EtcdOperatorTask{}, &EtcdOperatorTaskList{},
		&EtcdCopyBackupsTask{}, &EtcdCopyBackupsTaskList{}, &EtcdOpsTask{}, &EtcdOpsTaskList{}, &EtcdFleetPolicy{}, &EtcdFleetPolicyList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
