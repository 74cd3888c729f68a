// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package store keeps the Ledger of the fleet in a ConfigMap of the operator's namespace. Each write is conditional on the
// resourceVersion of what it was decided on, so of two operators only one grants. The newest Ledger is kept in memory: one that is out
// of date cannot be written.
package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Name of the ConfigMap, and the key in it that has the ledger.
const (
	Name = v1alpha1.FleetConfigMap
	Key  = "ledger"
)

const (
	// maxSize bounds the ledger to which holders are added, in bytes, and maxWritten any: holders grow, and the API server refuses data of
	// more than 1 MiB.
	maxSize, maxWritten = 800 << 10, 1000 << 10
	// tries is how often a change is decided again on what another operator has written.
	tries = 5
)

// ErrNewer says that a newer operator has written the ledger. A write would drop the fields that this one does not know, so nothing is granted.
var ErrNewer = errors.New("it was written by a newer operator, and is left as it is: nothing starts that an EtcdFleetPolicy governs, until that operator is reinstalled or the ConfigMap is deleted; then the ledger is rebuilt from the running tasks")

// ErrFull says that the ledger has no room for another cluster: nothing more is granted until something is released.
var ErrFull = errors.New("the ledger of the fleet has no room for another cluster")

// full says of what a ledger is full.
func full(l *fleet.Ledger) error {
	running, failures := 0, 0
	for i := range l.Holders {
		if l.Holders[i].Ended.IsZero() {
			running++
		}
	}
	for i := range l.Changes {
		failures += len(l.Changes[i].Failures)
	}
	return fmt.Errorf("%w (running tasks: %d, watched clusters: %d, failures of changes: %d): tasks start as others end, and clusters have been watched. A lower maxConcurrent or a shorter soak of the EtcdFleetPolicies keeps it smaller",
		ErrFull, running, len(l.Holders)-running, failures)
}

// Store is the ledger of the fleet.
type Store struct {
	// Client writes, and Live reads from the API server.
	Client client.Client
	Live   client.Reader
	// Namespace of the operator.
	Namespace string
	// Rebuild makes the ledger of what runs, when there is none. It also has to see to it that no operator starts what the lost one
	// had granted.
	Rebuild func(ctx context.Context) (*fleet.Ledger, error)

	// mu is held across requests.
	mu     lock.One
	ledger *fleet.Ledger
	// object is the ConfigMap that has the ledger; without resourceVersion if it is to be created.
	object *corev1.ConfigMap
}

// Read returns the ledger as it is known. It is not to be changed.
func (s *Store) Read(ctx context.Context) (*fleet.Ledger, error) {
	defer s.mu.Lock()()
	if err := s.load(ctx); err != nil {
		return nil, err
	}
	return s.ledger, nil
}

// Change has a function change the ledger, and writes it. The function says whether it has, and is called again if the ledger was out
// of date. After an error nothing has been granted, as far as is known: the ledger is read again before the next change.
func (s *Store) Change(ctx context.Context, change func(*fleet.Ledger) bool) error {
	defer s.mu.Lock()()
	var err error
	for range tries {
		if err = s.load(ctx); err != nil {
			return err
		}
		next := clone(s.ledger)
		if !change(next) {
			return nil
		}
		if err = s.write(ctx, next); err == nil || !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return err
}

// load reads the ledger if it is not known, and rebuilds it if it is lost.
func (s *Store) load(ctx context.Context) error {
	if s.ledger != nil {
		return nil
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: Name}}
	err := s.Live.Get(ctx, client.ObjectKeyFromObject(object), object)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading the ledger of the fleet in ConfigMap %s/%s: %w", s.Namespace, Name, err)
	}
	if err == nil {
		ledger := &fleet.Ledger{}
		decodeErr := json.Unmarshal([]byte(object.Data[Key]), ledger)
		if err := knowsAll(object.Data[Key]); err != nil {
			return fmt.Errorf("the ledger of the fleet in ConfigMap %s/%s cannot be read (%w): %w", s.Namespace, Name, err, ErrNewer)
		}
		if decodeErr == nil {
			ledger.Revision = object.ResourceVersion
			s.ledger, s.object = ledger, object
			return nil
		}
		log.FromContext(ctx).Error(decodeErr, "The ledger of the fleet cannot be read, and is made again of the tasks that run", "configMap", types.NamespacedName{Namespace: s.Namespace, Name: Name})
	}
	ledger, err := s.Rebuild(ctx)
	if err != nil {
		return fmt.Errorf("rebuilding the ledger of the fleet: %w", err)
	}
	s.object = object
	return s.write(ctx, ledger)
}

// knowsAll returns an error that names a field of a ledger that this operator does not know, or that has another type than it knows. That takes
// no version: what is new is a field. What is no JSON was written by no operator.
func knowsAll(data string) error {
	d := json.NewDecoder(strings.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(&fleet.Ledger{})
	_, ofAnotherType := errors.AsType[*json.UnmarshalTypeError](err)
	// The error for an unknown field has no type.
	if err == nil || !ofAnotherType && !strings.HasPrefix(err.Error(), "json: unknown field ") {
		return nil
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// write writes a ledger over the one that it was made of.
func (s *Store) write(ctx context.Context, ledger *fleet.Ledger) error {
	data, err := json.Marshal(ledger)
	grows := asked(ledger) > asked(s.ledger)
	switch {
	case err != nil:
	case grows && len(data) > maxSize:
		ledger.Shorten(len(data) - maxSize)
		data, err = json.Marshal(ledger)
	case len(data) > maxWritten:
		ledger.Shed(len(data) - maxWritten)
		data, err = json.Marshal(ledger)
	}
	if err != nil {
		return fmt.Errorf("encoding the ledger of the fleet: %w", err)
	}
	if grows && len(data) > maxSize {
		return full(cmp.Or(s.ledger, ledger))
	}
	object := s.object.DeepCopy()
	object.Data = map[string]string{Key: string(data)}
	if object.Labels == nil {
		object.Labels = map[string]string{}
	}
	object.Labels[v1alpha1.LabelName] = v1alpha1.ManagedBy
	// Whatever the answer, what was known is out of date.
	s.ledger, s.object = nil, nil
	if object.ResourceVersion == "" {
		err = s.Client.Create(ctx, object)
	} else {
		err = s.Client.Update(ctx, object)
	}
	if err != nil {
		return fmt.Errorf("writing the ledger of the fleet to ConfigMap %s/%s: %w", s.Namespace, Name, err)
	}
	ledger.Revision = object.ResourceVersion
	s.ledger, s.object = ledger, object
	return nil
}

// asked counts the holders that have asked for a slot. What runs anyway is recorded, however many there are.
func asked(l *fleet.Ledger) (n int) {
	if l == nil {
		return 0
	}
	for i := range l.Holders {
		if !l.Holders[i].Unasked {
			n++
		}
	}
	return n
}

func clone(l *fleet.Ledger) *fleet.Ledger {
	c := *l
	c.Holders = slices.Clone(l.Holders)
	c.Changes = slices.Clone(l.Changes)
	for i := range c.Changes {
		c.Changes[i].Failures = slices.Clone(c.Changes[i].Failures)
	}
	c.Failing = slices.Clone(l.Failing)
	c.Over = slices.Clone(l.Over)
	c.Policies = slices.Clone(l.Policies)
	for i := range c.Policies {
		c.Policies[i].Seconds = slices.Clone(c.Policies[i].Seconds)
		c.Policies[i].Proven = slices.Clone(c.Policies[i].Proven)
	}
	return &c
}
