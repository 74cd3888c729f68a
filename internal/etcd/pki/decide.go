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

// Action is what is done to the Secrets of a connection.
type Action string

// The actions. Only Retire removes something that members and clients may rely on.
const (
	// MakeCA makes the first CA.
	MakeCA Action = "MakeCA"
	// Trust writes the bundle: all CAs to trust, in addition to those that it already has.
	Trust Action = "Trust"
	// Issue issues a certificate.
	Issue Action = "Issue"
	// CopyCAs copies the bundle to the Secret of a certificate.
	CopyCAs Action = "CopyCAs"
	// RenewCA makes the next CA, which is trusted but signs nothing yet.
	RenewCA Action = "RenewCA"
	// Promote makes the next CA the one that signs.
	Promote Action = "Promote"
	// Retire ends the trust in the previous CA.
	Retire Action = "Retire"
)

// Step is one write of one Secret.
type Step struct {
	Action Action
	Secret string
	Why    string
	// Want is the certificate to issue, or to copy the CAs to.
	Want Want
	// CA of the issuer, for MakeCA and RenewCA; nil if the operator makes one.
	CA *x509.Certificate
}

// Problem is what a person has to fix.
type Problem struct {
	Secret string
	// What is wrong, as the rest of a sentence.
	What string
}

// Decision says what to do for a connection.
type Decision struct {
	// Step to take; nil if there is none. After it, the Secrets are read and the decision is made again.
	Step     *Step
	Problems []Problem
	// Warnings are what a person should check. They block nothing.
	Warnings []Problem
	// At is when to look again; zero if nothing is due.
	At time.Time
	// Waiting says what a renewal of the CA waits for; empty without one.
	Waiting string
	// NotRenewed says why a requested renewal does not begin, and what to do; empty if it begins, or is in progress.
	NotRenewed string
}

// Decide decides what is done next.
//
// CAs are never replaced at once: every member trusts a new CA before it signs, and the old one is trusted until the last certificate that
// it signed has expired. Removed or changed parts are added again if that takes nothing away from members and clients; otherwise they are
// reported as a problem.
func Decide(spec Spec, state State, now Input) Decision {
	d := &decision{spec: spec, state: state, now: now}
	for _, secret := range d.secrets() {
		if err := state.Broken[secret]; err != nil {
			d.problem(secret, "cannot be used: %v. Restore it from a backup%s", err, d.orDelete(secret))
		}
	}
	switch {
	case state.Broken[spec.KeySecret] != nil || state.Broken[spec.BundleSecret] != nil:
	case state.Authority == nil && spec.External:
		d.adoptCA()
	case state.Authority == nil:
		d.withoutCA()
	default:
		d.withCA()
	}
	return d.Decision
}

type decision struct {
	Decision
	spec  Spec
	state State
	now   Input
}

func (d *decision) secrets() []string {
	all := []string{d.spec.KeySecret, d.spec.BundleSecret}
	for _, w := range d.spec.Leaves {
		all = append(all, w.Secret)
	}
	return all
}

// orDelete returns the end of the advice for a Secret that can be recreated without harm.
func (d *decision) orDelete(secret string) string {
	if secret == d.spec.KeySecret {
		return ""
	}
	if d.spec.External {
		return ", or delete it: the operator writes it again"
	}
	return ", or delete it: the operator makes it again from the CA"
}

func (d *decision) problem(secret, what string, args ...any) {
	d.Problems = append(d.Problems, Problem{secret, fmt.Sprintf(what, args...)})
}

// step decides on a step unless there already is one.
func (d *decision) step(action Action, secret, why string, args ...any) {
	if d.Step == nil {
		d.Step = &Step{Action: action, Secret: secret, Why: fmt.Sprintf(why, args...)}
	}
}

// look requests another reading of the Secrets at a time.
func (d *decision) look(at time.Time) {
	if d.At.IsZero() || at.Before(d.At) {
		d.At = at
	}
}

// withoutCA makes a CA for a connection that never had one. Otherwise the key was lost, and another CA would cut off members and
// clients, which trust the old one.
func (d *decision) withoutCA() {
	left := len(d.state.Bundle) > 0 || len(d.state.Leaves) > 0 || len(d.state.Broken) > 0
	switch {
	case d.now.Frozen:
		d.problem(d.spec.KeySecret, "does not exist, and is not created while the spec is not carried out")
	case !left && !d.now.InUse:
		d.step(MakeCA, d.spec.KeySecret, "there is no CA yet")
	case d.now.RenewCA && len(d.state.Bundle) == 0 && d.now.Stopped:
		d.step(MakeCA, d.spec.KeySecret, "the CA was lost, there are no members, and a new CA was asked for")
	case d.now.RenewCA && len(d.state.Bundle) == 1:
		d.step(RenewCA, d.spec.KeySecret, "the key of the CA was lost, and a new CA was asked for")
	case len(d.state.Bundle) == 1:
		d.problem(d.spec.KeySecret, "does not exist, and so certificates cannot be renewed. Restore it from a backup; or %s", renewal)
	default:
		d.problem(d.spec.KeySecret, "does not exist, and another CA would cut off members and clients. Restore it from a backup, with Secret %s; "+
			"or hibernate the Etcd, delete all other Secrets of this CA, and annotate the Etcd with druid.gardener.cloud/operation=renew-ca: clients then have to load the new CA", d.spec.BundleSecret)
	}
}

// renewal is the advice for a lost key.
const renewal = "have the CA renewed, with both CAs trusted: annotate the Etcd with druid.gardener.cloud/operation=renew-ca"

func (d *decision) withCA() {
	a := d.state.Authority
	if d.now.Now.Before(a.Signer.Certificate.NotBefore) {
		d.problem(d.spec.KeySecret, "has a CA that is not valid before %s. Check the clock of the operator", stamp(a.Signer.Certificate.NotBefore))
		return
	}
	bundle := d.trust()
	if d.spec.External {
		d.copies(bundle)
		d.follow(bundle)
		return
	}
	d.leaves(bundle)
	d.renew(bundle)
}

// trust decides on the bundle, and reports whether it is complete.
func (d *decision) trust() (complete bool) {
	a := d.state.Authority
	if len(d.state.Bundle) == 0 && len(d.state.Leaves) > 0 && !slices.ContainsFunc(a.trusted(), d.signs) {
		d.problem(d.spec.BundleSecret, "does not exist, and the CA of Secret %s has signed none of the certificates in use: trusting it alone would cut off members and clients. Restore both from a backup", d.spec.KeySecret)
		return false
	}
	if len(d.state.Bundle) == 0 {
		d.step(Trust, d.spec.BundleSecret, "it did not exist")
		return false
	}
	signer := a.Signer.Certificate
	if !contains(d.state.Bundle, signer) && !d.signs(signer) && (a.Previous == nil || !contains(d.state.Bundle, a.Previous)) {
		d.problem(d.spec.KeySecret, "has another CA than those that members and clients trust by Secret %s. Restore it from a backup", d.spec.BundleSecret)
		return false
	}
	for _, c := range a.trusted() {
		if !contains(d.state.Bundle, c) {
			d.step(Trust, d.spec.BundleSecret, "the CA %q was not in it", c.Subject.CommonName)
			return false
		}
	}
	for _, c := range d.state.Bundle {
		switch {
		case contains(a.trusted(), c):
		case a.Retired != nil && a.Retired.Equal(c):
			d.step(Trust, d.spec.BundleSecret, "the CA %q is no longer trusted", c.Subject.CommonName)
		default:
			d.Warnings = append(d.Warnings, Problem{d.spec.BundleSecret, fmt.Sprintf("has a CA that the operator did not add (%q). Members and clients trust it. Remove it, unless something relies on it", c.Subject)})
		}
	}
	return true
}

// signs reports whether a CA has signed any of the certificates.
func (d *decision) signs(ca *x509.Certificate) bool {
	for _, leaf := range d.state.Leaves {
		if leaf.signedBy(ca) {
			return true
		}
	}
	return false
}

// leaves decides on the certificates. None is issued before its CA is trusted.
func (d *decision) leaves(trusted bool) {
	for _, want := range d.spec.Leaves {
		if d.state.Broken[want.Secret] != nil {
			continue
		}
		leaf := d.state.Leaves[want.Secret]
		why := d.due(want, leaf)
		switch {
		case why == "" && leaf != nil && want.WithCAs && trusted && !sameCAs(leaf.CAs, d.state.Bundle):
			d.issue(CopyCAs, want, "the CAs have changed")
		case why == "":
		case !trusted:
		case leaf == nil && d.now.Frozen:
			d.problem(want.Secret, "does not exist, and is not created while the spec is not carried out")
		case d.state.Authority.Signer.Key == nil:
			d.problem(want.Secret, "cannot be issued (%s): the CA has no key", why)
		case d.state.Authority.Expired(d.now.Now):
			d.problem(want.Secret, "cannot be issued (%s): the CA expired at %s. It can once the CA is renewed", why, stamp(d.state.Authority.Signer.Certificate.NotAfter))
		default:
			d.issue(Issue, want, why)
		}
	}
}

func (d *decision) issue(action Action, want Want, why string) {
	if d.Step == nil {
		d.Step = &Step{Action: action, Secret: want.Secret, Why: why, Want: want}
	}
}

// due returns why a certificate has to be issued; empty if it does not.
func (d *decision) due(want Want, leaf *Leaf) (why string) {
	a := d.state.Authority
	if leaf == nil {
		return "it did not exist"
	}
	renewAt := leaf.Certificate.NotAfter.Add(-d.spec.LeafRenewBefore)
	switch {
	case d.now.Now.Before(leaf.Certificate.NotBefore):
		d.problem(want.Secret, "has a certificate that is not valid before %s. Check the clock of the operator, or delete the Secret: the operator makes it again from the CA", stamp(leaf.Certificate.NotBefore))
		return ""
	case signed(a.Previous, leaf.Certificate):
		return "the CA was renewed"
	case a.Next != nil && signed(a.Next.Certificate, leaf.Certificate):
		// The Secret with the CA was restored from a backup, and this CA follows.
		return ""
	case !signed(a.Signer.Certificate, leaf.Certificate):
		d.problem(want.Secret, "has a certificate that the CA of Secret %s did not sign: it was replaced. Delete the Secret: the operator makes it again", d.spec.KeySecret)
		return ""
	case !slices.Equal(slices.Sorted(slices.Values(leaf.Certificate.DNSNames)), slices.Sorted(slices.Values(want.Hosts))):
		return "it is for other host names"
	case !slices.Equal(leaf.Certificate.ExtKeyUsage, want.Usages):
		return "it is for another use"
	case leaf.Certificate.NotAfter.Equal(a.Signer.Certificate.NotAfter):
		// A new one would not be valid for longer.
		return ""
	case !d.now.Now.Before(renewAt):
		return "it expires at " + stamp(leaf.Certificate.NotAfter)
	}
	d.look(renewAt)
	return ""
}

// renew decides on the renewal of the CA, once nothing else is left to do.
func (d *decision) renew(trusted bool) {
	a := d.state.Authority
	expires := a.Signer.Certificate.NotAfter
	quiet := trusted && d.Step == nil && !d.now.Frozen
	switch {
	case a.Next != nil:
		d.promote(quiet)
	case a.Previous != nil:
		d.retire(quiet)
	case quiet && d.now.RenewCA:
		d.step(RenewCA, d.spec.KeySecret, "a renewal was requested")
	case a.Signer.Key == nil:
		d.problem(d.spec.KeySecret, "has no private key, and so certificates cannot be renewed. Restore it from a backup; or %s", renewal)
	case !d.now.Now.Before(expires.Add(-d.spec.CARenewBefore)):
		d.look(d.now.Now)
		if quiet {
			d.step(RenewCA, d.spec.KeySecret, "it expires at %s", stamp(expires))
		}
		d.overdueCA("it was not renewed")
	default:
		d.look(expires.Add(-d.spec.CARenewBefore))
	}
}

// promote decides whether the next CA signs. Once the one that signs has expired, so has all that it has signed: there is nothing left that the
// next one could cut off, and no member that participates and could start with it.
func (d *decision) promote(quiet bool) {
	a := d.state.Authority
	d.Waiting = "the new CA signs nothing until every member trusts it, and not before " + stamp(a.NextFrom)
	d.look(d.now.Now)
	usable := d.now.Now.Before(a.Next.Certificate.NotAfter)
	switch trusted := d.now.Trusted && !d.now.Now.Before(a.NextFrom); {
	case quiet && trusted && usable:
		d.step(Promote, d.spec.KeySecret, "every member trusts it")
	case quiet && usable && d.now.Expired && a.Expired(d.now.Now):
		d.step(Promote, d.spec.KeySecret, "the CA before it expired at %s, with all that it has signed", stamp(a.Signer.Certificate.NotAfter))
	case quiet && usable && d.now.Expired:
		d.step(Promote, d.spec.KeySecret, "the certificates with which members serve have expired")
	case quiet && d.now.Expired && !usable && !d.spec.External:
		d.step(RenewCA, d.spec.KeySecret, "the next CA expired before it signed")
	}
	if !d.spec.External { // the certificates in use tell how urgent it is
		d.overdueCA("not every member has started with the next one: see what keeps the rollout")
	}
}

// overdueCA reports that the CA is not renewed although half of the time for it has passed: all its certificates expire with it.
func (d *decision) overdueCA(why string) {
	expires := d.state.Authority.Signer.Certificate.NotAfter
	if d.Step != nil || d.now.Now.Before(expires.Add(-d.spec.CARenewBefore/2)) {
		return
	}
	if d.now.Frozen {
		why = "the spec is not carried out"
	}
	d.problem(d.spec.KeySecret, "has a CA that is valid until %s, and so is every certificate, and no other one signs yet: %s", stamp(expires), why)
}

// retire decides whether the trust in the previous CA ends.
func (d *decision) retire(quiet bool) {
	a := d.state.Authority
	d.Waiting = fmt.Sprintf("the previous CA is trusted until its last certificate expires, at %s", stamp(a.PreviousUntil))
	d.look(a.PreviousUntil)
	if d.now.RenewCA && !d.spec.External {
		d.NotRenewed = d.Waiting + ". To end that earlier, set the annotation druid.gardener.cloud/previous-ca-trusted-until of the Secret; request the renewal again after the event CARetired"
	}
	if quiet && len(d.Problems) == 0 && d.now.Loaded && d.now.Now.After(a.PreviousUntil) {
		d.step(Retire, d.spec.KeySecret, "its last certificate has expired")
	}
}

func sameCAs(a, b []*x509.Certificate) bool {
	return slices.EqualFunc(a, b, (*x509.Certificate).Equal)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
