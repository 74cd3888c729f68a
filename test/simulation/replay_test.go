// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/loop"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// recordedKinds are the kinds that are recorded, by resource.
var recordedKinds = map[string]func() client.Object{
	"pods":                   func() client.Object { return &corev1.Pod{} },
	"persistentvolumeclaims": func() client.Object { return &corev1.PersistentVolumeClaim{} },
	"statefulsets":           func() client.Object { return &appsv1.StatefulSet{} },
	"leases":                 func() client.Object { return &coordinationv1.Lease{} },
}

// modeled are the controllers of Kubernetes whose acts are compared.
var modeled = []string{"statefulset-controller", "generic-garbage-collector", "pvc-protection-controller"}

// slowest is for how long a real controller may leave undone what its model would do.
const slowest = 30 * time.Second

// replay sends a recording to the model of the API server, and holds what controllers of Kubernetes did against what their models would have done.
type replay struct {
	api    *apiserver.Server
	client *apiserver.Client
	// world has the models of the controllers. They act on copies of what the API server has.
	world *World
	now   time.Time
	// changes are those that the newest request has made.
	changes []apiserver.Change
	// lives says more of the objects that are created, by where that is recorded.
	lives map[int]*lifetime
	// uids, versions and revisions are those of the model, by the ones of the recording. owners have objects, and are not recorded themselves.
	uids, versions, revisions map[string]string
	owners                    map[types.UID]client.Object
	// planned is what the models of the controllers would do now, and due since when they would.
	planned []act
	due     map[string]time.Time
	longest time.Duration
	// acts counts those of controllers that agreed, and skipped the requests that cannot be replayed, by why.
	acts, skipped map[string]int
	// differences are what the recording and the model do not agree on.
	differences []string
}

// lifetime is what a recording shows of an object later: its UID, and whether it is a pod that a kubelet has reported of.
type lifetime struct {
	uid   string
	bound bool
}

// lifetimes looks through a recording for what it does not say when an object is created. Only what was carried out shows whose a UID is.
func lifetimes(all []recorded) map[int]*lifetime {
	lives, current, known := map[int]*lifetime{}, map[string]*lifetime{}, map[string]bool{}
	learn := func(object, uid string) {
		if of := current[object]; of != nil && of.uid == "" && !known[uid] {
			of.uid, known[uid] = uid, uid != ""
		}
	}
	for i, r := range all {
		if !r.carriedOut() {
			continue
		}
		if r.creates() {
			lives[i] = &lifetime{}
			current[r.object()] = lives[i]
		}
		b := r.body()
		learn(r.object(), b.uid())
		for _, o := range b.Metadata.OwnerReferences {
			learn(strings.ToLower(o.Kind)+"s/"+o.Name, o.UID)
		}
		if of := current[r.object()]; of != nil && r.byKubelet() {
			of.bound = true
		}
	}
	return lives
}

func newReplay(all []recorded) (*replay, error) {
	scheme, err := scheme()
	if err != nil {
		return nil, err
	}
	r := &replay{
		lives: lifetimes(all), uids: map[string]string{}, versions: map[string]string{}, revisions: map[string]string{},
		owners: map[types.UID]client.Object{}, due: map[string]time.Time{}, acts: map[string]int{}, skipped: map[string]int{},
	}
	r.api = apiserver.New(scheme, func() time.Time { return r.now })
	r.api.Watch = func(c apiserver.Change) { r.changes = append(r.changes, c) }
	r.client = r.api.Direct()
	l := loop.New(1)
	r.world = &World{Loop: l, pace: l.Random("pace"), faults: newFaults(l), pending: map[string]bool{}, revised: map[types.UID]revised{}}
	return r, nil
}

// differs notes a difference.
func (r *replay) differs(of recorded, format string, args ...any) {
	r.differences = append(r.differences, of.String()+": "+fmt.Sprintf(format, args...))
}

// run replays a recording.
func (r *replay) run(all []recorded) {
	for i, w := range all {
		if why := r.skips(w); why != "" {
			r.skipped[why]++
			continue
		}
		r.now = w.StageTimestamp
		r.late(w)
		r.owner(w)
		r.changes = nil
		if code := answer(r.send(w), w); code != w.ResponseStatus.Code {
			r.differs(w, "the model answers with %d", code)
		}
		for _, c := range r.changes {
			r.compare(w, c)
		}
		r.born(i, w)
		r.look()
	}
	r.differences = append(r.differences, r.world.Broken...)
}

// compare holds what a request has changed against what the models would have done.
func (r *replay) compare(w recorded, c apiserver.Change) {
	a := actOf(c)
	switch {
	case a.what == "":
	case w.by(modeled...) && r.agrees(a):
		r.acts[strings.TrimPrefix(w.User.Username, kubeController)]++
	case w.by(modeled...):
		r.differs(w, "the models would not %s so, or not next, but %v", a.what, r.planned)
	case w.byKubelet() && c.After == nil && c.Before.GetDeletionTimestamp() == nil:
		r.differs(w, "a kubelet removes a pod that is not being deleted")
	}
}

// skips says why a request cannot be replayed; empty if it can be.
func (r *replay) skips(w recorded) string {
	sub := w.ObjectRef.Subresource
	switch b := w.body(); {
	case w.ResponseStatus.Code >= http.StatusInternalServerError:
		return "the API server failed"
	case w.Verb == "deletecollection" || sub != "" && !slices.Contains([]string{"status", "eviction", "resize"}, sub):
		return "not modeled: " + w.Verb + " " + sub
	case w.Verb == "patch" && w.patchType() == types.JSONPatchType:
		return "JSON patch"
	case sub == "eviction" && w.ResponseStatus.Code == http.StatusTooManyRequests:
		return "budgets are not recorded"
	case strings.Contains(w.RequestURI, "dryRun=All") && sub != "eviction":
		return "dry run"
	case !w.carriedOut() && b.version() != "" && r.versions[w.object()+" "+b.version()] == "":
		return "refused for a version that is not recorded"
	}
	return ""
}

// owner creates what a request names as an owner and is not recorded, such as an Etcd. Once the garbage collector deletes what it owns, it is gone.
func (r *replay) owner(w recorded) {
	for _, o := range w.body().Metadata.OwnerReferences {
		if r.uids[o.UID] == "" {
			stands := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "owners", Name: o.UID}}
			r.must(r.client.Create(context.Background(), stands))
			r.uids[o.UID], r.owners[stands.UID] = string(stands.UID), stands
		}
	}
	live := r.live(w)
	if live == nil || w.Verb != "delete" || !w.carriedOut() || !w.by("generic-garbage-collector") {
		return
	}
	for _, o := range live.GetOwnerReferences() {
		if stands := r.owners[o.UID]; stands != nil {
			r.must(client.IgnoreNotFound(r.client.Delete(context.Background(), stands)))
			r.look()
		}
	}
}

func (r *replay) live(w recorded) client.Object {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", recordedKinds[w.ObjectRef.Resource]()), "*v1.")
	return r.api.Live().Find(kind, types.NamespacedName{Namespace: w.ObjectRef.Namespace, Name: w.ObjectRef.Name})
}

// born takes over what is known of an object that was created: its UID, and its node, since bindings are not recorded.
func (r *replay) born(i int, w recorded) {
	is, live := r.lives[i], r.live(w)
	if is == nil || live == nil {
		return
	}
	if is.uid != "" {
		r.uids[is.uid] = string(live.GetUID())
	}
	switch o := live.DeepCopyObject().(type) {
	case *corev1.Pod:
		if is.bound {
			o.Spec.NodeName = "node"
			r.must(r.api.Edit(o, ""))
		}
	case *corev1.PersistentVolumeClaim: // admission does this
		o.Finalizers = []string{claimProtection}
		r.must(r.api.Edit(o, ""))
	}
}

func (r *replay) must(err error) {
	if err != nil {
		r.differences = append(r.differences, err.Error())
	}
}

// send sends a request to the model.
func (r *replay) send(w recorded) error {
	ctx, o, content := context.Background(), recordedKinds[w.ObjectRef.Resource](), r.translated(w)
	o.SetNamespace(w.ObjectRef.Namespace)
	o.SetName(w.ObjectRef.Name)
	var e policyv1.Eviction
	var options metav1.DeleteOptions
	var applied unstructured.Unstructured
	switch sub := w.ObjectRef.Subresource; {
	case sub == "eviction":
		return cmp.Or(json.Unmarshal(content, &e), r.client.SubResource(sub).Create(ctx, o, &e))
	case w.Verb == "delete":
		return cmp.Or(json.Unmarshal(content, &options), r.client.Delete(ctx, o, &client.DeleteOptions{
			GracePeriodSeconds: options.GracePeriodSeconds, Preconditions: options.Preconditions, PropagationPolicy: options.PropagationPolicy, DryRun: options.DryRun,
		}))
	case w.Verb == "patch" && w.patchType() == types.ApplyPatchType:
		return cmp.Or(applied.UnmarshalJSON(content), r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(&applied)))
	case w.Verb == "patch" && sub != "":
		return r.client.SubResource(sub).Patch(ctx, o, client.RawPatch(w.patchType(), content))
	case w.Verb == "patch":
		return r.client.Patch(ctx, o, client.RawPatch(w.patchType(), content))
	case w.Verb == "create":
		return cmp.Or(json.Unmarshal(content, o), r.client.Create(ctx, o))
	case sub != "":
		return cmp.Or(json.Unmarshal(content, o), r.client.SubResource(sub).Update(ctx, o))
	}
	return cmp.Or(json.Unmarshal(content, o), r.client.Update(ctx, o))
}

// translated returns the body of a request with the UIDs and the version of the model. A version is first seen in a request that was carried out: it
// was the newest then.
func (r *replay) translated(w recorded) []byte {
	var pairs []string
	for recorded, of := range r.uids {
		pairs = append(pairs, recorded, of)
	}
	content := strings.NewReplacer(pairs...).Replace(string(w.RequestObject))
	version := w.body().version()
	if version == "" {
		return []byte(content)
	}
	key := w.object() + " " + version
	if live := r.live(w); r.versions[key] == "" && live != nil {
		r.versions[key] = live.GetResourceVersion()
	}
	return []byte(strings.Replace(content, `"resourceVersion":"`+version+`"`, `"resourceVersion":"`+r.versions[key]+`"`, 1))
}

// answer is the code that the API server answers a request with.
func answer(err error, w recorded) int {
	var status apierrors.APIStatus
	switch {
	case err == nil && w.Verb == "create":
		return http.StatusCreated
	case err == nil:
		return http.StatusOK
	case errors.As(err, &status):
		return int(status.Status().Code)
	}
	return 0
}

// act is a change on which others depend; created is what it has created.
type act struct {
	kind, name, what string
	created          client.Object
}

func (a act) String() string { return a.what }

// actOf returns what a change is; nothing if it is about a status or the like.
func actOf(c apiserver.Change) act {
	a, before, after := act{kind: c.Kind, name: c.Key.Name}, c.Before, c.After
	switch {
	case before == nil:
		a.what, a.created = "create", after
	case after == nil:
		a.what = "remove"
	case before.GetDeletionTimestamp() == nil && after.GetDeletionTimestamp() != nil:
		a.what = "delete"
	case !slices.Equal(ownersIn(before), ownersIn(after)):
		a.what = fmt.Sprint("have owned by ", ownersIn(after))
	case !slices.Equal(before.GetFinalizers(), after.GetFinalizers()):
		a.what = fmt.Sprint("have wait for ", after.GetFinalizers())
	default:
		return act{}
	}
	a.what += " " + c.Kind + " " + c.Key.Name
	return a
}

func ownersIn(o client.Object) (all []string) {
	for _, r := range o.GetOwnerReferences() {
		all = append(all, fmt.Sprintf("%s %s %s", r.Kind, r.Name, r.UID))
	}
	return all
}

// creates reports whether what a model creates is what a controller has created, but for the name of its revision and the order of volumes.
func creates(model, real client.Object) bool {
	if model == nil || real == nil {
		return model == nil && real == nil
	}
	return equality.Semantic.DeepEqual(decided(model), decided(real))
}

// decided is what a controller decides of what it creates.
func decided(o client.Object) []any {
	labels := maps.Clone(o.GetLabels())
	delete(labels, appsv1.StatefulSetRevisionLabel)
	of := []any{o.GetGenerateName(), labels, o.GetAnnotations(), o.GetOwnerReferences()}
	switch o := o.(type) {
	case *corev1.Pod:
		spec := o.Spec
		spec.Volumes = slices.SortedFunc(slices.Values(spec.Volumes), func(a, b corev1.Volume) int { return cmp.Compare(a.Name, b.Name) })
		return append(of, spec)
	case *corev1.PersistentVolumeClaim:
		return append(of, o.Spec)
	}
	return of
}

// look has the models of the controllers say what they would do now, if nothing else happened, and since when.
func (r *replay) look() {
	copied, changed := r.api.Clone(), true
	r.planned = nil
	copied.Watch = func(c apiserver.Change) {
		changed = true
		if a := actOf(c); a.what != "" {
			r.planned = append(r.planned, a)
		}
	}
	r.world.API, r.world.writer = copied, copied.Direct()
	for changed {
		changed = false
		r.world.statefulSets()
		r.world.protect()
		copied.Collect()
	}
	due := map[string]time.Time{}
	for i, a := range r.planned {
		if since, ok := r.due[a.what]; r.isNext(i) && ok {
			due[a.what] = since
		} else if r.isNext(i) {
			due[a.what] = r.now
		}
	}
	r.due = due
}

// isNext reports whether a planned act waits for no other one: for an earlier one with the same object, or with the claim of a pod.
func (r *replay) isNext(i int) bool {
	a := r.planned[i]
	return !slices.ContainsFunc(r.planned[:i], func(b act) bool {
		return b.kind == a.kind && b.name == a.name || a.kind == "Pod" && b.kind == "PersistentVolumeClaim" && strings.HasSuffix(b.name, "-"+a.name)
	})
}

// agrees reports whether a model would do the same next. Revisions have other names there, but divide pods in the same way.
func (r *replay) agrees(a act) bool {
	i := slices.IndexFunc(r.planned, func(b act) bool { return a.what == b.what && creates(b.created, a.created) })
	if i < 0 || !r.isNext(i) {
		return false
	}
	if a.created == nil {
		return true
	}
	real, model := a.created.GetLabels()[appsv1.StatefulSetRevisionLabel], r.planned[i].created.GetLabels()[appsv1.StatefulSetRevisionLabel]
	if known, ok := r.revisions[real]; ok {
		return known == model
	}
	if slices.Contains(slices.Collect(maps.Values(r.revisions)), model) {
		return false
	}
	r.revisions[real] = model
	return true
}

// late notes what the models would have done long ago, and the real controllers have not.
func (r *replay) late(w recorded) {
	for what, since := range r.due {
		waits := r.now.Sub(since)
		if r.longest = max(r.longest, waits); waits > slowest {
			r.differs(w, "before it, for %s, the model would %s", waits, what)
			delete(r.due, what)
		}
	}
}
