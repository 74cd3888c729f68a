// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import "slices"

// Conclusion of a decision.
type Conclusion string

// The conclusions.
const (
	// Wait: a guard blocks.
	Wait Conclusion = "Wait"
	// Act: carry out the step.
	Act Conclusion = "Act"
	// Finished: the members are what they are to be.
	Finished Conclusion = "Finished"
)

// Hold is a guard that blocks a step, and why.
type Hold struct {
	Guard   Guard
	Message string
}

// Decision is what to do next, and why.
type Decision struct {
	Conclusion Conclusion
	// Step, with Act; and with Wait, the one that is blocked, nil where there is none yet.
	Step *Step
	// Blocking are the guards that block, in their order, with Wait. There is at least one.
	Blocking []Hold
}

// Decide says what to do next.
func Decide(in Input) Decision { return decide(newState(in), guards) }

func decide(s *state, guards []guard) Decision {
	if holds := s.blocking(guards, nil); len(holds) > 0 {
		return Decision{Conclusion: Wait, Blocking: holds}
	}
	step := s.candidate()
	if step == nil {
		return Decision{Conclusion: Finished}
	}
	if holds := s.blocking(guards, step); len(holds) > 0 {
		return Decision{Conclusion: Wait, Step: step, Blocking: holds}
	}
	return Decision{Conclusion: Act, Step: step}
}

// blocking returns what the guards that block a step say; nothing if all allow it.
func (s *state) blocking(guards []guard, step *Step) []Hold {
	var holds []Hold
	for _, g := range guards {
		asked := step == nil && g.judges == nil || step != nil && slices.Contains(g.judges, step.Action)
		if !asked || g.overridable && slices.Contains(s.Overridden, g.name) {
			continue
		}
		if message := g.check(s, step); message != "" {
			holds = append(holds, Hold{Guard: g.name, Message: message})
		}
	}
	return holds
}
