// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// A write has UID and resourceVersion as preconditions, goes to the right resource, and not at all if the operator was paused,
// or no longer replaces the pods.
func TestWriteToAPod(t *testing.T) {
	write := func(kind inplace.Kind) *inplace.Write {
		return &inplace.Write{Kind: kind, Patch: map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}}}
	}
	for name, c := range map[string]struct {
		kind   inplace.Kind
		paused time.Duration
		// reverted: admission changes it back, so the pod stays as it was.
		reverted bool
		rule     replacer.Rule
		want     string
	}{
		"metadata":                {kind: inplace.PatchMetadata, want: "pod"},
		"an image":                {kind: inplace.UpdateContainer, want: "pod"},
		"resources":               {kind: inplace.ResizePod, want: "resize"},
		"without effect":          {kind: inplace.ResizePod, reverted: true, want: "resize"},
		"paused":                  {kind: inplace.ResizePod, paused: time.Minute},
		"another replaces pods":   {kind: inplace.PatchMetadata, rule: managedBy("another")},
		"another, and a resource": {kind: inplace.ResizePod, rule: managedBy("another")},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, observed(noon), observed(noon))
			if c.rule != nil {
				r.handler.Rule = c.rule
			}
			var sent, body string
			take := func(ctx context.Context, what string, object client.Object, patch client.Patch) error {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				object.SetResourceVersion(map[bool]string{true: "1", false: "2"}[c.reverted])
				raw, err := patch.Data(object)
				sent, body = what+" "+object.GetName(), string(raw)
				return err
			}
			r.handler.Client = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Patch: func(ctx context.Context, _ client.WithWatch, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
					return take(ctx, "pod", object, patch)
				},
				SubResourcePatch: func(ctx context.Context, _ client.Client, name string, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
					return take(ctx, name, object, patch)
				},
			}).Build()
			step := rollout.Step{Action: rollout.Action(c.kind), Ordinals: []int{1}, Write: write(c.kind)}
			v := verdict(rollout.Input{Snapshot: observed(noon), Config: rollout.DefaultConfig()}, rollout.Decision{Conclusion: rollout.Act, Step: &step}, noon)
			r.clock.SetTime(noon.Add(c.paused))
			err := r.handler.Perform(t.Context(), r.task.Task, *v.Step)
			if c.want == "" {
				r.Expect(err).To(HaveOccurred())
				r.Expect(sent).To(BeEmpty())
				return
			}
			r.Expect(err != nil).To(Equal(c.reverted))
			r.Expect(r.handler.tracker.unfitFor("", "m-1", "new").message != "").To(Equal(c.reverted))
			r.Expect(sent).To(Equal(c.want + " m-1"))
			var got map[string]any
			r.Expect(json.Unmarshal([]byte(body), &got)).To(Succeed())
			r.Expect(got["metadata"]).To(Equal(map[string]any{"uid": "m-1", "resourceVersion": "1", "labels": map[string]any{"a": "b"}}))
			r.Expect(step.Write.Patch["metadata"]).NotTo(HaveKey("uid"), "the decision is left as it is")
		})
	}
}

// Where a pod would be evicted, nothing is written before an eviction is allowed, and none is carried out.
func TestADisruptionInPlaceIsGrantedFirst(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	budget := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	budget.ErrStatus.Details.Causes = append(budget.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause})
	for name, c := range map[string]struct {
		asks    bool
		answer  error
		writes  bool
		refused rollout.RefusedWrite
	}{
		"not asked":         {answer: budget, writes: true},
		"granted":           {asks: true, writes: true},
		"refused by budget": {asks: true, answer: budget, refused: rollout.RefusedWrite{At: noon, ByBudget: true, Message: budget.Error()}},
		"the pod is gone":   {asks: true, answer: apierrors.NewNotFound(pods, "m-1")},
		"the pod differs":   {asks: true, answer: apierrors.NewConflict(pods, "m-1", errors.New("changed"))},
		"no answer":         {asks: true, answer: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, observed(noon), observed(noon))
			writes := false
			r.handler.Client = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Patch: func(_ context.Context, _ client.WithWatch, object client.Object, _ client.Patch, _ ...client.PatchOption) error {
					object.SetResourceVersion("2")
					writes = true
					return nil
				},
				SubResourceCreate: func(_ context.Context, _ client.Client, name string, pod, eviction client.Object, options ...client.SubResourceCreateOption) error {
					all := (&client.SubResourceCreateOptions{}).ApplyOptions(options)
					asked := eviction.(*policyv1.Eviction).DeleteOptions
					r.Expect(name + " " + pod.GetName()).To(Equal("eviction m-1"))
					r.Expect(all.DryRun).To(Equal([]string{metav1.DryRunAll}))
					r.Expect(asked.DryRun).To(Equal([]string{metav1.DryRunAll}))
					r.Expect(asked.Preconditions).To(HaveValue(Equal(metav1.Preconditions{UID: ptr.To(types.UID("m-1")), ResourceVersion: ptr.To("1")})))
					return c.answer
				},
			}).Build()
			step := rollout.Step{Action: rollout.UpdateContainer, Ordinals: []int{1}, AsksBudget: c.asks, Write: &inplace.Write{Kind: inplace.UpdateContainer, Disrupts: true, Patch: map[string]any{}}}
			v := verdict(rollout.Input{Snapshot: observed(noon), Config: rollout.DefaultConfig()}, rollout.Decision{Conclusion: rollout.Act, Step: &step}, noon)
			err := r.handler.Perform(t.Context(), r.task.Task, *v.Step)
			r.Expect(err == nil).To(Equal(c.writes || apierrors.IsNotFound(c.answer)), "%v", err)
			r.Expect(writes).To(Equal(c.writes))
			r.Expect(r.handler.tracker.refusals("")["m-1"]).To(Equal(c.refused))
			r.Expect(r.handler.tracker.unfitFor("", "m-1", "new")).To(BeZero(), "a new pod would be refused as well")
		})
	}
}

func TestWhatIsARefusalOfAWrite(t *testing.T) {
	g := NewWithT(t)
	pods := schema.GroupResource{Resource: "pods"}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"admission":        {apierrors.NewForbidden(pods, "m-0", errors.New("no")), true},
		"validation":       {apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "m-0", nil), true},
		"no subresource":   {apierrors.NewGenericServerResponse(404, "patch", pods, "m-0", "", 0, true), true},
		"not supported":    {apierrors.NewMethodNotSupported(pods, "patch"), true},
		"a conflict":       {apierrors.NewConflict(pods, "m-0", errors.New("changed")), false},
		"too many":         {apierrors.NewTooManyRequests("later", 1), false},
		"not authentic":    {apierrors.NewUnauthorized("expired"), false},
		"internal":         {apierrors.NewInternalError(errors.New("etcd")), false},
		"a timeout":        {apierrors.NewTimeoutError("slow", 1), false},
		"no answer":        {context.DeadlineExceeded, false},
		"no server at all": {errors.New("connection refused"), false},
	} {
		g.Expect(isRefusal(c.err)).To(Equal(c.want), name)
	}
}

// A refusal is for one revision, and a later template has another chance.
func TestRefusalIsForOneRevision(t *testing.T) {
	g := NewWithT(t)
	k := tracker{}
	k.refuseUpdate("task", "pod", unfit{target: "a", message: "no"})
	g.Expect(k.unfitFor("task", "pod", "a").message).To(Equal("no"))
	g.Expect(k.unfitFor("task", "pod", "b")).To(BeZero())
	g.Expect(k.unfitFor("task", "other", "a")).To(BeZero())
	g.Expect(k.unfitFor("other", "pod", "a")).To(BeZero())
}

// What a task has read of revisions is kept as long as it runs.
func TestRevisionsAreKeptForATask(t *testing.T) {
	g := NewWithT(t)
	k := tracker{}
	known := k.revisions("task")
	g.Expect(k.revisions("task")).To(BeIdenticalTo(known))
	g.Expect(k.revisions("other")).NotTo(BeIdenticalTo(known))
	k.forget("task")
	g.Expect(k.revisions("task")).NotTo(BeIdenticalTo(known))
}

// A restart replaces every pod, and so does a handler that always does. If no pod is outdated, nothing is read for it.
func TestWhoUpdatesInPlace(t *testing.T) {
	for name, c := range map[string]struct {
		replaces bool
		restart  bool
		snapshot []change
		want     bool
	}{
		"by the policy":          {want: true},
		"the handler does not":   {replaces: true},
		"a restart":              {restart: true},
		"all are updated":        {snapshot: []change{updated(0, 1, 2)}},
		"all but one on its way": {snapshot: []change{updated(0, 1, 2), updating(1)}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, nil, nil)
			r.handler.ReplacesAlways, r.handler.PodUpdatePolicy = c.replaces, v1alpha1.InPlaceIfPossible
			config := rollout.DefaultConfig()
			config.Restart = c.restart
			r.task.Config = config
			r.Expect(r.handler.updatesInPlace(r.task, observed(noon, c.snapshot...))).To(Equal(c.want))
		})
	}
}

// A cache that lags shows all pods as updated. The live reads show one that is not, and it is not replaced for that.
func TestAStaleCacheReplacesNoPod(t *testing.T) {
	for name, live := range map[string]change{"outdated": updated(0, 1), "on its way": func(s *cluster.Snapshot) { updated(0, 1, 2)(s); updating(2)(s) }} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, observed(noon, updated(0, 1, 2)), observed(noon, live))
			r.handler.PodUpdatePolicy = v1alpha1.InPlaceIfPossible
			v, err := r.handler.Execute(t.Context(), r.task)
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(v.Step).To(BeNil())
			r.Expect(v.Outcome).To(Equal(tasks.Continue))
			r.Expect(v.Message).To(ContainSubstring("m-2"))
		})
	}
}

// While a rollout waits, pods are not read again that have been assessed as they are. Whatever is done, or has changed, rests on live reads.
func TestWaitingRestsOnWhatWasAssessed(t *testing.T) {
	type snapshot = cluster.Snapshot
	of := func(ordinal int, change func(*cluster.Ordinal)) change {
		return func(s *snapshot) { change(&s.Ordinals[ordinal]) }
	}
	waits := func(after time.Duration, changes ...change) *snapshot {
		return observed(noon.Add(after), append([]change{updated(1), dead(1)}, changes...)...)
	}
	for name, c := range map[string]struct {
		cached *snapshot
		before func(*Handler)
		reads  int
	}{
		"as it was":                          {cached: waits(time.Second)},
		"as long as that is recent":          {cached: waits(rollout.MaxGap)},
		"for too long":                       {cached: waits(rollout.MaxGap + 1), reads: 1},
		"an outdated pod has changed":        {cached: waits(time.Second, of(2, func(o *cluster.Ordinal) { o.Pod.ResourceVersion = "2" })), reads: 1},
		"an outdated pod is another one":     {cached: waits(time.Second, of(2, func(o *cluster.Ordinal) { o.Pod.UID = "another" })), reads: 1},
		"an update in place has begun":       {cached: waits(time.Second, updating(1)), reads: 1},
		"an updated pod has changed":         {cached: waits(time.Second, of(1, func(o *cluster.Ordinal) { o.Pod.ResourceVersion = "2" }))},
		"the template is another one":        {cached: waits(time.Second, func(s *snapshot) { s.StatefulSet.UpdateRevision = "newer" }), reads: 1},
		"an update was refused":              {cached: waits(time.Second), before: func(h *Handler) { h.tracker.refuseUpdate("", "m-2", unfit{target: "new"}) }, reads: 1},
		"a refusal is part of what is known": {cached: waits(time.Second), before: func(h *Handler) { h.tracker.assess("", waits(0), nil, false) }, reads: 1},
		"a step is due":                      {cached: observed(noon.Add(time.Second)), reads: 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, c.cached, c.cached)
			r.handler.PodUpdatePolicy = v1alpha1.InPlaceIfPossible
			r.clock.SetTime(c.cached.At)
			pods := map[types.UID]inplace.Assessment{}
			for _, pod := range []types.UID{"m-0", "m-1", "m-2"} {
				pods[pod] = inplace.Assessment{ResourceVersion: "1", Replace: "it has to be new"}
			}
			delete(pods, "m-1")
			if c.cached.CountOrdinals(func(o cluster.Ordinal) bool { return o.Class == v1alpha1.ClassDead }) == 0 {
				pods["m-1"] = pods["m-0"]
			}
			r.handler.tracker.assess("", waits(0), pods, true)
			if c.before != nil {
				c.before(r.handler)
			}
			v, err := r.handler.Execute(t.Context(), r.task)
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(r.witness.confirmed).To(Equal(c.reads))
			if c.reads == 0 {
				r.Expect(v.Step).To(BeNil())
				r.Expect(v.Reason).To(Equal(v1alpha1.ReasonHeld))
			}
		})
	}
}

// A late write of another operator is revoked like a late deletion, before anything else happens.
func TestAnUpdateThatIsNoLongerNextIsRevoked(t *testing.T) {
	g := NewWithT(t)
	in := rollout.Input{Snapshot: observed(noon), Config: rollout.DefaultConfig(), Recorded: v1alpha1.RolloutStatus{TargetRevision: "new", Pods: []v1alpha1.RolloutPod{{
		Name: "m-1", UID: types.UID("m-1"), LastOperation: v1alpha1.LastOperation{Name: string(rollout.UpdateContainer), State: v1alpha1.OperationStateInProgress},
		Evidence: v1alpha1.Evidence{ObservedAt: metav1.NewMicroTime(noon.Add(-time.Minute)), ResourceVersion: "1"},
	}}}}
	d := rollout.Decide(in, noon)
	g.Expect(d.Step.Action).To(Equal(rollout.RevokeDeletion))
	g.Expect(d.Step.Ordinals).To(Equal([]int{1}))
	g.Expect(d.Step.Reason).To(ContainSubstring("its update was recorded"))
}

func TestWhatWouldRefuseANewPodAsWell(t *testing.T) {
	g := NewWithT(t)
	for text, want := range map[string]bool{
		`pods "m-0" is forbidden: exceeded quota: q, requested: requests.cpu=1`:                                                       true,
		`pods "m-0" is forbidden: failed quota: q: must specify requests.cpu for: c`:                                                  true,
		`pods "m-0" is forbidden: maximum cpu usage per Container is 1, but limit is 2`:                                               true,
		`pods "m-0" is forbidden: maximum memory usage per Pod is 1Gi.  No limit is specified`:                                        true,
		`pods "m-0" is forbidden: [maximum cpu usage per Pod is 1, but limit is 2, minimum cpu usage per Pod is 2, but request is 1]`: true,
		`pods "m-0" is forbidden: cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000`:                  true,
		`pods "m-0" is forbidden: memory max limit to request ratio per Pod is 2, but no request is specified or request is 0`:        true,
		`pods "m-0" is forbidden: unable to UPDATE pods at this time because there was an error enforcing limit ranges`:               true,
		`pods "m-0" is forbidden: status unknown for quota: q, resources: requests.cpu`:                                               true,
		`pods "m-0" is forbidden: insufficient quota to consume: requests.cpu`:                                                        true,
		`pods "m-0" is forbidden: quota usage is negative for resource(s): requests.cpu`:                                              true,
		`admission webhook "quotas.example.com" denied the request: no`:                                                               false,
		`Pod "m-0" is invalid: spec: Pod QOS Class may not change`:                                                                    false,
		`pods "m-0" is forbidden: node didn't have enough allocatable resources`:                                                      false,
	} {
		g.Expect(concernsNewPods(errors.New(text))).To(Equal(want), text)
	}
}

// While a quota does not allow an update, the pod is kept; if it does not allow to revert one, the pod is replaced as it is.
func TestWhatAQuotaDoesNotAllow(t *testing.T) {
	g := NewWithT(t)
	u, writes := unfit{message: "exceeded quota"}, []inplace.Write{{Kind: inplace.ResizePod}}
	a := u.wait(inplace.Assessment{Writes: writes, GiveUp: &writes[0]})
	g.Expect(a.Pending).To(ContainSubstring("exceeded quota"))
	g.Expect(a.GiveUp).To(BeNil())
	g.Expect(a.Writes).To(HaveLen(1))
	g.Expect(u.wait(inplace.Assessment{Replace: "infeasible", Writes: writes})).To(Equal(inplace.Assessment{Replace: "infeasible"}))
}
