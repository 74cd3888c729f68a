// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package lasting

import (
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const maxGap = 10 * time.Second

// look is one observation.
type look struct {
	value string
	at    time.Time
}

// lasted is the definition: of the observations, the last ones that have the same value, without a gap between any two.
func lasted(looks []look) (since time.Time, length time.Duration) {
	last := looks[len(looks)-1]
	if last.value == "" {
		return time.Time{}, 0
	}
	since = last.at
	for i := len(looks) - 2; i >= 0; i-- {
		gap := looks[i+1].at.Sub(looks[i].at)
		if looks[i].value != last.value || gap < 0 || gap > maxGap {
			break
		}
		since = looks[i].at
	}
	return since, last.at.Sub(since)
}

// Whatever is observed, and whenever, a timer says what the definition says.
func TestTimerIsTheDefinition(t *testing.T) {
	steps := []time.Duration{0, 1, time.Second, maxGap - 1, maxGap, maxGap + 1, time.Hour, -1, -time.Hour}
	values := []string{"", "a", "b"}
	for seed := range uint64(2000) {
		g, r := NewWithT(t), rand.New(rand.NewPCG(seed, 0))
		timer, now, looks := Timer[string]{}, noon, []look(nil)
		for range 12 {
			now = now.Add(steps[r.IntN(len(steps))])
			value := values[r.IntN(len(values))]
			if len(looks) > 0 && r.IntN(3) > 0 {
				value = looks[len(looks)-1].value
			}
			looks = append(looks, look{value, now})
			timer = timer.Next(value, now, maxGap)
			since, length := lasted(looks)
			g.Expect(timer.Since()).To(Equal(since), "seed %d: %v", seed, looks)
			g.Expect(timer.For()).To(Equal(length), "seed %d: %v", seed, looks)
			g.Expect(timer.value).To(Equal(value))
			g.Expect(timer.Lasted(0)).To(Equal(value != ""))
			g.Expect(timer.Lasted(length)).To(Equal(value != ""))
			g.Expect(timer.Lasted(length + 1)).To(BeFalse())
		}
	}
}

func TestUnbroken(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Unbroken(time.Time{}, noon, maxGap)).To(BeFalse(), "there was no observation")
	g.Expect(Unbroken(noon, noon, maxGap)).To(BeTrue())
	g.Expect(Unbroken(noon, noon.Add(maxGap), maxGap)).To(BeTrue())
	g.Expect(Unbroken(noon, noon.Add(maxGap+1), maxGap)).To(BeFalse())
	g.Expect(Unbroken(noon, noon.Add(-1), maxGap)).To(BeFalse(), "time went back")
}

// The zero value of a type stands for what is not the case, whatever it is called.
func TestNothingLastsThatIsNotTheCase(t *testing.T) {
	g := NewWithT(t)
	timer := Timer[bool]{}.Next(false, noon, maxGap).Next(false, noon.Add(time.Second), maxGap)
	g.Expect(timer.Since()).To(BeZero())
	g.Expect(timer.Lasted(0)).To(BeFalse())
	timer = timer.Next(true, noon.Add(2*time.Second), maxGap)
	g.Expect(timer.Since()).To(Equal(noon.Add(2 * time.Second)))
}

// Timers observe all there is: what is not there any more starts again when it is back, however soon.
func TestTimersForgetWhatIsGone(t *testing.T) {
	g := NewWithT(t)
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	var timers Timers[string, string]
	first := timers.Next(map[string]string{"a": "x", "b": "x"}, at(0), maxGap)
	second := first.Next(map[string]string{"a": "x"}, at(1), maxGap)
	third := second.Next(map[string]string{"a": "x", "b": "x"}, at(2), maxGap)
	g.Expect(third["a"].For()).To(Equal(2 * time.Second))
	g.Expect(third["b"].For()).To(BeZero())
	g.Expect(third["b"].Lasted(0)).To(BeTrue())
	g.Expect(first["a"].For()).To(BeZero(), "timers are values")
	g.Expect(third["c"].Lasted(0)).To(BeFalse())
}
