// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package disturb is what tests share that disturb an operator at each of its writes: what a write is, what may become of it, and members
// and agents that take part. The writes go to a cluster in memory (test/crash/engine) or to a real API server (test/crash/operator).
package disturb

import (
	"errors"
	"fmt"
	"strings"
)

// Write is a request of an operator that changes something, at the API server or at a member.
type Write struct {
	// Number counts the writes of all operators of a run, from one.
	Number int
	Verb   string
	Kind   string
	Name   string
	// Namespace is empty for a member.
	Namespace string
	// Stage is what the status of a task says when it is written: how often that is written within a stage differs from run to run, and
	// which stages there are does not.
	Stage string
}

func (w Write) String() string { return fmt.Sprintf("%d: %s", w.Number, w.What()) }

// What is the write without its number.
func (w Write) What() string {
	return strings.TrimRight(fmt.Sprintf("%s %s %s %s", w.Verb, w.Kind, w.Name, w.Stage), " ")
}

// Fate is what becomes of a write.
type Fate int

// The fates of a write.
const (
	// Answered: it is carried out, and answered.
	Answered Fate = iota
	// KilledBefore: the operator is killed before it is sent.
	KilledBefore
	// KilledAfter: the operator is killed once it is carried out.
	KilledAfter
	// AnswerLost: it is carried out, and the operator is told that it failed.
	AnswerLost
	// NotSent: it is not carried out, and the operator is told that it failed.
	NotSent
)

func (f Fate) String() string {
	return [...]string{"answered", "killed before", "killed after", "answer lost", "not sent"}[f]
}

// ErrKilled is what an operator gets for every request after it was killed.
var ErrKilled = errors.New("the operator was killed")
