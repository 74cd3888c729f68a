// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/base/boundedpem"
)

// Issued is what an external issuer has issued for a Secret. Members use it once the operator has copied it.
type Issued struct {
	// Leaf is nil while there is none.
	Leaf *Leaf
	// Root is the CA that the issuer names and that has signed it.
	Root *x509.Certificate
	// Lacking says what keeps the issuer from issuing, as a sentence without its full stop; empty if nothing does.
	Lacking string
}

// settling is how soon a Secret is read again whose certificate is about to be issued.
const settling = time.Minute

// NewIssued returns what an issuer has issued: a certificate with its intermediates and its key, and the CAs that the issuer names.
func NewIssued(certificate, key, cas []byte) (*Issued, error) {
	leaf, err := ParseLeaf(certificate, key)
	if err != nil {
		return nil, err
	}
	if len(cas) == 0 {
		return nil, fmt.Errorf("the issuer names no CA (ca.crt is empty), so members could not verify each other: use an issuer that does, such as one of type CA or Vault")
	}
	named, err := boundedpem.Certificates(cas)
	if err != nil {
		return nil, fmt.Errorf("ca.crt: %w", err)
	}
	for _, ca := range named {
		if leaf.signedBy(ca) {
			return &Issued{Leaf: leaf, Root: ca}, nil
		}
	}
	return nil, fmt.Errorf("no CA in ca.crt has signed the certificate")
}

// For reports whether a certificate is for the wanted hosts.
func (i *Issued) For(want Want) bool {
	return slices.Equal(slices.Sorted(slices.Values(i.Leaf.Certificate.DNSNames)), slices.Sorted(slices.Values(want.Hosts)))
}

// usable returns why a certificate must not replace a working one; empty if it may.
func (i *Issued) usable(want Want, now time.Time) string {
	c := i.Leaf.Certificate
	switch {
	case now.Before(c.NotBefore):
		return "is not valid before " + stamp(c.NotBefore)
	case now.After(c.NotAfter):
		return "expired at " + stamp(c.NotAfter)
	}
	for _, host := range want.Hosts {
		if !slices.Contains(c.DNSNames, host) {
			return "is not for host " + host
		}
	}
	for _, usage := range want.Usages {
		if !slices.Contains(c.ExtKeyUsage, usage) && !slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny) {
			return "is not for each use that it was requested for: " + strings.Join(usageNames(want.Usages), " and ")
		}
	}
	return ""
}

func usageNames(usages []x509.ExtKeyUsage) (names []string) {
	for _, usage := range usages {
		names = append(names, map[x509.ExtKeyUsage]string{x509.ExtKeyUsageServerAuth: "server auth", x509.ExtKeyUsageClientAuth: "client auth"}[usage])
	}
	return names
}

// adoptCA begins with the CA of the issuer. If the record of the CAs was lost, that is the one that has signed what members use.
func (d *decision) adoptCA() {
	left := len(d.state.Leaves) > 0 || len(d.state.Broken) > 0
	switch {
	case d.now.Frozen:
		d.problem(d.spec.KeySecret, "does not exist, and is not created while the spec is not carried out")
	case len(d.state.Bundle) > 0:
		for _, ca := range d.state.Bundle {
			if d.signs(ca) {
				d.adopt(ca, "it did not exist, and this CA has signed the certificates in use")
				return
			}
		}
		d.problem(d.spec.KeySecret, "does not exist, and no CA in Secret %s has signed the certificates in use. Restore it from a backup", d.spec.BundleSecret)
	case d.now.Stopped || !left && !d.now.InUse:
		if root := d.onlyRoot(); root != nil {
			d.adopt(root, "it is the CA of the issuer")
		}
	default:
		d.problem(d.spec.KeySecret, "does not exist, nor does Secret %s, and another CA could cut off members and clients. Restore both from a backup, or hibernate the Etcd: then the CA of the issuer is used", d.spec.BundleSecret)
	}
}

func (d *decision) adopt(ca *x509.Certificate, why string) {
	d.step(MakeCA, d.spec.KeySecret, "%s", why)
	d.Step.CA = ca
}

// onlyRoot returns the CA of all that was issued; nil while something is missing, or if there is more than one.
func (d *decision) onlyRoot() (root *x509.Certificate) {
	for _, want := range d.spec.Leaves {
		issued := d.state.Issued[want.Secret]
		switch why := d.unissued(want, issued); {
		case why != "":
			d.problem(want.Secret, "cannot be written: %s", why)
			d.look(d.now.Now)
		case root != nil && !root.Equal(issued.Root):
			d.problem(want.Secret, "cannot be written: the issuer signs with several CAs at once")
			return nil
		default:
			root = issued.Root
		}
	}
	if len(d.Problems) > 0 {
		return nil
	}
	return root
}

// unissued returns why there is nothing to copy; empty if there is.
func (d *decision) unissued(want Want, issued *Issued) string {
	if issued == nil {
		return "nothing was issued"
	}
	if issued.Leaf == nil {
		return issued.Lacking
	}
	if why := issued.usable(want, d.now.Now); why != "" {
		return "the certificate that was issued " + why
	}
	return ""
}

// copies decides on the certificates of an issuer: each is copied once its CA signs, unless members would not accept it.
func (d *decision) copies(trusted bool) {
	for _, want := range d.spec.Leaves {
		leaf, issued := d.state.Leaves[want.Secret], d.state.Issued[want.Secret]
		if d.state.Broken[want.Secret] != nil {
			continue
		}
		why := d.unissued(want, issued)
		same := leaf != nil && issued != nil && issued.Leaf != nil && leaf.Certificate.Equal(issued.Leaf.Certificate)
		switch {
		case leaf != nil && (same || why != ""):
			d.overdue(want, leaf, why)
			if want.WithCAs && trusted && !sameCAs(leaf.CAs, d.state.Bundle) {
				d.issue(CopyCAs, want, "the CAs have changed")
			}
		case why != "":
			d.look(d.now.Now)
			d.problem(want.Secret, "does not exist, and cannot be written: %s", why)
		case leaf == nil && d.now.Frozen:
			d.problem(want.Secret, "does not exist, and is not created while the spec is not carried out")
		case trusted && issued.Root.Equal(d.state.Authority.Signer.Certificate):
			d.issue(Issue, want, "the issuer has issued it")
		case leaf == nil:
			d.look(d.now.Now)
			d.problem(want.Secret, "does not exist, and is not written before every member trusts the CA that has signed it")
		default:
			d.late(want, leaf, "the certificate that was issued is not used before every member trusts the CA that has signed it")
		}
	}
}

// overdue reports that a certificate is not renewed: first as a warning, and as a problem once half of the time for it has passed.
func (d *decision) overdue(want Want, leaf *Leaf, why string) {
	renewAt := d.state.validUntil(leaf).Add(-d.renewBefore(leaf))
	if d.now.Now.Before(renewAt) {
		d.look(renewAt.Add(settling))
	} else {
		d.look(d.now.Now.Add(settling))
	}
	if !d.late(want, leaf, cmp.Or(why, "the issuer has issued no other certificate")) && why != "" {
		d.Warnings = append(d.Warnings, Problem{want.Secret, "is kept as it is: " + why})
	}
}

// late reports that half of the time for the renewal of a certificate has passed.
func (d *decision) late(want Want, leaf *Leaf, why string) bool {
	until := d.state.validUntil(leaf)
	if at := until.Add(-d.renewBefore(leaf) / 2); !d.now.Now.After(at) {
		d.look(at.Add(settling))
		return false
	}
	if until.Before(leaf.Certificate.NotAfter) {
		d.problem(want.Secret, "has a certificate whose CA expires before it, at %s, and it was not renewed: %s", stamp(until), why)
	} else {
		d.problem(want.Secret, "expires at %s and was not renewed: %s", stamp(until), why)
	}
	return true
}

// renewBefore returns how long before its end a certificate is renewed. An issuer may issue it for a shorter time than it was asked for, and
// then renews it after two thirds of that, as cert-manager does.
func (d *decision) renewBefore(leaf *Leaf) time.Duration {
	return min(d.spec.LeafRenewBefore, leaf.Certificate.NotAfter.Sub(leaf.Certificate.NotBefore)/3)
}

// follow decides on a CA that the issuer has begun to sign with: it becomes the next one, like a CA that the operator renews.
func (d *decision) follow(trusted bool) {
	a, quiet := d.state.Authority, trusted && d.Step == nil && !d.now.Frozen
	other := d.otherRoot()
	switch {
	case other != nil && (a.Next == nil || !d.issuedBy(a.Next.Certificate)):
		d.Waiting = "the issuer signs with another CA"
		d.look(d.now.Now)
		if quiet {
			d.step(RenewCA, d.spec.KeySecret, "the issuer signs with another CA, %q", other.Subject)
			d.Step.CA = other
		}
	case a.Next != nil && !d.issuedBy(a.Next.Certificate):
		d.Waiting = "the issuer has gone back to the CA that signs; the other one stays trusted until it signs again"
		d.look(d.now.Now.Add(settling))
	case a.Next != nil:
		d.promote(quiet)
	case a.Previous != nil:
		d.retire(quiet && !d.reliesOn(a.Previous))
	}
}

// reliesOn reports whether a certificate is signed by a CA, and not by the one that signs now, which may have the same key.
func (d *decision) reliesOn(ca *x509.Certificate) bool {
	for _, leaf := range d.state.Leaves {
		if leaf.signedBy(ca) && !leaf.signedBy(d.state.Authority.Signer.Certificate) {
			return true
		}
	}
	return false
}

// otherRoot returns the CA of a certificate that is ready to be copied, unless the CA that signs or the next one has signed it; nil
// if there is none.
func (d *decision) otherRoot() *x509.Certificate {
	a := d.state.Authority
	for _, want := range d.spec.Leaves {
		leaf, issued := d.state.Leaves[want.Secret], d.state.Issued[want.Secret]
		switch {
		case d.unissued(want, issued) != "":
		case leaf != nil && leaf.Certificate.Equal(issued.Leaf.Certificate):
		case issued.Root.Equal(a.Signer.Certificate), a.Next != nil && issued.Root.Equal(a.Next.Certificate):
		default:
			return issued.Root
		}
	}
	return nil
}

// issuedBy reports whether a CA has signed anything that is ready to be copied.
func (d *decision) issuedBy(ca *x509.Certificate) bool {
	return slices.ContainsFunc(d.spec.Leaves, func(want Want) bool {
		issued := d.state.Issued[want.Secret]
		return d.unissued(want, issued) == "" && issued.Root.Equal(ca)
	})
}
