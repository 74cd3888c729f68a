// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
)

// constants returns the strings of the constants of a file whose names begin with a prefix; none where the program runs without its source.
func constants(t *testing.T, file, prefix string) (all []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || !strings.HasPrefix(spec.Names[0].Name, prefix) || len(spec.Values) != 1 {
			return true
		}
		if literal, is := spec.Values[0].(*ast.BasicLit); is && literal.Kind == token.STRING {
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, value)
		}
		return true
	})
	return all
}

// known are the names of what could occur, by kind.
func known(t *testing.T) map[string][]string {
	t.Helper()
	const api = "../../api/v1alpha1/"
	all := slices.Concat(constants(t, api+"rollout_types.go", "Guard"), constants(t, api+"membership_types.go", "Guard"), constants(t, "../../internal/membership/guards.go", "Guard"))
	slices.Sort(all)
	var faults []string
	for _, k := range troubles {
		faults = append(faults, k.name)
	}
	return map[string][]string{"guard": slices.Compact(all), "fault": faults, "code": constants(t, api+"conditions.go", "Err")}
}

// complete fails the test if something has never occurred that has to in hours: a guard that blocks, a fault that begins, and a task of each type that
// users create or the operator does that succeeds.
func complete(t *testing.T, seen census) {
	t.Helper()
	needs := known(t)
	needs["guard"] = slices.DeleteFunc(needs["guard"], func(name string) bool { return slices.Contains(unreached, name) })
	needs["task"] = nil
	for _, of := range []v1alpha1.TaskType{v1alpha1.QuorumAwareRollout, v1alpha1.RecreateRollout, v1alpha1.OnDemandMaintenance, v1alpha1.QuorumLossRecovery, v1alpha1.Restore, v1alpha1.MembershipChange} {
		needs["task"] = append(needs["task"], string(v1alpha1.TaskStateSucceeded)+" "+string(of))
	}
	for _, kind := range []string{"guard", "fault", "task"} {
		if lacks := seen.lacks(kind, needs[kind]); len(lacks) > 0 {
			t.Errorf("never: %s %s", kind, strings.Join(lacks, ", "))
		}
	}
}

// unreached are the guards that block nothing in the model: pods are not updated in place, clusters have no source and no foreign member, and users ask
// for odd numbers of members, agree to one, and change neither ports nor TLS.
var unreached = []string{"AddressesSettled", "UpdateObserved", "SourcesKeepQuorum", "SourcesPresent", "GoalVotes", "MembersKnown", "GoalOdd", "SingleAgreed"}

// Each guard is judged, or is one of those that are not.
func TestGuardsAreJudgedOrNot(t *testing.T) {
	var listed []string
	for _, name := range slices.Concat(slices.Collect(maps.Keys(guards)), unjudged) {
		listed = append(listed, string(name))
	}
	slices.Sort(listed)
	if all := known(t)["guard"]; !slices.Equal(all, listed) {
		t.Errorf("there are the guards\n%s,\nand guards and unjudged have\n%s", all, listed)
	}
}

// What has never occurred is told of, but for guards that the model does not reach.
func TestWhatHasNeverOccurred(t *testing.T) {
	seen := census{}
	if lacks := seen.lacks("task", []string{"b", "a"}); !slices.Equal(lacks, []string{"a", "b"}) {
		t.Errorf("lacks %s", lacks)
	}
	seen.add("task", "a")
	seen.addAll("task", map[string]int{"a": 2})
	if lacks := seen.lacks("task", []string{"b", "a"}); !slices.Equal(lacks, []string{"b"}) || seen["task"]["a"] != 3 {
		t.Errorf("lacks %s of %v", lacks, seen)
	}
}
