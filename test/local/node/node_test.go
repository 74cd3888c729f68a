// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/process"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
)

func TestBelongsTo(t *testing.T) {
	const uid = "0f3c8e1a-1111-2222-3333-444455556666"
	for name, test := range map[string]struct {
		cgroup, uid string
		want        bool
	}{
		"cgroupfs":         {"/root/kubepods/burstable/pod" + uid + "/abc", uid, true},
		"systemd":          {"/kubepods.slice/kubepods-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice/x.scope", uid, true},
		"another pod":      {"/kubepods/pod1f3c8e1a-1111-2222-3333-444455556666/abc", uid, false},
		"not in a pod":     {"/user.slice", uid, false},
		"no UID was given": {"/kubepods/pod" + uid + "/abc", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := belongsTo(test.cgroup, test.uid); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestFindEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Find(ctx, "no-such-pod", Etcd); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v", err)
	}
}

func TestFreezeThawKill(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), machine.Patience())
	defer cancel()
	cmd := exec.Command("sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }()
	identity, err := process.Identify(cmd.Process.Pid)
	if err != nil {
		_ = cmd.Process.Kill()
		t.Skipf("no /proc here: %v", err)
	}
	p := Process{identity: identity, podUID: "test"}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{{"freeze", p.Freeze}, {"freeze again", p.Freeze}, {"thaw", p.Thaw}, {"freeze", p.Freeze}, {"kill", p.Kill}, {"kill again", p.Kill}} {
		if err := step.do(ctx); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
	}
	if p.Alive() {
		t.Error("alive after Kill")
	}
	if err := p.Freeze(ctx); err == nil {
		t.Error("no error from freezing a process that has ended")
	}
}
