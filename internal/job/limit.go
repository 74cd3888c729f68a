// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"strconv"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// WorkLimit returns how much a Job that works on the database of an Etcd may write: twice the size of its volume or quota, and space for a
// delta and a log. It reserves nothing. If hostile objects in a bucket grow when they are decompressed, the pod of the Job is evicted
// before they fill the disk of the node.
func WorkLimit(etcd *v1alpha1.Etcd) resource.Quantity {
	limit := etcd.Spec.Capacity()
	limit = larger(limit, Quota(etcd))
	limit.Add(limit)
	limit.Add(resource.MustParse("2Gi"))
	return limit
}

// resources returns the resources of the agent. Those of the Spec take precedence; every limit that they leave out is set, so that
// hostile content of a bucket or a volume costs the Job, and not its node. Requests are small, and there is none of ephemeral
// storage: without it the limit would be requested, and some nodes have none to give. A recovery that waits for a node would be
// worse than a full one.
func (s Spec) resources() corev1.ResourceRequirements {
	all := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("128Mi"), corev1.ResourceEphemeralStorage: {},
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: s.memoryLimit(), corev1.ResourceEphemeralStorage: s.diskLimit()},
	}
	own := ptr.Deref(s.Resources, corev1.ResourceRequirements{})
	all.Claims = own.Claims
	for name, request := range own.Requests {
		all.Requests[name] = request
		if limit, ok := all.Limits[name]; ok {
			all.Limits[name] = larger(limit, request)
		}
	}
	for name, limit := range own.Limits {
		all.Limits[name] = limit
		if request, ok := all.Requests[name]; ok && request.Cmp(limit) > 0 {
			all.Requests[name] = limit
		}
	}
	return all
}

// memoryLimit is enough to open the database, which takes no more than a member takes for it: up to the quota, and some for what is
// decompressed and replayed; or the limit of the members. Streaming takes parts of a few MiB.
func (s Spec) memoryLimit() resource.Quantity {
	if s.Database == nil {
		return resource.MustParse("512Mi")
	}
	limit := Quota(s.Database)
	limit.Add(resource.MustParse("2Gi"))
	if r := s.Database.Spec.Etcd.Resources; r != nil {
		limit = larger(limit, r.Limits[corev1.ResourceMemory])
	}
	return limit
}

// softMemoryLimit returns nine tenths of the limit, from which on Go's garbage collector works harder, before the kernel ends the process.
func softMemoryLimit(r corev1.ResourceRequirements) corev1.EnvVar {
	return corev1.EnvVar{Name: "GOMEMLIMIT", Value: strconv.FormatInt(r.Limits.Memory().Value()/10*9, 10)}
}

// diskLimit allows for the folder that the agent works in, and some logs. The root filesystem is read-only.
func (s Spec) diskLimit() resource.Quantity {
	limit := s.WorkLimit.DeepCopy()
	limit.Add(resource.MustParse("1Gi"))
	return limit
}

// Quota returns the quota of the database of an Etcd.
func Quota(etcd *v1alpha1.Etcd) resource.Quantity {
	return ptr.Deref(etcd.Spec.Etcd.Quota, resource.MustParse("8Gi")).DeepCopy()
}

func larger(a, b resource.Quantity) resource.Quantity {
	if b.Cmp(a) > 0 {
		return b.DeepCopy()
	}
	return a.DeepCopy()
}
