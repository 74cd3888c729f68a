// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// The defaults of a policy that the API server has not defaulted.
const (
	defaultConcurrent = "10%"
	defaultSoak       = 5 * time.Minute
)

// The limits of automatic rollouts without a policy: a percentage of the Etcds, and at least so many; and a percentage of these for each of
// several namespaces, since one tenant could otherwise stop the rollouts of all others.
const defaultPercent, defaultAtLeast, defaultShare = 10, 5, 60

// read converts a policy. If it is invalid, it says why, and grants nothing.
func read(o *v1alpha1.EtcdFleetPolicy) *fleet.Policy {
	soak := ptr.Deref(o.Spec.Soak, metav1.Duration{Duration: defaultSoak}).Duration
	p := &fleet.Policy{
		Name: o.Name, UID: o.UID, Generation: o.Generation, Paused: o.Spec.Paused, MaxFailures: int(o.Spec.MaxFailures), Soak: soak,
		Canary: fleet.Canary{
			Count: int(ptr.Deref(o.Spec.Canary.Count, 1)), Soak: ptr.Deref(o.Spec.Canary.Soak, metav1.Duration{Duration: soak}).Duration,
			Chosen: map[types.UID]bool{},
		},
		PauseAtEnd: o.Spec.AtEnd == v1alpha1.FleetPause,
	}
	var err error
	if p.MaxConcurrent, p.Percent, err = concurrent(ptr.Deref(o.Spec.MaxConcurrent, intstr.FromString(defaultConcurrent))); err != nil {
		p.Invalid = "spec.maxConcurrent: " + err.Error()
	}
	if share := o.Spec.MaxPerNamespace; share != nil {
		if p.PerNamespace, p.PerNamespacePercent, err = concurrent(*share); err == nil && p.PerNamespace == 0 {
			err = errors.New("0 is less than 1")
		}
		if err != nil {
			p.Invalid = "spec.maxPerNamespace: " + err.Error()
		}
	}
	for _, list := range []struct {
		field string
		spec  []v1alpha1.FleetWindow
		into  *[]fleet.Window
	}{{"windows", o.Spec.Windows, &p.Windows}, {"except", o.Spec.Except, &p.Except}} {
		for i, w := range list.spec {
			window, err := fleet.NewWindow(w.Schedule, w.Duration.Duration, cmp.Or(w.TimeZone, "UTC"))
			if err != nil {
				p.UnknownWindows = fmt.Sprintf("spec.%s[%d]: %v", list.field, i, err)
				p.Invalid = p.UnknownWindows
				continue
			}
			*list.into = append(*list.into, window)
		}
	}
	return p
}

// concurrent parses a number of clusters or a percentage.
func concurrent(v intstr.IntOrString) (n int, percent bool, err error) {
	if v.Type == intstr.Int {
		n = v.IntValue()
	} else {
		text, found := strings.CutSuffix(v.StrVal, "%")
		if percent = true; !found {
			return 0, false, fmt.Errorf("%q is neither a number nor a percentage", v.StrVal)
		}
		if n, err = strconv.Atoi(text); err != nil || n > 100 {
			return 0, false, fmt.Errorf("%q is not a percentage from 0%% to 100%%", v.StrVal)
		}
	}
	if n < 0 {
		return 0, false, fmt.Errorf("%s is less than 0", v.String())
	}
	return n, percent, nil
}
