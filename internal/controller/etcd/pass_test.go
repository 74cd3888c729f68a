// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/controller/etcd/state"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var errBroken = errors.New("broken")

func failing(name string, err error, passable bool) stage {
	return stage{name: name, code: v1alpha1.ErrApply, run: func(*pass, context.Context) error { return err }, passable: passable}
}

func TestThrough(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{}, "x", errBroken)
	for name, tc := range map[string]struct {
		err         error
		passable    bool
		complete    bool
		interrupted bool
		errs        int
		reached     bool
	}{
		"success":                    {nil, false, true, false, 0, true},
		"skipped":                    {errSkipped, false, true, false, 0, true},
		"failed":                     {errBroken, false, false, false, 1, false},
		"failed, the rest continues": {errBroken, true, true, false, 1, true},
		"behind":                     {state.ErrBehind, true, false, true, 0, false},
		"a conflict":                 {conflict, true, false, true, 0, false},
		"canceled":                   {context.Canceled, true, false, true, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := &pass{parts: &parts{}, etcd: &v1alpha1.Etcd{}}
			reached := false
			last := stage{name: "last", run: func(*pass, context.Context) error { reached = true; return nil }}
			complete, interrupted := p.through(t.Context(), []stage{failing("first", tc.err, tc.passable), last})
			g.Expect(complete).To(Equal(tc.complete))
			g.Expect(interrupted != nil).To(Equal(tc.interrupted))
			g.Expect(p.errs).To(HaveLen(tc.errs))
			g.Expect(reached).To(Equal(tc.reached))
		})
	}
}

// A transient error enters the status at its second occurrence in a row and leaves it at the first success. A stage that is
// not reached, or is skipped, keeps its error.
func TestWhenAFailureIsReported(t *testing.T) {
	g := NewWithT(t)
	var f failures
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "main", UID: "etcd"}}
	named := func(name string) stage {
		return stages[slices.IndexFunc(stages, func(s stage) bool { return s.name == name })]
	}
	spec, volumes := named("spec"), named("volumes")
	g.Expect(f.reported(etcd)).To(BeEmpty())
	f.note(etcd, spec, errBroken)
	g.Expect(f.reported(etcd)).To(BeEmpty(), "once")
	f.note(etcd, spec, nil)
	f.note(etcd, spec, errBroken)
	g.Expect(f.reported(etcd)).To(BeEmpty(), "the first failure after a success")
	f.note(etcd, volumes, errBroken)
	g.Expect(f.reported(etcd)).To(BeEmpty(), "an error of another stage does not count")
	f.note(etcd, spec, errBroken)
	g.Expect(f.reported(etcd)).To(HaveLen(1))
	g.Expect(f.summary(etcd, false)).To(Equal("spec"))
	f.note(etcd, volumes, errBroken)
	g.Expect(f.reported(etcd)).To(HaveLen(2))
	f.note(etcd, spec, nil)
	g.Expect(f.reported(etcd)).To(HaveLen(1))
	f.note(etcd, volumes, nil)
	g.Expect(f.reported(etcd)).To(BeEmpty())

	// A new operator does not know how often the stage failed: the reported error stays.
	etcd.Status.LastErrors = []v1alpha1.LastError{{Code: v1alpha1.ErrApply, Description: "broken"}}
	f.note(etcd, spec, errBroken)
	g.Expect(f.reported(etcd)).To(HaveLen(1))
}
