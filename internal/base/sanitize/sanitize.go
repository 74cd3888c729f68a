// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package sanitize makes text from elsewhere fit to be stored, logged and shown: what a server answered, what a container
// said at its end, what a user wrote into an annotation. It imports the standard library only.
package sanitize

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// ellipsis ends a text that was cut.
const ellipsis = "…"

// Text returns s as plain text of at most limit bytes: whatever would move a cursor, change a color, reorder letters or
// begin a line is a space, and what is not UTF-8 is U+FFFD. A text that was cut ends in an ellipsis. A limit of 0 is none.
func Text(s string, limit int) string {
	return cut(strings.Map(func(r rune) rune {
		if Harmful(r) {
			return ' '
		}
		return r
	}, head(s, limit)), limit)
}

// Harmful reports whether a rune is not to be printed: a control character, such as the escape that begins a sequence for
// a terminal, a separator of lines, or a mark that reorders or hides the letters around it.
func Harmful(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp)
}

// head returns the part of s that a cut to limit bytes needs, so that little of a large text is read.
func head(s string, limit int) string {
	if limit > 0 && len(s) > limit+utf8.UTFMax {
		return s[:limit+utf8.UTFMax]
	}
	return s
}

// cut shortens s to limit bytes, between two runes.
func cut(s string, limit int) string {
	if limit <= 0 || len(s) <= limit {
		return s
	}
	end := max(limit-len(ellipsis), 0)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	if end == 0 {
		return ""
	}
	return s[:end] + ellipsis
}
