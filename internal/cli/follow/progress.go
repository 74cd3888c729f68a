// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/story"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"k8s.io/utils/clock"
)

const (
	eraseLine = "\r\x1b[K"
	period    = time.Second
)

// progress is the line that shows what a task does.
type progress struct {
	out   io.Writer
	clock clock.WithTicker
	width func() int
	stop  chan struct{}
	done  sync.WaitGroup

	mu    sync.Mutex
	start time.Time
	text  string
}

func newProgress(k *kube.Kube) *progress {
	p := &progress{out: k.ErrOut, clock: k.Clock, width: func() int { return kube.WidthOf(k.ErrOut) }, start: k.Clock.Now(), stop: make(chan struct{})}
	if p.width() == 0 {
		return p
	}
	ticker := k.Clock.NewTicker(period)
	p.done.Go(func() {
		defer ticker.Stop()
		for {
			select {
			case <-p.stop:
				return
			case <-ticker.C():
				p.mu.Lock()
				p.renew()
				p.mu.Unlock()
			}
		}
	})
	return p
}

// show shows a new state of the task.
func (p *progress) show(task *v1alpha1.EtcdOperatorTask) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.text
	p.text = story.State(task)
	if now := story.Now(task); now != "" {
		p.text += ": " + now
	}
	switch {
	case p.width() > 0:
		p.renew()
	case p.text != before && !task.Status.State.IsFinal():
		text.Print(p.out, p.text)
	}
}

// renew replaces the line.
func (p *progress) renew() {
	took := p.clock.Since(p.start).Truncate(time.Second).String()
	fmt.Fprint(p.out, eraseLine+text.Clip(took+" "+p.text, p.width()-1)) //nolint:errcheck // there is nowhere to report it
}

// end removes the line.
func (p *progress) end() {
	close(p.stop)
	p.done.Wait()
	if p.width() > 0 {
		fmt.Fprint(p.out, eraseLine) //nolint:errcheck // there is nowhere to report it
	}
}
