// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"
)

// Effect is what an update in place does to the etcd of the pod.
type Effect string

// The effects, as docs/rollout.md promises them.
const (
	// Keeps: etcd keeps running, with as much as before.
	Keeps Effect = "etcd keeps running"
	// Lowers: something in the pod has less than before.
	Lowers Effect = "lowers resources"
	// Restarts: etcd restarts, or may.
	Restarts Effect = "restarts etcd"
)

// Change is what an update in place changes.
type Change string

// The changes. Of several in one write, it is the first of these.
const (
	EtcdImage  Change = "image of etcd"
	Lowered    Change = "resources lowered"
	Restarting Change = "resources that restart etcd"
	Raised     Change = "resources raised"
	AgentImage Change = "image of the agent"
	Labels     Change = "labels"
	Unknown    Change = "unknown"
)

const (
	// settle is how long a member is at risk after its resources were lowered. The operator promises to wait for 30 s, from a
	// moment after the write.
	settle = 30 * time.Second
	// reaction is how long the kubelet may take to restart a container.
	reaction = time.Minute
)

// etcdContainer is the name of the container that etcd runs in.
const etcdContainer = "etcd"

// container is what a write says of a container.
type container struct {
	Name, Image  string
	Resources    struct{ Requests, Limits map[string]any }
	ResizePolicy []struct{ ResourceName, RestartPolicy string }
}

// podSpecs are the containers of pods, by what was written before.
type podSpecs map[string]map[string]*container

// podBody is what is read of a pod that is written.
type podBody struct {
	Metadata struct{ Name, UID string }
	Spec     struct{ Containers, InitContainers []*container }
}

// create notes the containers of a new pod.
func (p podSpecs) create(e entry) {
	var body podBody
	if json.Unmarshal(e.RequestObject, &body) != nil {
		return
	}
	all := map[string]*container{}
	for _, c := range body.Spec.Containers {
		all[c.Name] = c
	}
	p[body.Metadata.Name] = all
}

// copyOf returns a copy of what is known of one pod, for a write that was perhaps not carried out.
func (p podSpecs) copyOf(pod string) podSpecs {
	copied := podSpecs{}
	for name, c := range p[pod] {
		one := *c
		one.Resources.Requests, one.Resources.Limits = maps.Clone(c.Resources.Requests), maps.Clone(c.Resources.Limits)
		if copied[pod] == nil {
			copied[pod] = map[string]*container{}
		}
		copied[pod][name] = &one
	}
	return copied
}

// update returns what a write does to a pod and what it changes, and notes it. What cannot be read, or was not seen before, may
// restart etcd.
func (p podSpecs) update(e entry) (Effect, Change) {
	known := p[e.ObjectRef.Name]
	var body podBody
	if json.Unmarshal(e.RequestObject, &body) != nil || known == nil || e.Verb != "patch" {
		delete(p, e.ObjectRef.Name)
		return Restarts, Unknown
	}
	image, resources := Keeps, Keeps
	change := Unknown
	if len(body.Spec.InitContainers) > 0 {
		change = AgentImage
	}
	for _, now := range body.Spec.Containers {
		before := known[now.Name]
		if before == nil {
			return Restarts, Unknown
		}
		if now.Resources.Requests != nil || now.Resources.Limits != nil {
			change = Raised
		} else if now.Image != "" {
			change = AgentImage
		}
		image = worse(image, before.updateImage(now))
		resources = worse(resources, before.updateResources(now))
	}
	switch {
	case image == Restarts:
		change = EtcdImage
	case resources == Lowers:
		change = Lowered
	case resources == Restarts:
		change = Restarting
	}
	return worse(image, resources), change
}

func worse(a, b Effect) Effect {
	for _, e := range []Effect{Restarts, Lowers} {
		if a == e || b == e {
			return e
		}
	}
	return Keeps
}

// updateImage returns what another image does, and applies it.
func (c *container) updateImage(now *container) Effect {
	if now.Image == "" || now.Image == c.Image {
		return Keeps
	}
	c.Image = now.Image
	if c.Name == etcdContainer {
		return Restarts
	}
	return Keeps
}

// updateResources returns what other resources do, and applies them.
func (c *container) updateResources(now *container) Effect {
	effect := c.change(&c.Resources.Requests, now.Resources.Requests, Keeps)
	return worse(effect, c.change(&c.Resources.Limits, now.Resources.Limits, Lowers))
}

// change returns what other requests or limits do, and applies them. One that did not exist has an effect of its own.
func (c *container) change(before *map[string]any, now map[string]any, isNew Effect) Effect {
	effect := Keeps
	if *before == nil {
		*before = map[string]any{}
	}
	for name, value := range now {
		effect = worse(effect, c.changeOne((*before)[name], value, name, isNew))
		(*before)[name] = value
	}
	return effect
}

func (c *container) changeOne(before, now any, name string, isNew Effect) Effect {
	was, isAmount := amount(fmt.Sprint(before))
	is, willBe := amount(fmt.Sprint(now))
	switch {
	case now == nil:
		return Lowers
	case !willBe || before != nil && !isAmount:
		return Restarts
	case before != nil && was == is:
		return Keeps
	case c.Name == etcdContainer && c.restartsFor(name):
		return Restarts
	case before == nil:
		return isNew
	case is < was:
		return Lowers
	}
	return Keeps
}

func (c *container) restartsFor(resource string) bool {
	for _, p := range c.ResizePolicy {
		if p.ResourceName == resource && p.RestartPolicy == "RestartContainer" {
			return true
		}
	}
	return false
}

// amount returns the value of a quantity.
func amount(quantity string) (float64, bool) {
	factor := 1.0
	if value, err := strconv.ParseFloat(quantity, 64); err == nil {
		return value, !math.IsNaN(value)
	}
	for i, binary := range []string{"Ki", "Mi", "Gi", "Ti", "Pi", "Ei"} {
		if number, cut := strings.CutSuffix(quantity, binary); cut {
			quantity, factor = number, math.Pow(1024, float64(i+1))
		}
	}
	for suffix, power := range map[string]int{"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18} {
		if number, cut := strings.CutSuffix(quantity, suffix); cut && factor == 1 {
			quantity, factor = number, math.Pow10(power)
			break
		}
	}
	value, err := strconv.ParseFloat(quantity, 64)
	return value * factor, err == nil && !math.IsNaN(value)
}

// disturbs reports whether a member is at risk at a time by an update of its pod before, although a sample from in between
// shows that it serves.
func (w *world) disturbs(act Act, s Sample, at time.Duration) bool {
	switch act.Effect {
	case Keeps:
		return false
	case Lowers:
		return at-act.At < settle
	}
	return at-act.At < reaction && !w.containers.endedBetween(s.UID, act.At, s.At)
}
