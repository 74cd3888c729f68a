// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Sizes in pixels. The picture is as wide as a README.
const (
	width       = 1000
	marginLeft  = 124
	marginRight = 28
	leadIn      = 4 * time.Second // shown before the zero of the axis

	titleHeight  = 92
	headerHeight = 34
	barHeight    = 22
	laneHeight   = barHeight + 8
	stepHeight   = 20
	ticksHeight  = 22
	panelGap     = 30
	axisHeight   = 18
	legendHeight = 36
	markSpacing  = 18
)

// scale maps times of one run to the picture.
type scale struct {
	from    time.Time
	seconds float64 // shown after the zero
}

func (s scale) x(t time.Time) float64 {
	lead := leadIn.Seconds()
	seconds := min(max(t.Sub(s.from).Seconds(), -lead), s.seconds)
	return round(marginLeft + (seconds+lead)/(s.seconds+lead)*(width-marginLeft-marginRight))
}

// seconds returns the time that all runs need after their zero, and a little more.
func (c Chart) seconds() float64 {
	longest := 1.0
	for _, r := range c.Runs {
		longest = max(longest, r.Until.Sub(r.From).Seconds())
	}
	return longest * 1.015
}

// tick is a mark on the axis.
type tick struct {
	X    float64
	Text string
}

// ticks returns about eight marks at round numbers of seconds.
func ticks(s scale) []tick {
	step := 1.0
	for _, candidate := range []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 21600, 86400, 604800} {
		if step = candidate; s.seconds/candidate <= 12 {
			break
		}
	}
	var all []tick
	for at := 0.0; at <= s.seconds; at += step {
		all = append(all, tick{X: s.x(s.from.Add(time.Duration(at) * time.Second)), Text: fmt.Sprintf("%.0f s", at)})
	}
	return all
}

func round(x float64) float64 { return math.Round(x*10) / 10 }

// textWidth returns the approximate width of a text of 12 pixels in height.
func textWidth(s string) float64 { return 6.4 * float64(len([]rune(s))) }

// fit cuts a text at a word so that it is not wider than width.
func fit(s string, width float64) string {
	if textWidth(s) <= width {
		return s
	}
	words := strings.Fields(s)
	for len(words) > 1 && textWidth(strings.Join(words, " ")+" …") > width {
		words = words[:len(words)-1]
	}
	return strings.Join(words, " ") + " …"
}

// tail cuts the name of a lane from the left, so that it fits beside it.
func tail(name string) string {
	cut := []rune(name)
	for textWidth(string(cut)) > marginLeft-16 {
		cut = cut[1:]
	}
	if len(cut) < len([]rune(name)) {
		cut[0] = '…'
	}
	return string(cut)
}
