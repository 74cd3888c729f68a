// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package logging bounds log lines. Errors quote answers of any length from API servers, stores and containers, and repeated lines of half
// a megabyte cost more than they are worth.
package logging

import (
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// KeyTask is the key under which all parts of the operator log a task.
const KeyTask = "task"

// maxText bounds each text of a line, in bytes.
const maxText = 4 << 10

// Bounded is an option of a logger that cuts the message and the texts of its fields, and frees them of control characters. Objects are logged as they are: they
// are this program's own.
func Bounded() zap.Option {
	return zap.WrapCore(func(core zapcore.Core) zapcore.Core { return bounded{core} })
}

type bounded struct{ zapcore.Core }

func (b bounded) With(fields []zapcore.Field) zapcore.Core { return bounded{b.Core.With(cut(fields))} }

func (b bounded) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if b.Enabled(entry.Level) {
		return checked.AddCore(entry, b)
	}
	return checked
}

func (b bounded) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	entry.Message = short(entry.Message)
	return b.Core.Write(entry, cut(fields))
}

// cut returns the fields with their texts cut. Those that are short are left as they are.
func cut(fields []zapcore.Field) []zapcore.Field {
	kept := make([]zapcore.Field, len(fields))
	for i, f := range fields {
		switch value := f.Interface.(type) {
		case error:
			if text := value.Error(); f.Type == zapcore.ErrorType && unfit(text) {
				f = zap.String(f.Key, short(text))
			}
		case fmt.Stringer:
			if text := value.String(); f.Type == zapcore.StringerType && unfit(text) {
				f = zap.String(f.Key, short(text))
			}
		}
		if f.Type == zapcore.StringType {
			f.String = short(f.String)
		}
		kept[i] = f
	}
	return kept
}

// short cuts a text that is too long, and frees it of what would control a terminal.
func short(text string) string {
	if unfit(text) {
		return sanitize.Text(text, maxText)
	}
	return text
}

// unfit reports whether a text is too long, or could control a terminal. Encoders escape the ends of lines.
func unfit(text string) bool {
	return len(text) > maxText || strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && sanitize.Harmful(r) })
}
