// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"maps"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/controller/etcd/status"
	"github.com/etcd-foreman/etcd-foreman/internal/peretcd"
	"k8s.io/apimachinery/pkg/types"
)

// reportAfter is how many times in a row a stage fails before the status reports it: clients wait for status.lastErrors to be
// empty, and an API server that restarts is no reason to alarm them.
const reportAfter = 2

// failures are the stages that failed the last time, by Etcd.
type failures struct {
	peretcd.Map[map[string]failure]
}

// failure of a stage.
type failure struct {
	status.Failure
	// times in a row.
	times int
}

// note notes how a stage has ended. One success ends the failures of a stage; a stage that is not reached keeps them.
func (f *failures) note(etcd *v1alpha1.Etcd, s stage, err error) {
	before := f.Of(etcd)
	last, failed := before[s.name]
	if err == nil && !failed {
		return
	}
	next := maps.Clone(before)
	if err == nil {
		delete(next, s.name)
		f.Set(etcd, next)
		return
	}
	if next == nil {
		next = map[string]failure{}
	}
	next[s.name] = failure{status.Failure{Code: s.code, Err: err}, last.times + 1}
	f.Set(etcd, next)
}

// reported returns the failures that the status reports: those that have occurred often enough, and those that it reports
// already, for which an operator that has just started does not know how often.
func (f *failures) reported(etcd *v1alpha1.Etcd) (reported []status.Failure) {
	all := f.Of(etcd)
	for _, s := range slices.Concat(stages, followUps) {
		if failed, ok := all[s.name]; ok && (failed.times >= reportAfter || failed.In(etcd.Status.LastErrors)) {
			reported = append(reported, failed.Failure)
		}
	}
	return reported
}

// summary returns the names of the stages whose failures are reported, and whether there are foreign objects.
func (f *failures) summary(etcd *v1alpha1.Etcd, foreign bool) string {
	all := f.Of(etcd)
	var names []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name].times >= reportAfter {
			names = append(names, name)
		}
	}
	if foreign {
		names = append(names, "foreign objects")
	}
	return strings.Join(names, ",")
}

func (f *failures) forget(etcd types.NamespacedName) { f.Forget(etcd) }
