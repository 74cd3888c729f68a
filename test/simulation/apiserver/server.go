// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package apiserver is a model of a Kubernetes API server, for simulations: a log of changes for each kind, of which caches follow, each
// with its own lag. It is single-threaded: its users exclude their goroutines from each other.
//
// It has what the operator relies on: UIDs, resourceVersions, generations, optimistic concurrency, preconditions, status as a subresource, merge
// and strategic merge patches, apply, generated names, finalizers, deletion with a grace period, the garbage collector's orders, evictions
// under PodDisruptionBudgets, label selectors and indexes, and no change for a write that changes nothing. It has no admission and no defaults,
// keeps fields by what a manager applied last, instead of managed fields, and knows no other kinds than those of its scheme.
package apiserver

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Change is one change of an object. Before is nil when it was created, and After when it was removed. Neither may be changed.
type Change struct {
	Revision      int
	At            time.Time
	Kind          string
	Key           types.NamespacedName
	Before, After client.Object
}

// Object returns the object as it is after the change, or as it was before its removal.
func (c Change) Object() client.Object {
	if c.After != nil {
		return c.After
	}
	return c.Before
}

// Server is the API server.
type Server struct {
	Scheme *runtime.Scheme
	// Watch is told of each change, after it.
	Watch func(Change)

	now      func() time.Time
	table    Table
	logs     map[string][]Change
	revision int
	made     int
	// applied is what was applied last to an object, by UID.
	applied map[types.UID][]byte
	fields  map[selectable]client.IndexerFunc
}

// New makes a server that takes the time from a function.
func New(scheme *runtime.Scheme, now func() time.Time) *Server {
	return &Server{Scheme: scheme, Watch: func(Change) {}, now: now, table: newTable(), logs: map[string][]Change{}, applied: map[types.UID][]byte{}, fields: map[selectable]client.IndexerFunc{}}
}

// Clone returns a server with the same objects. What happens to one does not happen to the other.
func (s *Server) Clone() *Server {
	c := *s
	c.Watch, c.table, c.logs, c.applied = func(Change) {}, newTable(), map[string][]Change{}, maps.Clone(s.applied)
	for kind, all := range s.logs {
		c.logs[kind], c.table.objects[kind] = slices.Clip(all), maps.Clone(s.table.objects[kind])
	}
	return &c
}

// Live returns the objects as they are.
func (s *Server) Live() *Table { return &s.table }

func (s *Server) kindOf(o runtime.Object) (schema.GroupVersionKind, error) {
	kind, err := apiutil.GVKForObject(o, s.Scheme)
	if err != nil {
		return kind, fmt.Errorf("looking up the kind of a %T: %w", o, err)
	}
	return kind, nil
}

func resource(kind string) schema.GroupResource {
	return schema.GroupResource{Resource: strings.ToLower(kind) + "s"}
}

// decode returns an object as it comes out of the storage: typed, and once through JSON.
func (s *Server) decode(kind schema.GroupVersionKind, body []byte) (client.Object, error) {
	typed, err := s.Scheme.New(kind)
	if err != nil {
		return nil, fmt.Errorf("making a %s: %w", kind.Kind, err)
	}
	if err := json.Unmarshal(body, typed); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("decoding a %s: %v", kind.Kind, err))
	}
	typed.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return typed.(client.Object), nil
}

// create stores a new object, and returns it.
func (s *Server) create(kind schema.GroupVersionKind, body []byte) (client.Object, error) {
	next, err := s.decode(kind, body)
	if err != nil {
		return nil, err
	}
	s.made++
	if next.GetName() == "" && next.GetGenerateName() != "" {
		next.SetName(fmt.Sprintf("%s%05d", next.GetGenerateName(), s.made))
	}
	key := client.ObjectKeyFromObject(next)
	if s.table.Find(kind.Kind, key) != nil {
		return nil, apierrors.NewAlreadyExists(resource(kind.Kind), key.Name)
	}
	next.SetUID(types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", s.made)))
	next.SetCreationTimestamp(metav1.NewTime(s.now().Truncate(time.Second)))
	if part(next, "Spec").IsValid() {
		next.SetGeneration(1)
	}
	clearStatus(next)
	s.applied[next.GetUID()] = body
	return s.commit(kind.Kind, nil, next), nil
}

// change changes an object, or its subresource, as edit says, and returns what is stored.
func (s *Server) change(kind schema.GroupVersionKind, key types.NamespacedName, sub string, edit func(live client.Object) (client.Object, error)) (client.Object, error) {
	live := s.table.Find(kind.Kind, key)
	if live == nil {
		return nil, apierrors.NewNotFound(resource(kind.Kind), key.Name)
	}
	edited, err := edit(live)
	if err != nil {
		return nil, err
	}
	if rv := edited.GetResourceVersion(); rv != "" && rv != live.GetResourceVersion() {
		return nil, apierrors.NewConflict(resource(kind.Kind), key.Name, fmt.Errorf("it is at %s, and not at %s", live.GetResourceVersion(), rv))
	}
	if uid := edited.GetUID(); uid != "" && uid != live.GetUID() {
		return nil, apierrors.NewInvalid(kind.GroupKind(), key.Name, field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), uid, "field is immutable")})
	}
	next := edited
	if sub == "status" {
		next = another(live)
		setStatus(next, edited)
	} else {
		setStatus(next, live)
	}
	keep(next, live)
	if equality.Semantic.DeepEqual(live, next) {
		return live, nil
	}
	if sub == "status" {
		next.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "status", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status", Time: &metav1.Time{Time: s.now().Truncate(time.Second)}}})
	} else if !sameSpec(live, next) {
		next.SetGeneration(live.GetGeneration() + 1)
	}
	if next.GetDeletionTimestamp() != nil && len(next.GetFinalizers()) == 0 && len(live.GetFinalizers()) > 0 {
		s.commit(kind.Kind, live, nil)
		return next, nil
	}
	return s.commit(kind.Kind, live, next), nil
}

// Edit changes an object, or its subresource, as an update does, without a copy: the object belongs to the server then. For controllers and kubelets,
// which are models as the server is.
func (s *Server) Edit(o client.Object, sub string) error {
	kind, err := s.kindOf(o)
	if err != nil {
		return err
	}
	_, err = s.change(kind, client.ObjectKeyFromObject(o), sub, func(client.Object) (client.Object, error) { return o, nil })
	return err
}

// Stamp stores an object as written now. No watch shows it: for what no cache has, and is written all the time.
func (s *Server) Stamp(o client.Object) error {
	kind, err := s.kindOf(o)
	if err != nil {
		return err
	}
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{Operation: metav1.ManagedFieldsOperationUpdate, Time: &metav1.Time{Time: s.now().Truncate(time.Second)}}})
	s.table.take(Change{Kind: kind.Kind, Key: client.ObjectKeyFromObject(o), After: o})
	return nil
}

// keep keeps what clients do not set.
func keep(next, live client.Object) {
	next.SetUID(live.GetUID())
	next.SetResourceVersion(live.GetResourceVersion())
	next.SetCreationTimestamp(live.GetCreationTimestamp())
	next.SetGeneration(live.GetGeneration())
	next.SetDeletionTimestamp(live.GetDeletionTimestamp())
	next.SetDeletionGracePeriodSeconds(live.GetDeletionGracePeriodSeconds())
	next.SetManagedFields(live.GetManagedFields())
	next.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
}

// commit stores a change, and tells of it.
func (s *Server) commit(kind string, before, after client.Object) client.Object {
	s.revision++
	c := Change{Revision: s.revision, At: s.now(), Kind: kind, Before: before, After: after}
	c.Key = client.ObjectKeyFromObject(c.Object())
	if after != nil {
		after.SetResourceVersion(strconv.Itoa(s.revision))
	} else {
		delete(s.applied, before.GetUID())
	}
	s.table.take(c)
	s.logs[kind] = append(s.logs[kind], c)
	s.Watch(c)
	return after
}
