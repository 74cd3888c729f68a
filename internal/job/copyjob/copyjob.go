// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package copyjob builds the Job in which the agent copies backups from one store to another, and limits how many run. It is pure.
package copyjob

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	"github.com/etcd-foreman/etcd-foreman/internal/job/storeaccess"
	batchv1 "k8s.io/api/batch/v1"
)

// Deadline of a copy. It is long because stores may be far from each other.
const Deadline = 12 * time.Hour

// Copy says what to copy, and from where to where.
type Copy struct {
	Source, Target v1alpha1.StoreSpec
	// MaxBackupAge in days, and MaxBackups: nil for any.
	MaxBackupAge, MaxBackups *uint32
	// Schedule of full snapshots in the source, if it is known: requested ones then do not count among MaxBackups.
	Schedule string
	// Wait is how long to wait for a final snapshot in the source; 0 for none.
	Wait time.Duration
}

// Place returns a store of a copy without the leading slash that etcd-druid admits in a prefix, as the objects in it are named.
func Place(store v1alpha1.StoreSpec) v1alpha1.StoreSpec {
	store.Prefix = strings.TrimPrefix(store.Prefix, "/")
	return store
}

// prefix is what the API allows in the stores of an Etcd.
var prefix = regexp.MustCompile(`^([A-Za-z0-9_-][A-Za-z0-9._-]*)(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)

// CheckPrefix returns an error unless a store that a task names in a field has a prefix that the API allows in the stores of an Etcd.
func CheckPrefix(field string, store v1alpha1.StoreSpec) error {
	if !prefix.MatchString(store.Prefix) {
		return fmt.Errorf("the prefix of %s is %q: it has to be words of letters, digits, dots, dashes and underscores with slashes between them", field, store.Prefix)
	}
	return nil
}

// Validate returns an error if the places of a copy are incomplete, or the same. The error begins with the field.
func (c Copy) Validate() error {
	for _, side := range c.sides() {
		if side.store.Provider == "" {
			return fmt.Errorf("%s is missing, or its provider is", side.field)
		}
		if err := CheckPrefix(side.field, side.store); err != nil {
			return err
		}
	}
	if s, t := c.Source, c.Target; s.Provider.Canonical() == t.Provider.Canonical() && s.Container == t.Container && s.Prefix == t.Prefix {
		return fmt.Errorf("sourceStore and targetStore are the same place")
	}
	return nil
}

// ValidateStores returns an error if the agent has no driver for a store, or its Secret is not in the namespace.
func (c Copy) ValidateStores(namespace string) error {
	for _, side := range c.sides() {
		if err := storeaccess.Validate(side.store, namespace); err != nil {
			return fmt.Errorf("%s: %w", side.field, err)
		}
	}
	return nil
}

type side struct {
	field string
	store v1alpha1.StoreSpec
}

func (c Copy) sides() []side { return []side{{"sourceStore", c.Source}, {"targetStore", c.Target}} }

// Build makes the Job of a copy: it adds the stores and the flags of the agent to a spec.
func (c Copy) Build(spec job.Spec) (*batchv1.Job, error) {
	namespace := spec.Owner.Object.GetNamespace()
	target, err := storeaccess.Of(c.Target, namespace, storeaccess.Main)
	if err != nil {
		return nil, fmt.Errorf("targetStore: %w", err)
	}
	source, err := storeaccess.Of(c.Source, namespace, storeaccess.Source)
	if err != nil {
		return nil, fmt.Errorf("sourceStore: %w", err)
	}
	args := []string{"copy"}
	if c.MaxBackupAge != nil {
		args = append(args, fmt.Sprintf("--max-backup-age=%d", *c.MaxBackupAge))
	}
	if c.MaxBackups != nil {
		args = append(args, fmt.Sprintf("--max-backups=%d", *c.MaxBackups))
		if c.Schedule != "" {
			args = append(args, "--full-snapshot-schedule="+c.Schedule)
		}
	}
	if c.Wait > 0 {
		args = append(args, "--wait-for-final-snapshot="+c.Wait.String())
	}
	spec.Component = v1alpha1.ComponentCopyJob
	spec.Args = append(args, spec.Args...)
	spec.Stores = append([]storeaccess.Access{target, source}, spec.Stores...)
	return job.Build(spec)
}

// How many copies run at once in a namespace, and in all. Each is a Job that the operator follows.
const (
	MaxInNamespace = 5
	maxInAll       = 100
)

// Request for a copy that has not ended.
type Request struct {
	Namespace, Name string
	Created         time.Time
}

func (r Request) compare(other Request) int {
	return cmp.Or(r.Created.Compare(other.Created), cmp.Compare(r.Namespace, other.Namespace), cmp.Compare(r.Name, other.Name))
}

// Wait returns why a copy does not run yet, given all that have not ended; empty if it may. The oldest run first. Copies that wait
// for others of their namespace do not delay those of other namespaces. It is pure.
func Wait(own Request, all []Request) string {
	before, running := map[string]int{}, 0
	for _, r := range all {
		if r.compare(own) >= 0 {
			continue
		}
		if before[r.Namespace]++; before[r.Namespace] <= MaxInNamespace {
			running++
		}
	}
	switch {
	case before[own.Namespace] >= MaxInNamespace:
		return fmt.Sprintf("waiting: at most %d copies of backups run at once in a namespace, and older ones have not ended", MaxInNamespace)
	case running >= maxInAll:
		return fmt.Sprintf("waiting: at most %d copies of backups run at once in all namespaces, and older ones have not ended", maxInAll)
	}
	return ""
}
