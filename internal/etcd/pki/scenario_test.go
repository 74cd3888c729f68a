// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	. "github.com/onsi/gomega"
)

// The files in testdata/scenarios say what becomes of CAs and certificates, step by step, with the words that a user reads. In each of them
// "own" begins with the CA of the operator and "issuer" with that of an issuer, in use since day 0; "new" begins with nothing. The lines
// beneath are what happens then, and the result is what is done, what is said, and what there is in the end.
// "go test -run TestScenarios -rewrite" accepts differences.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s := &scenario{issuer: newIssuer(t), now: Input{Now: start, InUse: true, Trusted: true, Loaded: true}}
			s.spec.External = d.Cmd == "issuer" || d.HasArg("issuer")
			switch d.Cmd {
			case "new":
				s.now = Input{Now: start}
			case "own":
				s.state = fresh(s.g)
			case "issuer":
				s.happens("issued server client")
				_, _ = s.settle(Input{Now: start})
			}
			for line := range strings.Lines(d.Input) {
				s.happens(strings.TrimSpace(line))
			}
			return s.decide()
		})
	})
}

// scenario is one connection in the course of time.
type scenario struct {
	*issuer
	now Input
	// before are the CAs that the issuer had.
	before []*Pair
	backup State
	// serials of CAs, in the order of their appearance.
	serials []string
}

// happens lets something happen.
func (s *scenario) happens(line string) {
	what, secrets, _ := strings.Cut(line, " ")
	for _, secret := range append(strings.Fields(secrets), "")[:max(1, len(strings.Fields(secrets)))] {
		s.one(what, secret)
	}
}

func (s *scenario) one(what, of string) {
	switch what {
	case "day":
		s.now.Now = start.Add(s.days(of))
	case "settle":
		_, _ = s.settle(s.now)
		s.now.RenewCA = false
	case "gone":
		s.lose(of)
	case "broken":
		s.lose(of)
		s.state.Broken = map[string]error{of: errors.New("it is garbage")}
	case "replaced":
		s.replace(of)
	case "keyless":
		s.state.Authority.Signer = &Pair{Certificate: s.state.Authority.Signer.Certificate}
	case "later":
		ca := *s.state.Authority.Signer.Certificate
		ca.NotBefore = s.now.Now.Add(day)
		pair, err := newLeaf(&Pair{&ca, s.state.Authority.Signer.Key}, s.spec.Leaves[0], s.spec.Leaf, s.now.Now, nil)
		s.g.Expect(err).NotTo(HaveOccurred())
		s.state.Leaves[of] = &Leaf{Pair: *pair}
	case "backup":
		s.backup = s.state
	case "restore":
		if of == "key" {
			s.state.Authority = s.backup.Authority
		} else {
			s.state.Bundle = s.backup.Bundle
		}
	default:
		s.wants(what, of)
	}
}

// wants changes what there should be, or what the issuer does.
func (s *scenario) wants(what, of string) {
	s.spec.Leaves = slices.Clone(s.spec.Leaves)
	switch what {
	case "hosts":
		s.spec.Leaves[0].Hosts = []string{of}
	case "usage":
		s.spec.Leaves[1].Usages = []x509.ExtKeyUsage{map[string]x509.ExtKeyUsage{"server": x509.ExtKeyUsageServerAuth, "client": x509.ExtKeyUsageClientAuth, "any": x509.ExtKeyUsageAny}[of]}
	case "renew-before":
		s.spec.LeafRenewBefore = s.days(of)
	case "another-ca":
		s.before = append(s.before, s.ca)
		s.ca = s.newCA()
	case "ca-until":
		s.ca = s.caUntil(start.Add(s.days(of)), nil)
	case "same-key-until":
		s.before = append(s.before, s.ca)
		s.ca = s.caUntil(start.Add(s.days(of)), s.ca)
	case "issues-for":
		s.spec.Leaf = s.days(of)
	case "earlier-ca":
		s.ca = s.before[len(s.before)-1]
	case "issued":
		s.issue(of, s.now.Now)
	case "lacking":
		s.state.Issued[of] = &Issued{Lacking: "Issuer x does not exist"}
	default:
		s.situation(what)
	}
}

func (s *scenario) days(of string) time.Duration {
	days, err := strconv.ParseFloat(of, 64)
	s.g.Expect(err).NotTo(HaveOccurred())
	return time.Duration(days * float64(day))
}

// replace puts the Secret of another cluster in the place of one.
func (s *scenario) replace(secret string) {
	other := fresh(s.g)
	switch secret {
	case "key":
		s.state.Authority = other.Authority
	case "ca":
		s.state.Bundle = other.Bundle
	default:
		s.state.Leaves[secret] = other.Leaves[secret]
	}
}

func (s *scenario) lose(secret string) {
	switch secret {
	case "key":
		s.state.Authority = nil
	case "ca":
		s.state.Bundle = nil
	default:
		delete(s.state.Leaves, secret)
		delete(s.state.Issued, secret)
	}
}

func (s *scenario) situation(what string) {
	flags := map[string]*bool{"in-use": &s.now.InUse, "stopped": &s.now.Stopped, "frozen": &s.now.Frozen, "trusted": &s.now.Trusted, "loaded": &s.now.Loaded, "expired": &s.now.Expired, "renew-ca": &s.now.RenewCA}
	name, not := strings.CutPrefix(what, "not-")
	s.g.Expect(flags).To(HaveKey(name), "%q", what)
	*flags[name] = !not
}

// decide takes steps until there are none, and says what was done and what there is then.
func (s *scenario) decide() string {
	var b strings.Builder
	for range 20 {
		d := Decide(s.spec, s.state, s.now)
		if d.Step == nil {
			s.print(&b, d)
			return s.named(b.String())
		}
		fmt.Fprintf(&b, "%s %s: %s\n", d.Step.Action, d.Step.Secret, d.Step.Why)
		next, err := Perform(s.spec, s.state, *d.Step, s.now.Now)
		s.g.Expect(err).NotTo(HaveOccurred())
		s.state = next
		if d.Step.Action == MakeCA || d.Step.Action == RenewCA {
			s.now.RenewCA = false
		}
	}
	return b.String() + "and so on\n"
}

func (s *scenario) print(b *strings.Builder, d Decision) {
	for _, p := range d.Problems {
		fmt.Fprintf(b, "problem: Secret %s %s\n", p.Secret, p.What)
	}
	for _, w := range d.Warnings {
		fmt.Fprintf(b, "warning: Secret %s %s\n", w.Secret, w.What)
	}
	if d.Waiting != "" {
		fmt.Fprintf(b, "waiting: %s\n", d.Waiting)
	}
	if !d.At.IsZero() {
		fmt.Fprintf(b, "looks again on day %s\n", onDay(d.At))
	}
	if a := s.state.Authority; a != nil {
		fmt.Fprintf(b, "signs: %s\n", a.Signer.Certificate.Subject.CommonName)
		if a.Next != nil {
			fmt.Fprintf(b, "next: %s, from day %s\n", a.Next.Certificate.Subject.CommonName, onDay(a.NextFrom))
		}
		if a.Previous != nil {
			fmt.Fprintf(b, "previous: %s, until day %s\n", a.Previous.Subject.CommonName, onDay(a.PreviousUntil))
		}
		if a.Retired != nil {
			fmt.Fprintf(b, "retired: %s\n", a.Retired.Subject.CommonName)
		}
	}
	trusted := func(what string, all []*x509.Certificate) {
		for _, c := range all {
			fmt.Fprintf(b, "%s: %s\n", what, c.Subject.CommonName)
		}
	}
	trusted("trusted", s.state.Bundle)
	for _, want := range s.spec.Leaves {
		if leaf := s.state.Leaves[want.Secret]; leaf != nil {
			fmt.Fprintf(b, "%s: until day %s\n", want.Secret, onDay(leaf.Certificate.NotAfter))
			trusted(want.Secret+" trusts", leaf.CAs)
		}
	}
}

// onDay is a time in days, to the minute.
func onDay(t time.Time) string {
	return strings.TrimRight(strings.TrimRight(strconv.FormatFloat(t.Sub(start).Hours()/24, 'f', 4, 64), "0"), ".")
}

// named replaces the random serials in the names of CAs by letters.
func (s *scenario) named(text string) string {
	return regexp.MustCompile(`main client CA [0-9a-f]{8}`).ReplaceAllStringFunc(text, func(name string) string {
		i := slices.Index(s.serials, name)
		if i < 0 {
			i, s.serials = len(s.serials), append(s.serials, name)
		}
		return "CA " + string(rune('A'+i))
	})
}
