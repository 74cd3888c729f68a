// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"
)

// Perform returns the state after a step. It does not change the given state.
func Perform(spec Spec, state State, step Step, now time.Time) (State, error) {
	next := state
	a := Authority{}
	if state.Authority != nil {
		a = *state.Authority
	}
	if step.CA != nil {
		a.follow(step.CA, now.Add(noticeOfIssuer(spec, state, now)))
		next.Authority = &a
		return next, nil
	}
	var err error
	switch step.Action {
	case MakeCA:
		a.Signer, err = newCA(spec.Owner, spec.CA, now, time.Time{})
	case RenewCA:
		if a.Signer == nil {
			// The key was lost, and with it the Secret.
			a.Signer = &Pair{Certificate: state.Bundle[0]}
		}
		if a.Next != nil {
			a.Retired = a.Next.Certificate // it has signed nothing
		}
		a.Next, err = newCA(spec.Owner, spec.CA, now, a.Signer.Certificate.NotBefore)
		a.NextFrom = now.Add(notice(spec, a))
	case Promote:
		a.Previous, a.PreviousUntil = a.Signer.Certificate, lastExpiry(spec, state, now)
		a.Signer, a.Next, a.NextFrom = a.Next, nil, time.Time{}
	case Retire:
		a.Retired, a.Previous, a.PreviousUntil = a.Previous, nil, time.Time{}
	case Trust:
		next.Bundle = bundle(state)
		return next, nil
	case Issue, CopyCAs:
		leaf, err := performOnLeaf(spec, state, step, now)
		if err != nil {
			return state, err
		}
		next.Leaves = map[string]*Leaf{}
		for name, l := range state.Leaves {
			next.Leaves[name] = l
		}
		next.Leaves[step.Secret] = leaf
		return next, nil
	default:
		return state, fmt.Errorf("unknown action %q", step.Action)
	}
	if err != nil {
		return state, err
	}
	next.Authority = &a
	return next, nil
}

// follow makes the CA of an issuer the one that signs if there is none, and otherwise the next one. One that was to be next has
// signed nothing in use.
func (a *Authority) follow(ca *x509.Certificate, from time.Time) {
	if a.Signer == nil {
		a.Signer = &Pair{Certificate: ca}
		return
	}
	if a.Next != nil {
		a.Retired = a.Next.Certificate
	}
	if a.Retired != nil && a.Retired.Equal(ca) {
		a.Retired = nil
	}
	if a.Previous != nil && a.Previous.Equal(ca) {
		a.Previous, a.PreviousUntil = nil, time.Time{}
	}
	a.Next, a.NextFrom = &Pair{Certificate: ca}, from
}

// maxNotice is the longest time that clients get to load the next CA.
const maxNotice = 7 * 24 * time.Hour

// notice returns how long the next CA is trusted before it signs. Certificates are valid for longer; if the key of the present CA
// was lost, none could be issued until then.
func notice(spec Spec, a Authority) time.Duration {
	if a.Signer.Key == nil {
		return 0
	}
	return min(spec.LeafRenewBefore, maxNotice)
}

// noticeOfIssuer returns the same for the CA of an issuer. That has renewed a certificate already, and the one in use is to be replaced long
// before it expires.
func noticeOfIssuer(spec Spec, state State, now time.Time) time.Duration {
	notice := min(spec.LeafRenewBefore/3, maxNotice)
	for _, leaf := range state.Leaves {
		notice = min(notice, max(0, state.validUntil(leaf).Sub(now)/2))
	}
	return notice
}

// lastExpiry returns when the last certificate expires that the CA has signed, as far as the Secrets show.
func lastExpiry(spec Spec, state State, now time.Time) time.Time {
	ca := state.Authority.Signer.Certificate
	var last time.Time
	for _, leaf := range state.Leaves {
		if leaf.signedBy(ca) && leaf.Certificate.NotAfter.After(last) {
			last = leaf.Certificate.NotAfter
		}
	}
	// Certificates that are no longer in the Secrets may still be in use. None is left where the CA is that of a backup.
	if gone := now.Add(spec.Leaf); (len(state.Leaves) < len(spec.Leaves) || last.IsZero()) && gone.After(last) {
		last = gone
	}
	if last.After(ca.NotAfter) {
		last = ca.NotAfter
	}
	return last
}

// bundle returns the CAs that are to be trusted, and those that already are, except for the retired one.
func bundle(state State) []*x509.Certificate {
	all := state.Authority.trusted()
	retired := state.Authority.Retired
	for _, c := range state.Bundle {
		if !contains(all, c) && (retired == nil || !retired.Equal(c)) {
			all = append(all, c)
		}
	}
	return all
}

func performOnLeaf(spec Spec, state State, step Step, now time.Time) (*Leaf, error) {
	before, leaf := state.Leaves[step.Secret], &Leaf{}
	switch {
	case step.Action == CopyCAs:
		*leaf = *before
	case spec.External:
		*leaf = *state.Issued[step.Secret].Leaf
		leaf.CAs = nil
	default:
		var replaced *x509.Certificate
		if before != nil {
			replaced = before.Certificate
		}
		pair, err := newLeaf(state.Authority.Signer, step.Want, spec.Leaf, now, replaced)
		if err != nil {
			return nil, err
		}
		leaf.Pair = *pair
	}
	if step.Want.WithCAs {
		leaf.CAs = slices.Clone(state.Bundle)
	}
	return leaf, nil
}
