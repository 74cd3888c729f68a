// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package inplace decides how a pod of a StatefulSet can follow a new pod template without being replaced (ADR 30). It is pure.
//
// The difference between the ControllerRevision of the pod and the target decides, field by field, by an allow-list: resources
// of containers, images of known containers, labels and annotations. Whatever is not on the list takes a new pod, and so does a
// field whose live value is neither that of the pod's revision nor one that an earlier write of ours has set: something else
// wrote it.
//
// Before its first write to a spec, a pod gets a Mark. The last write removes it and sets the pod's revision.
package inplace
