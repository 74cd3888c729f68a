// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
)

// scenario is a cluster, and a change that it follows in several ways.
type scenario struct {
	name    string
	members int
	frozen  bool // member 0 hangs
	edit    edit
	ways    []way
	// idleMinute: the longest gap of a minute without any change is measured before each pair.
	idleMinute bool
}

// scenarios in the order in which they are measured.
var scenarios = []scenario{
	{name: healthy3, members: 3, edit: annotate, ways: newPods},
	{name: frozen3, members: 3, frozen: true, edit: annotate, ways: newPods},
	{name: resources, members: 3, edit: raise, ways: inPlaceOrNot, idleMinute: true},
	{name: agentImage, members: 3, edit: changeAgent, ways: inPlaceOrNot},
	{name: etcdImage, members: 3, edit: changeEtcd, ways: inPlaceOrNot},
	{name: "5-healthy", members: 5, edit: annotate, ways: newPods},
	{name: "5-frozen", members: 5, frozen: true, edit: annotate, ways: newPods},
}

// Names of scenarios that have targets of their own.
const (
	healthy3   = "3-healthy"
	frozen3    = "3-frozen"
	resources  = "3-resources"
	agentImage = "3-agent-image"
	etcdImage  = "3-etcd-image"
)

// What is measured once: with three members many changes of resources one after the other, and an idle operator; and a cluster
// whose members come and go.
const (
	changes = "3-changes"
	idle    = "idle"
	members = "members"
)

func scenarioNames() []string {
	var names []string
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	return append(names, changes, idle, members)
}

// chosen is the selection of measurements.
type chosen struct {
	scenarios              []scenario
	changes, idle, members bool
}

func chooseScenarios(names string) (chosen, error) {
	wanted := strings.Split(names, ",")
	for _, name := range wanted {
		if !slices.Contains(scenarioNames(), name) {
			return chosen{}, fmt.Errorf("unknown scenario %q: choose from %s", name, strings.Join(scenarioNames(), ", "))
		}
	}
	c := chosen{changes: slices.Contains(wanted, changes), idle: slices.Contains(wanted, idle), members: slices.Contains(wanted, members)}
	for _, s := range scenarios {
		if slices.Contains(wanted, s.name) {
			c.scenarios = append(c.scenarios, s)
		}
	}
	return c, nil
}

// ofSize returns the scenarios with a number of members.
func (c chosen) ofSize(members int) []scenario {
	var some []scenario
	for _, s := range c.scenarios {
		if s.members == members {
			some = append(some, s)
		}
	}
	return some
}

// leader returns the ordinal that leads at the start of a pair: each in turn, except a hanging one.
func (s scenario) leader(pair int) int {
	if s.frozen {
		return 1 + pair%(s.members-1)
	}
	return pair % s.members
}
