// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"github.com/go-logr/zapr"
	. "github.com/onsi/gomega"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// An error of half a megabyte is truncated, wherever it is in a line. Short values and the level are unchanged.
func TestLinesAreBounded(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(&out), zapcore.InfoLevel)
	log := zapr.NewLogger(zap.New(core, Bounded()))
	long := strings.Repeat("no\n", 180<<10)
	for _, write := range []func(){
		func() { log.Error(errors.New(long), "failed") },
		func() { log.Info(long) },
		func() { log.Info("failed", "reason", long) },
		func() { log.WithValues("reason", long).Info("failed") },
		func() { log.Info("failed", "text", stringer(long)) },
	} {
		out.Reset()
		write()
		g.Expect(out.Len()).To(And(BeNumerically(">", 4000), BeNumerically("<", 6000)))
	}
	out.Reset()
	log.Error(errors.New("a\nb"), "failed", "n", 1)
	g.Expect(out.String()).To(And(ContainSubstring(`"error":"a\nb"`), ContainSubstring(`"n":1`)))
	out.Reset()
	log.V(1).Info("detail")
	g.Expect(out.String()).To(BeEmpty())
}

// What a member or a store has answered does not control the terminal of who reads the log.
func TestLinesControlNoTerminal(t *testing.T) {
	g := NewWithT(t)
	for name, encoder := range map[string]zapcore.Encoder{"json": zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), "text": zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig())} {
		var out bytes.Buffer
		log := zapr.NewLogger(zap.New(zapcore.NewCore(encoder, zapcore.AddSync(&out), zapcore.InfoLevel), Bounded()))
		const hostile = "a\x1b[2Jb\u009b2Jc\u202ed"
		log.Error(errors.New(hostile), hostile, "reason", hostile, "text", stringer(hostile))
		g.Expect(strings.ContainsFunc(strings.ReplaceAll(strings.ReplaceAll(out.String(), "\n", ""), "\t", ""), sanitize.Harmful)).To(BeFalse(), "%s: %q", name, out.String())
		g.Expect(out.String()).To(And(ContainSubstring("a [2Jb 2Jc d"), Not(ContainSubstring("u001b"))))
	}
}

type stringer string

func (s stringer) String() string { return string(s) }
