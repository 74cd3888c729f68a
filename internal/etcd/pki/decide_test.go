// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/certs"
	. "github.com/onsi/gomega"
)

const day = 24 * time.Hour

var (
	start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	spec  = Spec{
		Owner:     Owner{Namespace: "ns", Name: "main", Connection: "client"},
		Durations: Durations{Leaf: 90 * day, LeafRenewBefore: 30 * day, CA: 1000 * day, CARenewBefore: 180 * day},
		KeySecret: "key", BundleSecret: "ca",
		Leaves: []Want{
			{Secret: "server", CommonName: "main", Hosts: []string{"*.main-peer.ns.svc"}, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}},
			{Secret: "client", CommonName: "client", Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, WithCAs: true},
		},
	}
)

// settle takes steps until there are none, and returns their actions.
func settle(g *WithT, state *State, now Input) (actions []Action, last Decision) {
	for range 20 {
		d := Decide(spec, *state, now)
		if d.Step == nil {
			return actions, d
		}
		actions = append(actions, d.Step.Action)
		next, err := Perform(spec, *state, *d.Step, now.Now)
		g.Expect(err).NotTo(HaveOccurred())
		*state = next
		if d.Step.Action == MakeCA || d.Step.Action == RenewCA {
			now.RenewCA = false
		}
	}
	g.Expect(actions).To(BeNil(), "the steps come to an end")
	return nil, Decision{}
}

// fresh returns the state of a new cluster.
func fresh(g *WithT) State {
	state := State{}
	actions, d := settle(g, &state, Input{Now: start})
	g.Expect(actions).To(Equal([]Action{MakeCA, Trust, Issue, Issue}))
	g.Expect(d.Problems).To(BeEmpty())
	return state
}

// verify checks that certificates are accepted by a holder of a bundle.
func verify(g *WithT, state State, bundle []*x509.Certificate, at time.Time, what string) {
	roots := x509.NewCertPool()
	for _, c := range bundle {
		roots.AddCert(c)
	}
	for _, want := range spec.Leaves {
		leaf := state.Leaves[want.Secret]
		for _, usage := range want.Usages {
			_, err := leaf.Certificate.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{usage}})
			g.Expect(err).NotTo(HaveOccurred(), "%s: Secret %s", what, want.Secret)
		}
		if want.Hosts != nil {
			g.Expect(leaf.Certificate.VerifyHostname("main-0.main-peer.ns.svc")).To(Succeed())
		}
	}
}

func TestNewCluster(t *testing.T) {
	g := NewWithT(t)
	state := fresh(g)
	verify(g, state, state.Bundle, start, "at once")
	verify(g, state, state.Bundle, start.Add(-day), "a member whose clock is a day behind")
	verify(g, state, state.Bundle, start.Add(90*day-time.Second), "until they expire")
	g.Expect(state.Leaves["client"].CAs).To(Equal(state.Bundle))
	g.Expect(state.Leaves["server"].CAs).To(BeEmpty())
	g.Expect(state.Authority.Signer.Certificate.NotAfter).To(Equal(start.Add(1000 * day)))
	_, d := settle(g, &state, Input{Now: start, InUse: true, Trusted: true, Loaded: true})
	g.Expect(d.At).To(Equal(start.Add(60*day)), "nothing is due before the first certificate")
}

func TestLeafIsRenewed(t *testing.T) {
	g := NewWithT(t)
	state := fresh(g)
	before := state
	now := Input{Now: start.Add(60*day - time.Second), InUse: true, Trusted: true}
	actions, _ := settle(g, &state, now)
	g.Expect(actions).To(BeEmpty())
	now.Now = start.Add(60 * day)
	actions, _ = settle(g, &state, now)
	g.Expect(actions).To(Equal([]Action{Issue, Issue}))
	g.Expect(state.Authority).To(Equal(before.Authority))
	g.Expect(state.Bundle).To(Equal(before.Bundle))
	g.Expect(state.Leaves["server"].Certificate.NotAfter).To(Equal(start.Add(150 * day)))
	verify(g, state, before.Bundle, now.Now, "a member that has the first bundle")
}

// Other host names, or another use, is a certificate of the same CA.
func TestLeafFollowsTheSpec(t *testing.T) {
	g := NewWithT(t)
	state := fresh(g)
	other := spec
	other.Leaves = []Want{spec.Leaves[0], spec.Leaves[1]}
	other.Leaves[0].Hosts = []string{"*.main-peer.ns.svc", "etcd.example.com"}
	d := Decide(other, state, Input{Now: start})
	g.Expect(d.Step).To(HaveField("Action", Issue))
	next, err := Perform(other, state, *d.Step, start)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(next.Leaves["server"].Certificate.DNSNames).To(ConsistOf("*.main-peer.ns.svc", "etcd.example.com"))
	g.Expect(Decide(other, next, Input{Now: start}).Step).To(BeNil())

	behind, err := Perform(other, state, *d.Step, start.Add(-2*day))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(behind.Leaves["server"].Certificate.NotAfter).To(Equal(start.Add(90*day)), "a clock that is behind makes no certificate that expires earlier")
}

// A CA is renewed by two rollouts. At every time each certificate is accepted by those with the bundle that members have loaded,
// and by those that have loaded the first or the newest one.
func TestCAIsRenewed(t *testing.T) {
	for name, asked := range map[string]bool{"because it expires": false, "because a user asks for it": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			state := fresh(g)
			first := state.Bundle
			now := Input{Now: start.Add(820 * day), InUse: true, Trusted: true, Loaded: true}
			if asked {
				now = Input{Now: start.Add(day), InUse: true, Trusted: true, Loaded: true, RenewCA: true}
			}
			now.Trusted = false
			actions, d := settle(g, &state, now)
			if !asked {
				g.Expect(actions[:2]).To(Equal([]Action{Issue, Issue}), "they are due as well")
				actions = actions[2:]
			}
			g.Expect(actions).To(Equal([]Action{RenewCA, Trust, CopyCAs}))
			g.Expect(d.Waiting).To(ContainSubstring("until every member trusts it"))
			both := state.Bundle
			g.Expect(both).To(HaveLen(2))
			verify(g, state, first, now.Now, "a member before the first rollout")
			verify(g, state, both, now.Now, "a member after it")

			now.RenewCA = false
			now.Trusted = true
			now.Now = now.Now.Add(7*day - time.Second)
			actions, _ = settle(g, &state, now)
			g.Expect(actions).To(BeEmpty(), "clients have a week to load the new CA")
			now.Now = now.Now.Add(time.Second)
			actions, d = settle(g, &state, now)
			g.Expect(actions).To(Equal([]Action{Promote, Issue, Issue}))
			g.Expect(state.Bundle).To(Equal(both), "both are trusted")
			g.Expect(d.Waiting).To(ContainSubstring("the previous CA is trusted until"))
			verify(g, state, both, now.Now, "a member after the first rollout")

			until := state.Authority.PreviousUntil
			g.Expect(until).To(BeTemporally(">=", now.Now.Add(59*day)), "clients may still use a certificate of the previous CA")
			now.Now = until
			_, _ = settle(g, &state, now)
			g.Expect(state.Bundle).To(ConsistOf(both))
			now.Now, now.Loaded = until.Add(time.Second), false
			_, _ = settle(g, &state, now)
			g.Expect(state.Bundle).To(ConsistOf(both), "the members may not have loaded the certificates")
			now.Loaded = true
			actions, d = settle(g, &state, now)
			g.Expect(actions).To(Equal([]Action{Retire, Trust, CopyCAs}))
			g.Expect(d.Problems).To(BeEmpty())
			g.Expect(state.Bundle).To(HaveLen(1))
			g.Expect(state.Bundle).NotTo(Equal(first))
			verify(g, state, both, now.Now, "a member before the second rollout")
			verify(g, state, state.Bundle, now.Now, "a member after it")
			actions, _ = settle(g, &state, now)
			g.Expect(actions).To(BeEmpty())
		})
	}
}

// While something is wrong with a certificate, it may be one of the previous CA that is in use: that stays trusted.
func TestPreviousCAIsTrustedWhileThereIsAProblem(t *testing.T) {
	g := NewWithT(t)
	state := fresh(g)
	now := Input{Now: start.Add(day), InUse: true, Trusted: true, Loaded: true, RenewCA: true}
	_, _ = settle(g, &state, now)
	now.RenewCA, now.Now = false, now.Now.Add(7*day)
	_, _ = settle(g, &state, now)
	both := state.Bundle
	now.Now = state.Authority.PreviousUntil.Add(time.Second)
	broken := state
	broken.Broken = map[string]error{"server": errors.New("x")}
	d := Decide(spec, broken, now)
	g.Expect(d.Problems).To(HaveLen(1))
	actions, _ := settle(g, &broken, now)
	g.Expect(actions).NotTo(ContainElement(Retire))
	g.Expect(broken.Bundle).To(Equal(both))
	actions, _ = settle(g, &state, now)
	g.Expect(actions).To(ContainElement(Retire), "once it is fixed")
}

// Changes of the Secrets by others, and what becomes of them.
func TestWhatSomebodyDid(t *testing.T) {
	g := NewWithT(t)
	other, another := fresh(g), fresh(g)
	inUse := Input{Now: start, InUse: true, Trusted: true, Loaded: true}
	for name, tc := range map[string]struct {
		change  func(*State)
		now     Input
		actions []Action
		secret  string
		problem string
	}{
		"nothing":                  {func(*State) {}, inUse, nil, "", ""},
		"a certificate is gone":    {func(s *State) { delete(s.Leaves, "server") }, inUse, []Action{Issue}, "", ""},
		"the bundle is gone":       {func(s *State) { s.Bundle = nil }, inUse, []Action{Trust}, "", ""},
		"the CA is gone":           {func(s *State) { s.Authority = nil }, inUse, nil, "key", "have the CA renewed"},
		"CA and bundle are gone":   {func(s *State) { s.Authority, s.Bundle = nil, nil }, inUse, nil, "key", "would cut off"},
		"all is gone while in use": {func(s *State) { *s = State{} }, inUse, nil, "key", "would cut off"},
		"all is gone, and a new CA is asked for while members run": {func(s *State) { *s = State{} },
			Input{Now: start, InUse: true, RenewCA: true}, nil, "key", "would cut off"},
		"all is gone, and a new CA is asked for while there are no members": {func(s *State) { *s = State{} },
			Input{Now: start, InUse: true, RenewCA: true, Stopped: true}, []Action{MakeCA, Trust, Issue, Issue}, "", ""},
		"the CA is gone, and a new one is asked for": {func(s *State) { s.Authority = nil },
			Input{Now: start, InUse: true, RenewCA: true}, []Action{RenewCA, Trust, CopyCAs}, "", ""},
		"the key of the CA is gone":                         {func(s *State) { s.Authority.Signer.Key = nil }, inUse, nil, "key", "has no private key"},
		"the key is gone, and a certificate":                {func(s *State) { s.Authority.Signer.Key = nil; delete(s.Leaves, "server") }, inUse, nil, "server", "the CA has no key"},
		"the key is gone, and another CA is asked for":      {func(s *State) { s.Authority.Signer.Key = nil }, Input{Now: start, InUse: true, RenewCA: true}, []Action{RenewCA, Trust, CopyCAs}, "", ""},
		"the CA is another one":                             {func(s *State) { s.Authority = other.Authority }, inUse, nil, "key", "another CA than those that members and clients trust"},
		"the CA is another one, and a certificate is gone":  {func(s *State) { s.Authority = other.Authority; delete(s.Leaves, "server") }, inUse, nil, "key", "another CA than those that members and clients trust"},
		"a certificate is another one":                      {func(s *State) { s.Leaves["server"] = other.Leaves["server"] }, inUse, nil, "server", "did not sign"},
		"the bundle has another CA too":                     {func(s *State) { s.Bundle = append(s.Bundle, other.Bundle...) }, inUse, []Action{CopyCAs}, "ca", "did not add"},
		"the bundle has another CA instead":                 {func(s *State) { s.Bundle = other.Bundle }, inUse, []Action{Trust, CopyCAs}, "ca", "did not add"},
		"the copy of the bundle is another one":             {func(s *State) { s.Leaves["client"].CAs = another.Bundle }, inUse, []Action{CopyCAs}, "", ""},
		"the CA cannot be read":                             {func(s *State) { s.Authority = nil; s.Broken = map[string]error{"key": errors.New("x")} }, inUse, nil, "key", "cannot be used: x"},
		"a certificate cannot be read":                      {func(s *State) { delete(s.Leaves, "server"); s.Broken = map[string]error{"server": errors.New("x")} }, inUse, nil, "server", "cannot be used: x"},
		"nothing is there, and the spec is not carried out": {func(s *State) { *s = State{} }, Input{Now: start, Frozen: true}, nil, "key", "is not created"},
		"the operator's clock is a day behind":              {func(*State) {}, Input{Now: start.Add(-day), InUse: true, Trusted: true, Loaded: true}, nil, "", ""},
		"the operator's clock is years behind":              {func(*State) {}, Input{Now: start.Add(-1000 * day), InUse: true}, nil, "key", "Check the clock"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			state := fresh(g)
			tc.change(&state)
			before := state.Bundle
			actions, d := settle(g, &state, tc.now)
			g.Expect(actions).To(Equal(tc.actions))
			for _, c := range before {
				g.Expect(contains(state.Bundle, c)).To(BeTrue(), "what was trusted is trusted")
			}
			if tc.problem == "" {
				g.Expect(d.Problems).To(BeEmpty())
				return
			}
			g.Expect(append(d.Problems, d.Warnings...)).To(ContainElement(And(HaveField("Secret", tc.secret), HaveField("What", ContainSubstring(tc.problem)))))
		})
	}
}

// A clock that is wrong makes nothing that others do not accept, and takes nothing away.
func TestClockThatIsWrong(t *testing.T) {
	for name, skew := range map[string]time.Duration{
		"a day ahead": day, "a day behind": -day, "a hundred days ahead": 100 * day, "ten years ahead": 3650 * day,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			state := fresh(g)
			first := state.Bundle
			now := start.Add(70 * day)
			in := Input{Now: now.Add(skew), InUse: true, Trusted: false, Loaded: true}
			_, _ = settle(g, &state, in)
			verify(g, state, first, now, "a member with the first bundle, and a clock that is right")
			in.Trusted = true
			_, _ = settle(g, &state, in)
			if skew < 365*day {
				g.Expect(state.Bundle).To(ContainElements(first))
			}
			verify(g, state, state.Bundle, now, "a member with the newest bundle")
			for _, leaf := range state.Leaves {
				g.Expect(leaf.Certificate.NotAfter).To(BeTemporally(">=", start.Add(90*day)), "no certificate is replaced by one that expires earlier")
			}
		})
	}
}

// While the spec is not carried out certificates are renewed nevertheless, and nothing else is.
func TestFrozen(t *testing.T) {
	g := NewWithT(t)
	state := fresh(g)
	now := Input{Now: start.Add(900 * day), InUse: true, Trusted: true, Loaded: true, Frozen: true}
	actions, _ := settle(g, &state, now)
	g.Expect(actions).To(Equal([]Action{Issue, Issue}))
}

// A certificate that ends with its CA is not issued again and again.
func TestLeafEndsWithItsCA(t *testing.T) {
	g := NewWithT(t)
	state := fresh(g)
	now := Input{Now: start.Add(950 * day), InUse: true}
	now.Frozen = true
	actions, _ := settle(g, &state, now)
	g.Expect(actions).To(HaveLen(2))
	g.Expect(state.Leaves["server"].Certificate.NotAfter).To(Equal(start.Add(1000 * day)))
	actions, _ = settle(g, &state, now)
	g.Expect(actions).To(BeEmpty())
	now.Now = start.Add(1001 * day)
	delete(state.Leaves, "server")
	now.Frozen = false
	_, d := settle(g, &state, now)
	g.Expect(d.Problems).To(ContainElement(HaveField("What", ContainSubstring("the CA expired"))))
}

// The Secret with the CA is restored from a backup that is older than the last renewal.
func TestCAFromABackup(t *testing.T) {
	g := NewWithT(t)
	state := fresh(g)
	now := Input{Now: start.Add(day), InUse: true, RenewCA: true}
	_, _ = settle(g, &state, now)
	backup := *state.Authority
	now.RenewCA, now.Trusted, now.Now = false, true, now.Now.Add(7*day)
	_, _ = settle(g, &state, now)
	state.Authority = &backup
	actions, d := settle(g, &state, now)
	g.Expect(actions).To(Equal([]Action{Promote}))
	g.Expect(d.Problems).To(BeEmpty())
	verify(g, state, state.Bundle, now.Now, "a member")
}

// A client may still have a copy of a certificate whose Secret is gone.
func TestPreviousCAIsTrustedForWhatIsGone(t *testing.T) {
	g := NewWithT(t)
	state := fresh(g)
	_, _ = settle(g, &state, Input{Now: start, InUse: true, RenewCA: true})
	delete(state.Leaves, "server")
	delete(state.Leaves, "client")
	next, err := Perform(spec, state, Step{Action: Promote}, start)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(next.Authority.PreviousUntil).To(Equal(start.Add(90 * day)))
	next, err = Perform(spec, state, Step{Action: Promote}, start.Add(990*day))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(next.Authority.PreviousUntil).To(Equal(start.Add(1000*day)), "a CA that has expired needs no trust")
}

func TestParsePair(t *testing.T) {
	g := NewWithT(t)
	state := fresh(g)
	certificate, key, err := state.Authority.Signer.Encode()
	g.Expect(err).NotTo(HaveOccurred())
	again, err := ParsePair(certificate, key)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again.Certificate.Equal(state.Authority.Signer.Certificate)).To(BeTrue())
	again, err = ParsePair(certificate, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again.Key).To(BeNil())
	_, otherKey, err := state.Leaves["server"].Encode()
	g.Expect(err).NotTo(HaveOccurred())
	exchange, err := ecdh.X25519().GenerateKey(rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	der, err := x509.MarshalPKCS8PrivateKey(exchange)
	g.Expect(err).NotTo(HaveOccurred())
	block := func(kind string, content []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content})
	}
	for says, pair := range map[string][2][]byte{
		"there is no certificate":                        {[]byte("x"), key},
		"malformed certificate":                          {block("CERTIFICATE", []byte("AAAA")), key},
		`there is a PEM block of type "PRIVATE KEY"`:     {key, key},
		"there are 2 certificates, and not one":          {append(append([]byte{}, certificate...), certificate...), key},
		"the private key has no PEM block":               {certificate, []byte("x")},
		"parsing the private key":                        {certificate, block("PRIVATE KEY", []byte("AAAA"))},
		"the private key is a *ecdh.PrivateKey":          {certificate, block("PRIVATE KEY", der)},
		"the private key is not that of the certificate": {certificate, otherKey},
	} {
		_, err := ParsePair(pair[0], pair[1])
		g.Expect(err).To(MatchError(ContainSubstring(says)))
	}
	giant, _, err := certs.Giant(16 << 10)
	g.Expect(err).NotTo(HaveOccurred())
	for says, pair := range map[string][2][]byte{
		"certificate 2 has an RSA key of 16384 bits":     {append(append([]byte{}, certificate...), giant...), key},
		"it has more than 8 certificates":                {bytes.Repeat(certificate, 9), key},
		"a private key of":                               {certificate, append(bytes.Repeat([]byte("\n"), 1<<15), key...)},
		"there is no certificate":                        {nil, key},
		"the private key is not that of the certificate": {certificate, otherKey},
		"there is no private key":                        {certificate, nil},
	} {
		_, err := ParseLeaf(pair[0], pair[1])
		g.Expect(err).To(MatchError(ContainSubstring(says)))
	}
}

// unknown is a key of a kind that cannot be stored.
type unknown struct{ crypto.Signer }

func TestWhatCannotBePerformed(t *testing.T) {
	g := NewWithT(t)
	state := fresh(g)
	_, err := Perform(spec, state, Step{Action: "Forge"}, start)
	g.Expect(err).To(MatchError(ContainSubstring(`unknown action "Forge"`)))
	keyless := *state.Authority
	keyless.Signer = &Pair{Certificate: state.Authority.Signer.Certificate}
	without := state
	without.Authority = &keyless
	same, err := Perform(spec, without, Step{Action: Issue, Secret: "server", Want: spec.Leaves[0]}, start)
	g.Expect(err).To(MatchError(ContainSubstring("signing a certificate")))
	g.Expect(same).To(Equal(without), "nothing is lost")
	_, _, err = (&Pair{Certificate: state.Authority.Signer.Certificate, Key: unknown{}}).Encode()
	g.Expect(err).To(MatchError(ContainSubstring("encoding a private key")))
}

// A CA signs no other CA, and certificates none at all.
func TestWhoMaySign(t *testing.T) {
	g := NewWithT(t)
	state := fresh(g)
	ca, leaf := state.Authority.Signer.Certificate, state.Leaves["server"].Certificate
	g.Expect(ca.IsCA).To(BeTrue())
	g.Expect(ca.MaxPathLen).To(BeZero())
	g.Expect(ca.MaxPathLenZero).To(BeTrue())
	g.Expect(leaf.IsCA).To(BeFalse())
	g.Expect(leaf.BasicConstraintsValid).To(BeTrue())
}

// Nothing is left to rely on once what members serve with has expired. What clients have does not count, and what is gone is not known.
func TestExpired(t *testing.T) {
	g := NewWithT(t)
	i := running(t)
	expired := func(day int) bool { return i.state.Expired(i.spec, start.AddDate(0, 0, day)) }
	g.Expect([]bool{expired(89), expired(91)}).To(Equal([]bool{false, true}))
	i.state.Leaves["client"] = nil
	g.Expect(expired(91)).To(BeTrue())
	i.state.Leaves["server"] = nil
	g.Expect([]bool{expired(91), expired(1001)}).To(Equal([]bool{false, true}), "the CA")
	i.spec.Leaves = i.spec.Leaves[1:]
	g.Expect(expired(91)).To(BeFalse(), "members serve with nothing of it")
	g.Expect(State{}.Expired(i.spec, start)).To(BeFalse())
}
