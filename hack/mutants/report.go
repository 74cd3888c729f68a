// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// readEquivalents reads a list of mutants and why each is equivalent: the key of a mutant on a line, and the reason on the next,
// indented. Lines that begin with # are comments.
func readEquivalents(name string) (map[string]string, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	reasons, key := map[string]string{}, ""
	for n, line := range strings.Split(string(content), "\n") {
		text := strings.TrimSpace(line)
		switch {
		case text == "" || strings.HasPrefix(line, "#"):
		case line == text:
			if key != "" && reasons[key] == "" {
				return nil, fmt.Errorf("%s:%d: the mutant before has no reason", name, n+1)
			}
			key = text
			reasons[key] = ""
		case key == "":
			return nil, fmt.Errorf("%s:%d: a reason without a mutant", name, n+1)
		default:
			reasons[key] = strings.TrimSpace(reasons[key] + " " + text)
		}
	}
	if key != "" && reasons[key] == "" {
		return nil, fmt.Errorf("%s: the last mutant has no reason", name)
	}
	return reasons, nil
}

// unmatched returns the listed mutants of the packages that do not exist any more.
func unmatched(equivalents map[string]string, mutants []mutant, packages []goPackage) []string {
	exist, dirs := map[string]bool{}, map[string]bool{}
	for _, m := range mutants {
		exist[m.key()] = true
	}
	for _, p := range packages {
		dirs[strings.TrimPrefix(p.ImportPath, p.Module.Path+"/")] = true
	}
	var gone []string
	for _, key := range slices.Sorted(maps.Keys(equivalents)) {
		file, _, _ := strings.Cut(key, ": ")
		if !exist[key] && dirs[path.Dir(file)] {
			gone = append(gone, key)
		}
	}
	return gone
}

// score counts the mutants of a package.
type score struct{ all, killed, timedOut, equivalent, unjudged int }

// percent of the mutants that were judged, and are not equivalent, is killed.
func (s score) percent() float64 {
	if s.all == s.equivalent+s.unjudged {
		return 100
	}
	return 100 * float64(s.killed) / float64(s.all-s.equivalent-s.unjudged)
}

func (s *score) String() string {
	return fmt.Sprintf("%5d mutants, %5d killed, %d of them by a timeout, %3d equivalent, %d not judged: %.1f%%", s.all, s.killed, s.timedOut, s.equivalent, s.unjudged, s.percent())
}

// say prints. Nothing depends on whether it is read.
func say(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }

// report prints the survivors, and the score of each package. It returns an error if that of a package is too low, or the list of equivalent
// mutants is wrong.
func report(out io.Writer, o options, verdicts []verdict, gone []string) error {
	scores, wrong := map[string]*score{}, gone
	var total score
	for _, v := range verdicts {
		s := scores[path.Dir(v.file)]
		if s == nil {
			s = &score{}
			scores[path.Dir(v.file)] = s
		}
		for _, s := range []*score{s, &total} {
			s.all++
			switch {
			case v.unjudged:
				s.unjudged++
			case v.equivalent != "":
				s.equivalent++
			case v.killedBy != "":
				s.killed++
				if v.timedOut {
					s.timedOut++
				}
			}
		}
		switch {
		case v.unjudged:
		case v.equivalent != "" && v.killedBy != "" && !o.reached:
			wrong = append(wrong, v.String()+" (killed by "+v.killedBy+")")
		case v.equivalent == "" && v.unreached:
			say(out, "not reached: %s\n", v)
		case v.equivalent == "" && v.killedBy == "":
			say(out, "survives: %s\n", v)
		case v.equivalent == "" && v.timedOut:
			say(out, "killed by a timeout: %s\n", v)
		}
	}
	var low []string
	for _, name := range slices.Sorted(maps.Keys(scores)) {
		s := scores[name]
		if s.percent() < o.minimum {
			low = append(low, name)
		}
		say(out, "%-40s %s\n", name, s)
	}
	say(out, "%-40s %s\n", "in total", &total)
	for _, w := range wrong {
		say(out, "listed as equivalent, and not so: %s\n", w)
	}
	switch {
	case len(wrong) > 0:
		return fmt.Errorf("correct %s", o.equivalent)
	case len(low) > 0:
		return fmt.Errorf("less than %.0f%% of the mutants are killed in %s", o.minimum, strings.Join(low, ", "))
	}
	return nil
}
