// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/rand"
	"crypto/x509"
	"math/big"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// issuer issues certificates for the Secrets of spec, as another issuer than the operator.
type issuer struct {
	g     *WithT
	ca    *Pair
	spec  Spec
	state State
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{g: NewWithT(t), spec: spec, state: State{Issued: map[string]*Issued{}}}
	i.spec.External = true
	i.ca = i.newCA()
	return i
}

func (i *issuer) newCA() *Pair {
	ca, err := newCA(i.spec.Owner, 1000*day, start, time.Time{})
	i.g.Expect(err).NotTo(HaveOccurred())
	return ca
}

// caUntil returns a CA that expires at a time, with the key and the name of another one if that is not nil.
func (i *issuer) caUntil(until time.Time, like *Pair) *Pair {
	if like == nil {
		like = i.newCA()
	}
	template := *like.Certificate
	template.NotAfter, template.SerialNumber = until, big.NewInt(until.Unix())
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, like.Key.Public(), like.Key)
	i.g.Expect(err).NotTo(HaveOccurred())
	certificate, err := x509.ParseCertificate(der)
	i.g.Expect(err).NotTo(HaveOccurred())
	return &Pair{certificate, like.Key}
}

// issue issues a certificate, as it is in a Secret of cert-manager.
func (i *issuer) issue(secret string, at time.Time) {
	for _, want := range i.spec.Leaves {
		if want.Secret != secret {
			continue
		}
		// Other issuers' certificates may outlive the CA.
		lasting := *i.ca.Certificate
		lasting.NotAfter = at.Add(10 * i.spec.Leaf)
		pair, err := newLeaf(&Pair{&lasting, i.ca.Key}, want, i.spec.Leaf, at, nil)
		i.g.Expect(err).NotTo(HaveOccurred())
		certificate, key, err := pair.Encode()
		i.g.Expect(err).NotTo(HaveOccurred())
		i.state.Issued[secret], err = NewIssued(certificate, key, EncodeCertificates(i.ca.Certificate))
		i.g.Expect(err).NotTo(HaveOccurred())
	}
}

func (i *issuer) settle(now Input) (actions []Action, last Decision) {
	for range 20 {
		d := Decide(i.spec, i.state, now)
		if d.Step == nil {
			return actions, d
		}
		actions = append(actions, d.Step.Action)
		next, err := Perform(i.spec, i.state, *d.Step, now.Now)
		i.g.Expect(err).NotTo(HaveOccurred())
		i.state = next
	}
	i.g.Expect(actions).To(BeNil(), "the steps come to an end")
	return nil, Decision{}
}

// running returns a cluster that uses certificates of an issuer.
func running(t *testing.T) *issuer {
	i := newIssuer(t)
	i.issue("server", start)
	i.issue("client", start)
	actions, d := i.settle(Input{Now: start})
	i.g.Expect(actions).To(Equal([]Action{MakeCA, Trust, Issue, Issue}))
	i.g.Expect(d.Problems).To(BeEmpty())
	return i
}

func TestIssuerOfANewCluster(t *testing.T) {
	i := newIssuer(t)
	i.state.Issued["server"] = &Issued{Lacking: "Issuer x does not exist"}
	i.issue("client", start)
	actions, d := i.settle(Input{Now: start})
	i.g.Expect(actions).To(BeEmpty(), "nothing is written before all is issued")
	i.g.Expect(d.Problems).To(ConsistOf(HaveField("What", ContainSubstring("Issuer x does not exist"))))

	i = running(t)
	verify(i.g, i.state, i.state.Bundle, start, "at once")
	i.g.Expect(i.state.Authority.Signer.Key).To(BeNil())
	i.g.Expect(i.state.Leaves["client"].CAs).To(Equal(i.state.Bundle))
	actions, d = i.settle(Input{Now: start, InUse: true, Trusted: true, Loaded: true})
	i.g.Expect(actions).To(BeEmpty())
	i.g.Expect(d.At).To(Equal(start.Add(60*day+settling)), "nothing is due before the issuer renews")
}

func TestIssuerRenewsACertificate(t *testing.T) {
	i := running(t)
	before := i.state.Bundle
	at := start.Add(60 * day)
	i.issue("server", at)
	actions, _ := i.settle(Input{Now: at, InUse: true})
	i.g.Expect(actions).To(Equal([]Action{Issue}))
	i.g.Expect(i.state.Bundle).To(Equal(before))
	verify(i.g, i.state, before, at, "a member that has the first bundle")
}

// A certificate that cannot be used is not copied over one that works.
func TestIssuerIssuesSomethingElse(t *testing.T) {
	i := running(t)
	at := start.Add(60 * day)
	i.spec.Leaves = append([]Want{}, spec.Leaves...)
	i.spec.Leaves[0].Hosts = []string{"elsewhere"}
	i.issue("server", at)
	i.spec.Leaves = spec.Leaves
	actions, d := i.settle(Input{Now: at, InUse: true})
	i.g.Expect(actions).To(BeEmpty())
	i.g.Expect(d.Warnings).To(ConsistOf(HaveField("What", ContainSubstring("is not for host *.main-peer.ns.svc"))))
	_, d = i.settle(Input{Now: start.Add(76 * day), InUse: true})
	i.g.Expect(d.Problems).To(ContainElement(HaveField("What", ContainSubstring("was not renewed"))))
}

// The issuer's CA is replaced: it signs nothing that members use before each of them trusts it.
func TestIssuerChangesItsCA(t *testing.T) {
	i := running(t)
	old, at := i.state.Bundle, start.Add(60*day)
	i.ca = i.newCA()
	i.issue("server", at)
	actions, d := i.settle(Input{Now: at, InUse: true})
	i.g.Expect(actions).To(Equal([]Action{RenewCA, Trust, CopyCAs}))
	i.g.Expect(d.Waiting).NotTo(BeEmpty())
	i.g.Expect(i.state.Bundle).To(HaveLen(2))
	verify(i.g, i.state, old, at, "a member that has the first bundle")
	actions, _ = i.settle(Input{Now: at.Add(time.Hour), InUse: true, Trusted: true})
	i.g.Expect(actions).To(BeEmpty(), "clients have time to load the CA")
	actions, _ = i.settle(Input{Now: at.Add(8 * day), InUse: true})
	i.g.Expect(actions).To(BeEmpty(), "not every member trusts it")

	both := i.state.Bundle
	actions, _ = i.settle(Input{Now: at.Add(8 * day), InUse: true, Trusted: true})
	i.g.Expect(actions).To(Equal([]Action{Promote, Issue}))
	verify(i.g, i.state, both, at.Add(8*day), "a member that has both CAs")
	i.issue("client", at.Add(9*day))
	actions, d = i.settle(Input{Now: at.Add(9 * day), InUse: true, Trusted: true, Loaded: true})
	i.g.Expect(actions).To(Equal([]Action{Issue}))
	i.g.Expect(d.Waiting).To(ContainSubstring("the previous CA is trusted"))
	actions, _ = i.settle(Input{Now: start.Add(90*day + time.Second), InUse: true, Trusted: true, Loaded: true})
	i.g.Expect(actions).To(Equal([]Action{Retire, Trust, CopyCAs}))
	i.g.Expect(i.state.Bundle).To(HaveLen(1))
	verify(i.g, i.state, i.state.Bundle, start.Add(90*day+time.Second), "a member that has the new CA alone")
}

// An issuer that replaces its CA twice, or goes back, never has members use what others do not trust.
func TestIssuerGoesBack(t *testing.T) {
	i := running(t)
	first, at := i.ca, start.Add(60*day)
	now := Input{Now: at, InUse: true}
	i.ca = i.newCA()
	i.issue("server", at)
	i.settle(now)
	second := i.ca
	i.ca = i.newCA()
	i.issue("server", at)
	actions, _ := i.settle(now)
	i.g.Expect(actions[0]).To(Equal(RenewCA))
	i.g.Expect(contains(i.state.Bundle, second.Certificate)).To(BeFalse(), "it has signed nothing that is used")
	i.g.Expect(contains(i.state.Bundle, i.ca.Certificate)).To(BeTrue())
	third := i.ca
	now.Now, now.Trusted = at.Add(8*day), true
	actions, _ = i.settle(now)
	i.g.Expect(actions).To(Equal([]Action{Promote, Issue}))
	i.ca = first
	i.issue("server", now.Now)
	now.Trusted = false
	actions, _ = i.settle(now)
	i.g.Expect(actions).To(Equal([]Action{RenewCA}), "both are trusted already")
	verify(i.g, i.state, i.state.Bundle, now.Now, "the certificate in use is still that of the third CA")
	i.g.Expect(i.state.Leaves["server"].signedBy(third.Certificate)).To(BeTrue())
}

// A lost record is made again from what members use, never from what the issuer has now.
func TestIssuerWithoutTheRecord(t *testing.T) {
	i := running(t)
	used := i.ca.Certificate
	i.ca = i.newCA()
	i.issue("server", start)
	i.state.Authority = nil
	actions, _ := i.settle(Input{Now: start, InUse: true})
	i.g.Expect(actions).To(Equal([]Action{MakeCA, RenewCA, Trust, CopyCAs}))
	i.g.Expect(i.state.Authority.Signer.Certificate.Equal(used)).To(BeTrue())

	i.state.Authority, i.state.Bundle = nil, nil
	actions, d := i.settle(Input{Now: start, InUse: true})
	i.g.Expect(actions).To(BeEmpty())
	i.g.Expect(d.Problems).NotTo(BeEmpty())
}

func TestIssuedNeedsItsCA(t *testing.T) {
	i := newIssuer(t)
	pair, err := newLeaf(i.ca, spec.Leaves[0], day, start, nil)
	i.g.Expect(err).NotTo(HaveOccurred())
	certificate, key, err := pair.Encode()
	i.g.Expect(err).NotTo(HaveOccurred())
	_, err = NewIssued(certificate, key, nil)
	i.g.Expect(err).To(MatchError(ContainSubstring("the issuer names no CA")))
	_, err = NewIssued(certificate, key, EncodeCertificates(i.newCA().Certificate))
	i.g.Expect(err).To(MatchError(ContainSubstring("no CA in ca.crt")))
	_, err = NewIssued(certificate, key, []byte("x"))
	i.g.Expect(err).To(MatchError(ContainSubstring("ca.crt: there is no certificate")))
	_, err = NewIssued(nil, key, certificate)
	i.g.Expect(err).To(MatchError("there is no certificate"))
	issued, err := NewIssued(certificate, key, EncodeCertificates(i.ca.Certificate))
	i.g.Expect(err).NotTo(HaveOccurred())
	i.g.Expect(issued.For(spec.Leaves[0])).To(BeTrue())
	i.g.Expect(issued.For(spec.Leaves[1])).To(BeFalse(), "it has other hosts")
}

// Intermediates that have signed each other lead nowhere.
func TestIntermediatesInACircle(t *testing.T) {
	i := newIssuer(t)
	one, other := resign(i.g, i.ca), resign(i.g, i.newCA())
	cross := func(subject, by *Pair) *x509.Certificate {
		der, err := x509.CreateCertificate(rand.Reader, subject.Certificate, by.Certificate, subject.Key.Public(), by.Key)
		i.g.Expect(err).NotTo(HaveOccurred())
		c, err := x509.ParseCertificate(der)
		i.g.Expect(err).NotTo(HaveOccurred())
		return c
	}
	pair, err := newLeaf(one, spec.Leaves[0], day, start, nil)
	i.g.Expect(err).NotTo(HaveOccurred())
	leaf := Leaf{Pair: *pair, Intermediates: []*x509.Certificate{cross(one, other), cross(other, one)}}
	i.g.Expect(leaf.signedBy(i.newCA().Certificate)).To(BeFalse())
	i.g.Expect(leaf.signedBy(one.Certificate)).To(BeTrue())
}

// With intermediates, members trust the root alone.
func TestIssuerWithIntermediates(t *testing.T) {
	i := newIssuer(t)
	root := i.ca
	template := *root.Certificate
	template.Subject.CommonName, template.MaxPathLenZero = "intermediate", false
	root = resign(i.g, root)
	between, err := Sign(&template, root)
	i.g.Expect(err).NotTo(HaveOccurred())
	for _, want := range spec.Leaves {
		pair, err := newLeaf(between, want, 90*day, start, nil)
		i.g.Expect(err).NotTo(HaveOccurred())
		certificate, key, err := pair.Encode()
		i.g.Expect(err).NotTo(HaveOccurred())
		i.state.Issued[want.Secret], err = NewIssued(append(certificate, EncodeCertificates(between.Certificate)...), key, EncodeCertificates(root.Certificate))
		i.g.Expect(err).NotTo(HaveOccurred())
	}
	actions, _ := i.settle(Input{Now: start})
	i.g.Expect(actions).To(Equal([]Action{MakeCA, Trust, Issue, Issue}))
	i.g.Expect(i.state.Bundle).To(HaveLen(1))
	i.g.Expect(i.state.Bundle[0].Equal(root.Certificate)).To(BeTrue())
	i.g.Expect(i.state.Leaves["server"].Intermediates).To(HaveLen(1))
}

// resign returns a CA that may sign other CAs.
func resign(g *WithT, ca *Pair) *Pair {
	template := *ca.Certificate
	template.MaxPathLenZero, template.MaxPathLen, template.PublicKey = false, -1, nil
	again, err := Sign(&template, nil)
	g.Expect(err).NotTo(HaveOccurred())
	return again
}
