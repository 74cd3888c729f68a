// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package admission is the webhook by which an operator in executor mode takes over the rollouts of etcd-druid: it changes
// RollingUpdate into OnDelete in the requests of etcd-druid, and marks the StatefulSet in the same request. It denies nothing:
// whatever fails, the request of etcd-druid goes through as it is, and the StatefulSet controller rolls the pods as ever.
// config/executor/policy has the same rules as a policy; a test holds one against the other.
package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Path of the webhook.
const Path = "/mutate-statefulsets"

const (
	// switchTimeout bounds the read of the off switch. It is below the timeout of the webhook.
	switchTimeout = 2 * time.Second
	// trustSwitch is for how long the answer is used: any client that reaches the webhook can ask.
	trustSwitch = time.Second
)

// Handler answers admission requests for StatefulSets.
type Handler struct {
	// Live reads from the API server.
	Live client.Reader
	// Namespace has the ConfigMap without which nothing is changed.
	Namespace string
	Clock     clock.PassiveClock

	// mu is held while the switch is read, so that requests that arrive at the same time share the answer.
	mu   sync.Mutex
	read time.Time
	on   bool
	err  error
}

var _ admission.Handler = (*Handler)(nil)

// Handle implements admission.Handler. A panic and any error are an answer that allows the request: a response with an error
// would be a denial, which failurePolicy Ignore does not ignore.
func (h *Handler) Handle(ctx context.Context, request admission.Request) (response admission.Response) {
	logger := log.FromContext(ctx).WithValues("statefulSet", request.Namespace+"/"+request.Name)
	unchanged := func(why string, err error) admission.Response {
		logger.Error(err, "StatefulSet is not changed to OnDelete: its own controller replaces pods", "reason", why)
		return admission.Allowed(why).WithWarnings(fmt.Sprintf("etcd-foreman did not change the update strategy: %s: %v", why, err))
	}
	defer func() {
		if r := recover(); r != nil {
			response = unchanged("a panic", fmt.Errorf("%v", r))
		}
	}()
	set, before, err := decode(request.AdmissionRequest)
	if err != nil {
		return unchanged("the request cannot be read", err)
	}
	if !Applies(set, before) {
		return admission.Allowed("")
	}
	on, err := h.switchedOn(ctx)
	if err != nil {
		return unchanged("the switch cannot be read", err)
	}
	if !on {
		return admission.Allowed("switched off")
	}
	patch, err := json.Marshal(changes(set))
	if err != nil {
		return unchanged("the patch cannot be written", err)
	}
	logger.Info("Changing a StatefulSet to OnDelete", "user", request.UserInfo.Username)
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: true, Patch: patch, PatchType: ptr.To(admissionv1.PatchTypeJSONPatch)}}
}

// switchedOn returns the off switch, as it was at most trustSwitch ago.
func (h *Handler) switchedOn(ctx context.Context) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if since := h.Clock.Since(h.read); h.read.IsZero() || since < 0 || since >= trustSwitch {
		// The caller may go away, and the answer is for all.
		h.on, h.err = h.readSwitch(context.WithoutCancel(ctx))
		h.read = h.Clock.Now()
	}
	return h.on, h.err
}

// readSwitch reads the off switch.
func (h *Handler) readSwitch(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, switchTimeout)
	defer cancel()
	found, err := lookup.Get[corev1.ConfigMap](ctx, h.Live, "ConfigMap", client.ObjectKey{Namespace: h.Namespace, Name: v1alpha1.RolloutsConfigMap})
	return found != nil, err
}

// decode reads the StatefulSet of a request, and what it was before; nil when it is created.
func decode(request admissionv1.AdmissionRequest) (set, before *appsv1.StatefulSet, err error) {
	set = &appsv1.StatefulSet{}
	if err := json.Unmarshal(request.Object.Raw, set); err != nil {
		return nil, nil, fmt.Errorf("decoding the StatefulSet: %w", err)
	}
	if len(request.OldObject.Raw) == 0 {
		return set, nil, nil
	}
	before = &appsv1.StatefulSet{}
	if err := json.Unmarshal(request.OldObject.Raw, before); err != nil {
		return nil, nil, fmt.Errorf("decoding the StatefulSet as it was: %w", err)
	}
	return set, before, nil
}

// Applies reports whether a StatefulSet is to be changed: etcd-druid manages it, an Etcd controls it, it asks for RollingUpdate,
// and it has or had several members. A single one is left to its own controller: without it there is no quorum either way.
func Applies(set, before *appsv1.StatefulSet) bool {
	owner := metav1.GetControllerOf(set)
	return set.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedByDruid &&
		set.Labels[v1alpha1.LabelComponent] == v1alpha1.ComponentStatefulSet &&
		owner != nil && owner.Kind == v1alpha1.KindEtcd && owner.APIVersion == v1alpha1.GroupVersion.String() &&
		set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType &&
		(ptr.Deref(set.Spec.Replicas, 1) > 1 || before != nil && ptr.Deref(before.Spec.Replicas, 1) > 1)
}

// operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

func changes(set *appsv1.StatefulSet) []operation {
	strategy := operation{"replace", "/spec/updateStrategy", map[string]string{"type": string(appsv1.OnDeleteStatefulSetStrategyType)}}
	if set.Annotations == nil {
		return []operation{strategy, {"add", "/metadata/annotations", map[string]string{v1alpha1.AnnotationRolloutBy: v1alpha1.ManagedBy}}}
	}
	escaped := strings.NewReplacer("~", "~0", "/", "~1").Replace(v1alpha1.AnnotationRolloutBy)
	return []operation{strategy, {"add", "/metadata/annotations/" + escaped, v1alpha1.ManagedBy}}
}
