// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/base/boundedpem"
)

// Owner of a CA.
type Owner struct {
	Namespace, Name string
	// Connection that it is for, in lower case.
	Connection string
}

// Durations of certificates and CAs.
type Durations struct {
	Leaf, LeafRenewBefore, CA, CARenewBefore time.Duration
}

// Want is a desired certificate.
type Want struct {
	// Secret that holds it.
	Secret     string
	CommonName string
	Hosts      []string
	Usages     []x509.ExtKeyUsage
	// WithCAs: the Secret has a copy of the bundle too.
	WithCAs bool
}

// Spec is what a connection needs.
type Spec struct {
	Owner
	Durations
	Leaves []Want
	// KeySecret and BundleSecret hold the CA's key, and the CAs that are trusted.
	KeySecret, BundleSecret string
	// External: an issuer such as cert-manager issues the certificates. KeySecret then has the CAs without keys.
	External bool
}

// Authority is the CA of a connection: the content of its Secret.
type Authority struct {
	// Signer signs certificates. Its key is nil if it was lost, or if the issuer has it.
	Signer *Pair
	// Next replaces Signer once every member trusts it; nil if there is no renewal.
	Next *Pair
	// NextFrom is when Next signs at the earliest: until then, clients that only read their CAs at their start have to restart.
	NextFrom time.Time
	// Previous signed before, and is trusted until its last certificate has expired.
	Previous      *x509.Certificate
	PreviousUntil time.Time
	// Retired is the last CA that is no longer trusted. It may still be in the bundle.
	Retired *x509.Certificate
}

// Expired reports whether the CA that signs has expired, and with it everything that it has signed.
func (a *Authority) Expired(now time.Time) bool { return now.After(a.Signer.Certificate.NotAfter) }

// trusted returns the CAs that members and clients are to trust.
func (a *Authority) trusted() []*x509.Certificate {
	all := []*x509.Certificate{a.Signer.Certificate}
	if a.Next != nil {
		all = append(all, a.Next.Certificate)
	}
	if a.Previous != nil {
		all = append(all, a.Previous)
	}
	return all
}

// Leaf is the content of the Secret of a certificate.
type Leaf struct {
	Pair
	// Intermediates lead from the certificate to its CA; none if the CA has signed it.
	Intermediates []*x509.Certificate
	// CAs is the copy of the bundle.
	CAs []*x509.Certificate
}

// ParseLeaf parses a certificate, with its intermediates, and its key.
func ParseLeaf(certificate, key []byte) (*Leaf, error) {
	all, err := boundedpem.Certificates(certificate)
	if err != nil {
		return nil, err
	}
	if len(all) > boundedpem.MaxChain {
		return nil, fmt.Errorf("it has more than %d certificates: remove those that are not needed", boundedpem.MaxChain)
	}
	pair, err := ParsePair(EncodeCertificates(all[0]), key)
	if err != nil {
		return nil, err
	}
	if pair.Key == nil {
		return nil, errors.New("there is no private key")
	}
	return &Leaf{Pair: *pair, Intermediates: all[1:]}, nil
}

// signedBy reports whether a CA has signed a certificate, or one of its intermediates.
func (l *Leaf) signedBy(ca *x509.Certificate) bool { return l.chain(ca) != nil }

// chain leads from a certificate to a CA, with both; nil if that has signed neither the certificate nor one of its intermediates.
func (l *Leaf) chain(ca *x509.Certificate) []*x509.Certificate {
	chain := []*x509.Certificate{l.Certificate}
	for range len(l.Intermediates) + 1 {
		at := chain[len(chain)-1]
		if signed(ca, at) {
			return append(chain, ca)
		}
		i := slices.IndexFunc(l.Intermediates, func(c *x509.Certificate) bool { return signed(c, at) })
		if i < 0 {
			return nil
		}
		chain = append(chain, l.Intermediates[i])
	}
	return nil
}

// State is the content of the Secrets of a connection.
type State struct {
	// Authority is nil if there is no such Secret.
	Authority *Authority
	// Bundle is empty if there is no such Secret.
	Bundle []*x509.Certificate
	// Leaves by the names of their Secrets, as far as these exist.
	Leaves map[string]*Leaf
	// Issued is what an issuer has issued, by the names of the Secrets that it is for.
	Issued map[string]*Issued
	// Broken are Secrets whose content cannot be used, and why.
	Broken map[string]error
}

// validUntil returns until when members accept a certificate: until it expires, or before that an intermediate or the CA, since issuers may issue
// certificates that outlive both.
func (s State) validUntil(leaf *Leaf) (until time.Time) {
	for _, ca := range s.Bundle {
		chain := leaf.chain(ca)
		if chain == nil {
			continue
		}
		if first := slices.MinFunc(chain, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }).NotAfter; first.After(until) {
			until = first
		}
	}
	if until.IsZero() {
		return leaf.Certificate.NotAfter
	}
	return until
}

// Expired reports whether members can be reached by nothing that the CA that signs has signed: it has expired, or each of the certificates that
// members serve with.
func (s State) Expired(spec Spec, now time.Time) bool {
	if s.Authority == nil {
		return false
	}
	if s.Authority.Expired(now) {
		return true
	}
	served := slices.DeleteFunc(slices.Clone(spec.Leaves), func(want Want) bool { return !slices.Contains(want.Usages, x509.ExtKeyUsageServerAuth) })
	return len(served) > 0 && !slices.ContainsFunc(served, func(want Want) bool {
		leaf := s.Leaves[want.Secret]
		return leaf == nil || !now.After(s.validUntil(leaf))
	})
}

// Input is what is known of the cluster.
type Input struct {
	Now time.Time
	// InUse: the members have served with certificates of this connection.
	InUse bool
	// Stopped: there are no members.
	Stopped bool
	// Frozen: the spec is not carried out. Certificates are still renewed.
	Frozen bool
	// Trusted: every member has run with the present bundle for long enough.
	Trusted bool
	// Loaded: the certificates have been unchanged for long enough.
	Loaded bool
	// Expired: the CA that signs, or what members serve with, has expired (State.Expired) by the clock of the API server, too.
	Expired bool
	// RenewCA: a renewal of the CA is requested.
	RenewCA bool
}
