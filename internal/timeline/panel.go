// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
)

// panel is a run in pixels.
type panel struct {
	Run     Run
	HeaderY float64 // base line of the heading
	Top     float64 // of the grid
	Foot    float64 // of the grid, where its numbers are
	Lanes   []lane
	Writes  *lane // nil if they are not known
	Steps   []mark
	Bottom  float64
}

// lane is a row of bars.
type lane struct {
	Name    string
	Y, Text float64 // top of the bars, and base line of the name
	Bars    []bar
	Reigns  []bar
}

// bar is a period in a lane.
type bar struct {
	X, Y, Width float64
	Class       string // of the style sheet
	Title       string // shown when the mouse is over it
	Label       string // inside the bar, if there is room
}

// mark is a numbered step: X and Y are in the lane, TextY is in the list below.
type mark struct {
	Number      int
	X, Y, TextY float64
	At, Text    string
	// Title is the whole text.
	Title string
}

func (r Run) panel(y float64, s scale) panel {
	p := panel{Run: r, HeaderY: y + 16}
	y += headerHeight
	p.Top = y - 6
	lanes := map[string]float64{}
	for _, name := range r.Members {
		l := lane{Name: tail(name), Y: y, Text: y + 15}
		lanes[name] = y
		for _, st := range r.stretches(name) {
			l.add(r.bar(st, s, y))
		}
		l.Reigns = r.reigns(name, s, y+barHeight-4)
		p.Lanes = append(p.Lanes, l)
		y += laneHeight
	}
	if !r.WritesUnknown {
		writes := r.writes(s, y)
		p.Writes = &writes
		y += laneHeight
	}
	p.Foot = y
	y += ticksHeight
	last := map[string]float64{}
	for i, step := range r.Steps {
		m := mark{
			Number: i + 1, X: s.x(step.At), Y: lanes[step.Pod] + barHeight/2, TextY: y + stepHeight/2,
			At: fmt.Sprintf("%.1f s", step.At.Sub(r.From).Seconds()), Text: fit(step.Text, width-marginRight-marginLeft), Title: step.Text,
		}
		// Two marks at nearly the same time stand side by side.
		m.X = max(m.X, last[step.Pod]+markSpacing)
		last[step.Pod] = m.X
		p.Steps = append(p.Steps, m)
		y += stepHeight
	}
	p.Bottom = y
	return p
}

// add appends a bar unless it is invisible.
func (l *lane) add(b bar) {
	if b.Width > 0 {
		l.Bars = append(l.Bars, b)
	}
}

func (r Run) bar(st stretch, s scale, y float64) bar {
	b := r.between(st.from, st.to, s, y)
	b.Class, b.Title = st.class, st.title
	if label := st.label(); textWidth(label)+20 <= b.Width {
		b.Label = label
	}
	return b
}

// between returns a bar clipped to the panel; one without an end lasts until the end of the rollout.
func (r Run) between(from, to time.Time, s scale, y float64) bar {
	end := s.from.Add(time.Duration(s.seconds * float64(time.Second)))
	if r.Until.Before(end) {
		end = r.Until
	}
	if to.IsZero() || to.After(end) {
		to = end
	}
	return bar{X: s.x(from), Y: y, Width: round(s.x(to) - s.x(from))}
}

// reigns returns the periods in which a member led. A leader without a pod does not lead, though the other members take a
// moment to notice.
func (r Run) reigns(name string, s scale, y float64) []bar {
	var all []bar
	for _, reign := range r.Reigns {
		if reign.Pod != name {
			continue
		}
		to := reign.To
		for _, span := range r.Pods[name] {
			if span.Class == v1alpha1.ClassMissing && span.From.After(reign.From) && span.From.Before(to) {
				to = span.From
			}
		}
		b := r.between(reign.From, to, s, y)
		b.Title = fmt.Sprintf("leads in term %d", reign.Term)
		if b.Width > 0 {
			all = append(all, b)
		}
	}
	return all
}

// writes returns the lane of the writes, with gaps where there were none.
func (r Run) writes(s scale, y float64) lane {
	l := lane{Name: "writes", Y: y, Text: y + 15}
	last := r.From.Add(-leadIn)
	for _, gap := range append(slices.Clone(r.Gaps), Gap{From: r.Until}) {
		b := r.between(last, gap.From, s, y)
		b.Class, b.Title = "writes", "writes are acknowledged"
		l.add(b)
		if last = gap.To; last.IsZero() {
			break
		}
		b = r.between(gap.From, gap.To, s, y)
		b.Class, b.Title = "gap", fmt.Sprintf("no write for %.2f s", gap.Duration().Seconds())
		if r.Quiet(gap) {
			b.Class, b.Title = "quiet", b.Title+", while no pod changed and one member led"
		}
		if label := fmt.Sprintf("%.1f s", gap.Duration().Seconds()); textWidth(label)+6 < b.Width {
			b.Label = label
		}
		l.add(b)
	}
	return l
}

// Quiet reports whether a gap in the writes is not the rollout's: no pod changed, and one member led.
func (r Run) Quiet(gap Gap) bool { return r.steady(gap.From.Add(-reaction), gap.To) }

// reaction is how long after a change of a pod or of the leader a gap may be its effect.
const reaction = time.Second

// steady reports whether one member led, and no pod changed, all the time.
func (r Run) steady(from, to time.Time) bool {
	within := func(t time.Time) bool { return !t.Before(from) && !t.After(to) }
	for _, pod := range r.Members {
		if slices.ContainsFunc(r.Pods[pod], func(s Span) bool { return within(s.From) || within(s.To) }) {
			return false
		}
	}
	return !within(r.FrozenAt) &&
		!slices.ContainsFunc(r.Steps, func(s Step) bool { return within(s.At) }) &&
		slices.ContainsFunc(r.Reigns, func(reign Reign) bool { return reign.From.Before(from) && reign.To.After(to) })
}
