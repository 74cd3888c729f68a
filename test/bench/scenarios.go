// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
)

// scenario is a cluster to roll.
type scenario struct {
	name    string
	members int
	frozen  bool // member 0 hangs
}

// scenarios in the order in which they are measured.
var scenarios = []scenario{
	{"3-healthy", 3, false},
	{"3-frozen", 3, true},
	{"5-healthy", 5, false},
	{"5-frozen", 5, true},
}

// idle is the name of the measurement without a rollout: an idle operator.
const idle = "idle"

func scenarioNames() []string {
	var names []string
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	return append(names, idle)
}

// chosen is the selection of measurements.
type chosen struct {
	scenarios []scenario
	idle      bool
}

func chooseScenarios(names string) (chosen, error) {
	wanted := strings.Split(names, ",")
	for _, name := range wanted {
		if !slices.Contains(scenarioNames(), name) {
			return chosen{}, fmt.Errorf("unknown scenario %q: choose from %s", name, strings.Join(scenarioNames(), ", "))
		}
	}
	c := chosen{idle: slices.Contains(wanted, idle)}
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
