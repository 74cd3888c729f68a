// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"
)

//go:embed picture.svg.tmpl
var pictureTemplate string

var parsed = template.Must(template.New("picture").Parse(pictureTemplate))

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><title>{{.Title}}</title>
<body style="margin:2rem auto;max-width:1000px">{{.Picture}}</body></html>
`))

// picture is a chart in pixels.
type picture struct {
	Chart         Chart
	Width, Height float64
	CardHeight    float64
	Right         float64
	Panels        []panel
	Grid          []tick
	Zero          float64 // of the axis
	AxisY         float64 // base line of the words on the axis
	Legend        []legendEntry
}

// Write draws the chart.
func (c Chart) Write(w io.Writer) error {
	if err := parsed.Execute(w, c.picture()); err != nil {
		return fmt.Errorf("drawing the timeline: %w", err)
	}
	return nil
}

// WritePage draws the chart on a page.
func (c Chart) WritePage(w io.Writer) error {
	var drawn bytes.Buffer
	if err := c.Write(&drawn); err != nil {
		return err
	}
	if err := page.Execute(w, map[string]any{"Title": c.Title, "Picture": template.HTML(drawn.String())}); err != nil {
		return fmt.Errorf("writing the page of a timeline: %w", err)
	}
	return nil
}

func (c Chart) picture() picture {
	seconds := c.seconds()
	axis := scale{seconds: seconds}
	p := picture{Chart: c, Width: width, Right: width - marginRight, Grid: ticks(axis), Zero: axis.x(time.Time{})}
	y := float64(titleHeight)
	for _, run := range c.Runs {
		panel := run.panel(y, scale{run.From, seconds})
		p.Panels = append(p.Panels, panel)
		y = panel.Bottom + panelGap
	}
	p.AxisY = y
	p.Legend = c.legend(y + axisHeight)
	p.Height = y + axisHeight + legendHeight
	p.CardHeight = p.Height - 1
	return p
}

// legendEntry explains a color.
type legendEntry struct {
	X, Y  float64
	Class string
	Text  string
}

// writesKnown reports whether a run shows writes.
func (c Chart) writesKnown() bool {
	return slices.ContainsFunc(c.Runs, func(r Run) bool { return !r.WritesUnknown })
}

// words are those of its lanes: all runs of a chart have the same.
func (c Chart) words() words { return c.Runs[0].words() }

func (c Chart) legend(y float64) []legendEntry {
	entries := c.words()
	if c.Runs[0].clusters == nil {
		entries = append(slices.Clone(entries), word{class: "leader", text: "leader"})
	}
	if c.writesKnown() {
		entries = append(entries, word{class: "writes", text: "writes"}, word{class: "gap", text: "no writes"}, word{class: "quiet", text: "no writes, nothing changed"})
	}
	var all []legendEntry
	x := 28.0
	for _, w := range entries {
		all = append(all, legendEntry{X: round(x), Y: y, Class: w.class, Text: w.text})
		x += 24 + textWidth(w.text) + 4
	}
	return all
}
