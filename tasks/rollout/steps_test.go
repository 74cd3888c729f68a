// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// line is what connects to members by endpoint, and counts the connections that are open.
type line struct {
	unreachable string
	refuses     error
	open        int
	moved       []string
}

func (l *line) Dial(endpoint string, _ *tls.Config) (etcdclient.Client, error) {
	if endpoint == l.unreachable {
		return nil, errors.New("no route to host")
	}
	l.open++
	return connection{line: l, endpoint: endpoint}, nil
}

type connection struct {
	etcdclient.Client
	line     *line
	endpoint string
}

func (c connection) MoveLeader(_ context.Context, to uint64) error {
	c.line.moved = append(c.line.moved, fmt.Sprintf("%s to %d", c.endpoint, to))
	return c.line.refuses
}

func (c connection) Status(ctx context.Context) (etcdclient.Status, error) {
	<-ctx.Done()
	return etcdclient.Status{}, ctx.Err()
}

func (c connection) Close() error {
	c.line.open--
	return nil
}

// The leader is asked to hand leadership to the successor, connections end with the attempt, and an error names both.
func TestMoveLeader(t *testing.T) {
	for name, c := range map[string]struct {
		line line
		want string
	}{
		"it moves":                     {line{}, ""},
		"the leader is unreachable":    {line{unreachable: "m-0"}, "connecting to the leader m-0: no route"},
		"the successor is unreachable": {line{unreachable: "m-2"}, "connecting to the successor m-2: no route"},
		"the leader refuses":           {line{refuses: errors.New("not the leader")}, "moving leadership from m-0 to m-2: not the leader"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, nil, nil)
			r.handler.Dialer = &c.line
			in := rollout.Input{Snapshot: observed(noon), Config: rollout.DefaultConfig()}
			for i := range in.Snapshot.Ordinals {
				in.Snapshot.Ordinals[i].Pod.Endpoint = in.Snapshot.Ordinals[i].Name
			}
			err := r.handler.Perform(t.Context(), r.task.Task, stepOf(in, rollout.Step{Action: rollout.MoveLeader, Ordinals: []int{0}, Successor: 2}))
			r.Expect(c.line.open).To(BeZero())
			if c.want == "" {
				r.Expect(err).NotTo(HaveOccurred())
				r.Expect(c.line.moved).To(Equal([]string{"m-0 to 3"}))
				return
			}
			r.Expect(err).To(MatchError(ContainSubstring(c.want)))
			r.Expect(coded.Of(err, "")).To(Equal(v1alpha1.ErrMoveLeader))
		})
	}
}

func stepOf(in rollout.Input, step rollout.Step) tasks.Step {
	return *verdict(in, rollout.Decision{Conclusion: rollout.Act, Step: &step}, noon).Step
}

// What fails comes back with its code, so that the status says it.
func TestFailuresOfSteps(t *testing.T) {
	broken := interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errNoAnswer
		},
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errNoAnswer
		},
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			return errNoAnswer
		},
		SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceCreateOption) error {
			return errNoAnswer
		},
	}
	for action, want := range map[rollout.Action]v1alpha1.ErrorCode{
		rollout.TakeSnapshot: v1alpha1.ErrSnapshot, rollout.DeletePod: v1alpha1.ErrDeletePod, rollout.EvictPod: v1alpha1.ErrEvictPod,
		rollout.RevokeDeletion: v1alpha1.ErrRevokeDeletion, rollout.UpdateContainer: v1alpha1.ErrUpdatePod, "Nothing": "",
	} {
		r := newTrial(t, nil, nil)
		r.handler.Client = fake.NewClientBuilder().WithInterceptorFuncs(broken).Build()
		r.handler.Agent = func(context.Context, *v1alpha1.Etcd) (api.Client, error) { return api.Client{}, errNoAnswer }
		step := rollout.Step{Action: action, Ordinals: []int{1}}
		if action == rollout.UpdateContainer {
			step.Write = &inplace.Write{Kind: inplace.UpdateContainer, Patch: map[string]any{}}
		}
		err := r.handler.Perform(t.Context(), r.task.Task, stepOf(rollout.Input{Snapshot: observed(noon), Config: rollout.DefaultConfig()}, step))
		r.Expect(err).To(HaveOccurred(), string(action))
		r.Expect(coded.Of(err, "")).To(Equal(want), string(action))
	}
	// Without the StatefulSet, who replaces pods is not known: none is removed.
	r := newTrial(t, nil, nil)
	r.handler.Live = fake.NewClientBuilder().WithInterceptorFuncs(broken).Build()
	err := r.handler.Perform(t.Context(), r.task.Task, stepOf(rollout.Input{Snapshot: observed(noon), Config: rollout.DefaultConfig()}, rollout.Step{Action: rollout.DeletePod, Ordinals: []int{1}}))
	r.Expect(coded.Of(err, "")).To(Equal(v1alpha1.ErrObserve))
	r.Expect(r.deleted).To(BeEmpty())
	// A pod that cannot be read may be the one whose removal was recorded.
	r.task.Object.Status.Rollout.Pods = []v1alpha1.RolloutPod{{Name: "m-1", LastOperation: v1alpha1.LastOperation{State: v1alpha1.OperationStateInProgress}}}
	r.Expect(r.handler.Cleanup(t.Context(), r.task.Task)).To(MatchError(ContainSubstring("reading pod ns/m-1: no answer")))
}

// The deadline of a step counts from its oldest observation.
func TestEarlier(t *testing.T) {
	g := NewWithT(t)
	g.Expect(earlier(noon, noon.Add(time.Second))).To(Equal(noon))
	g.Expect(earlier(noon.Add(time.Second), noon)).To(Equal(noon))
}

// A refusal of one pod does not make the refusals of others forgotten, and what was returned before stays as it was.
func TestRefusalsAreKeptByPod(t *testing.T) {
	g := NewWithT(t)
	k := tracker{}
	k.refuse("task", "a", rollout.RefusedWrite{Message: "first"})
	before := k.refusals("task")
	k.refuse("task", "b", rollout.RefusedWrite{Message: "second"})
	k.refuse("task", "a", rollout.RefusedWrite{Message: "third"})
	g.Expect(before).To(Equal(map[types.UID]rollout.RefusedWrite{"a": {Message: "first"}}))
	g.Expect(k.refusals("task")).To(Equal(map[types.UID]rollout.RefusedWrite{"a": {Message: "third"}, "b": {Message: "second"}}))
}

// Timers are those of all observations of a task.
func TestTimersAreKeptForATask(t *testing.T) {
	g := NewWithT(t)
	k := tracker{}
	leaderless := func(at time.Time) *cluster.Snapshot {
		return observed(at, func(s *cluster.Snapshot) { s.Cluster.LeaderKnown, s.Cluster.Leader = false, 0 })
	}
	g.Expect(k.observe("task", leaderless(noon)).LeaderlessSince).To(Equal(noon))
	g.Expect(k.observe("task", leaderless(noon.Add(time.Second))).LeaderlessSince).To(Equal(noon))
	g.Expect(k.observe("other", leaderless(noon.Add(time.Second))).LeaderlessSince).To(Equal(noon.Add(time.Second)))
}

// A write that the API server refuses is recorded: with a quota for a while, otherwise for this revision.
func TestRefusedWriteIsRecorded(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, c := range map[string]struct {
		answer error
		dryRun bool
		until  time.Time
	}{
		"a policy":              {apierrors.NewForbidden(pods, "m-1", errors.New("no")), false, time.Time{}},
		"a quota":               {apierrors.NewForbidden(pods, "m-1", errors.New("exceeded quota: q")), false, noon.Add(quotaRetry)},
		"a quota, of a dry run": {apierrors.NewForbidden(pods, "m-1", errors.New("exceeded quota: q")), true, noon.Add(quotaRetry)},
	} {
		r := newTrial(t, nil, nil)
		sent := 0
		r.handler.Client = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(_ context.Context, _ client.Client, _ string, _ client.Object, _ client.Patch, options ...client.SubResourcePatchOption) error {
				sent++
				if dry := len((&client.SubResourcePatchOptions{}).ApplyOptions(options).DryRun) > 0; dry != c.dryRun {
					return nil
				}
				return c.answer
			},
		}).Build()
		step := rollout.Step{Action: rollout.Action(inplace.ResizePod), Ordinals: []int{1}, Write: &inplace.Write{Kind: inplace.ResizePod, Patch: map[string]any{}}}
		err := r.handler.Perform(t.Context(), r.task.Task, stepOf(rollout.Input{Snapshot: observed(noon), Config: rollout.DefaultConfig()}, step))
		r.Expect(err).To(MatchError(ContainSubstring("updating pod ns/m-1 in place")), name)
		r.Expect(sent).To(Equal(map[bool]int{true: 1, false: 2}[c.dryRun]), name)
		r.Expect(r.handler.tracker.unfitFor("", "m-1", "new").until).To(Equal(c.until), name)
		r.Expect(r.handler.tracker.refusals("")["m-1"]).To(Equal(rollout.RefusedWrite{At: noon, Update: true, Message: c.answer.Error()}), name)
	}
}

// A resize whose dry run shows another change is not carried out.
func TestAResizeThatWouldChangeMoreIsNotCarriedOut(t *testing.T) {
	r := newTrial(t, nil, nil)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "m-1", UID: "m-1", Labels: map[string]string{appsv1.StatefulSetRevisionLabel: "old"}}, Spec: requesting("1", "1Gi").Spec}
	for i := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: pod.Spec.Containers[i].Name, Resources: &pod.Spec.Containers[i].Resources})
	}
	templates := map[string]*inplace.Template{}
	for name, template := range map[string]corev1.PodTemplateSpec{"old": requesting("1", "1Gi"), "new": requesting("2", "1Gi")} {
		parsed, err := inplace.ParseTemplate(revisionData(t, template))
		r.Expect(err).NotTo(HaveOccurred())
		templates[name] = parsed
	}
	assessed := inplace.Assess(inplace.Input{Pod: pod, TargetName: "new", Templates: templates})
	r.Expect(assessed.Writes).To(HaveLen(3), assessed.Replace)
	resize := assessed.Writes[1]
	r.Expect(resize.Kind).To(Equal(inplace.ResizePod))
	for memory, want := range map[string]int{"1Gi": 2, "2Gi": 1} {
		sent := 0
		r.handler.Client = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(_ context.Context, _ client.Client, _ string, pod client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
				sent++
				pod.(*corev1.Pod).Spec = requesting("2", memory).Spec
				pod.SetResourceVersion("2")
				return nil
			},
		}).Build()
		step := rollout.Step{Action: rollout.Action(inplace.ResizePod), Ordinals: []int{1}, Write: &resize}
		err := r.handler.Perform(t.Context(), r.task.Task, stepOf(rollout.Input{Snapshot: observed(noon), Config: rollout.DefaultConfig()}, step))
		r.Expect(sent).To(Equal(want), memory)
		if want == 1 {
			r.Expect(err).To(MatchError(ContainSubstring("would also change")))
		} else {
			r.Expect(err).NotTo(HaveOccurred())
		}
	}
}

func requesting(cpu, memory string) corev1.PodTemplateSpec {
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: v1alpha1.ContainerEtcd, Image: "etcd", Resources: corev1.ResourceRequirements{Requests: requests}}}}}
}

func templateOf(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: v1alpha1.ContainerEtcd, Image: image}}}}
}

func revisionData(t *testing.T, template corev1.PodTemplateSpec) []byte {
	t.Helper()
	raw, err := json.Marshal(template)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return fmt.Appendf(nil, `{"spec":{"template":%s}}`, raw)
}

// listing is a witness that reads the pods, as a live observation does.
type listing struct{ *witness }

func (l listing) Confirm(ctx context.Context, live client.Reader, etcd *v1alpha1.Etcd, s *cluster.Snapshot) (*cluster.Snapshot, error) {
	if err := live.List(ctx, &corev1.PodList{}); err != nil {
		return nil, err
	}
	return l.witness.Confirm(ctx, live, etcd, s)
}

// An update that the API server refused is not tried again: the pod is replaced, or waits for its quota.
func TestARefusedUpdateIsNotRepeated(t *testing.T) {
	controlled := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "m", UID: "set", Controller: ptr.To(true)}}
	var objects []client.Object
	for _, name := range []string{"old", "new"} {
		objects = append(objects, &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, OwnerReferences: controlled}, Data: runtime.RawExtension{Raw: revisionData(t, templateOf("etcd:"+name))}})
	}
	for i := range 3 {
		name := fmt.Sprintf("m-%d", i)
		objects = append(objects, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: "1", Labels: map[string]string{appsv1.StatefulSetRevisionLabel: "old"}, OwnerReferences: controlled},
			Spec:       templateOf("etcd:old").Spec,
		})
	}
	owned := func(s *cluster.Snapshot) { s.StatefulSet.UID = "set" }
	for name, c := range map[string]struct {
		refused *unfit
		failure error
		want    string // the operation; "" for none
		says    string
	}{
		"not refused":            {nil, nil, string(inplace.PatchMetadata), ""},
		"refused":                {&unfit{target: "new", message: "policy"}, nil, string(rollout.DeletePod), ""},
		"refused for another":    {&unfit{target: "newer", message: "policy"}, nil, string(inplace.PatchMetadata), ""},
		"a quota, just now":      {&unfit{target: "new", message: "exceeded quota", until: noon.Add(time.Second)}, nil, "", "exceeded quota"},
		"a quota, a while ago":   {&unfit{target: "new", message: "exceeded quota", until: noon}, nil, string(inplace.PatchMetadata), ""},
		"revisions are not read": {nil, errNoAnswer, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, observed(noon, owned), observed(noon, owned))
			r.handler.PodUpdatePolicy, r.handler.Observer = v1alpha1.InPlaceIfPossible, listing{r.witness}
			r.handler.Live = fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, a client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
					if c.failure != nil {
						return c.failure
					}
					if etcd, ok := o.(*v1alpha1.Etcd); ok {
						r.task.Etcd.DeepCopyInto(etcd)
						return nil
					}
					return a.Get(ctx, key, o, options...)
				},
			}).Build()
			if c.refused != nil {
				for i := range 3 {
					r.handler.tracker.refuseUpdate("", types.UID(fmt.Sprintf("m-%d", i)), *c.refused)
				}
			}
			v, err := r.handler.Execute(t.Context(), r.task)
			if c.failure != nil {
				r.Expect(err).To(MatchError(ContainSubstring("assessing pods: ")))
				r.Expect(coded.Of(err, "")).To(Equal(v1alpha1.ErrObserve))
				return
			}
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(v.Message).To(ContainSubstring(c.says))
			got := ""
			if v.Step != nil {
				got = v.Step.Operation
			}
			r.Expect(got).To(Equal(c.want), v.Message)
		})
	}
}

// The message of a task that ends says of which StatefulSet and revision.
func TestVerdictOfTheEnd(t *testing.T) {
	g := NewWithT(t)
	in := rollout.Input{Snapshot: observed(noon, updated(0, 1, 2)), Config: rollout.DefaultConfig(), Recorded: v1alpha1.RolloutStatus{TargetRevision: "new"}}
	g.Expect(verdict(in, rollout.Decision{Conclusion: rollout.Finished}, noon).Message).To(Equal("every pod of StatefulSet m is at revision new, and every member participates"))
	in.Recorded.TargetRevision = "old"
	g.Expect(verdict(in, rollout.Decision{Conclusion: rollout.Superseded}, noon).Message).To(Equal(rollout.SupersededMessage("m", "old", "new")))
}
