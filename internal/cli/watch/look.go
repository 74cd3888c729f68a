// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/story"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/etcd-foreman/etcd-foreman/internal/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/observe"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// look is what the table is made of: the task, and the members as the API server knows them. Etcd itself is not
// asked: the operator does that, and the Etcd's status says what it heard.
type look struct {
	*kube.Kube
	api      client.Reader
	observer *observe.Observer
}

func newLook(k *kube.Kube, api client.Reader) *look {
	return &look{k, api, observe.New(nobody{}, k.Clock, observe.FromAfar())}
}

// nobody reaches no member.
type nobody struct{}

func (nobody) Dial(string, *tls.Config) (etcdclient.Client, error) {
	return nil, errors.New("members are not asked")
}

// lines look at the cluster, and return what makes lines of it in a width.
func (l *look) lines(ctx context.Context, task *v1alpha1.EtcdOperatorTask) func(width int) []string {
	v := view{task: task, now: l.Clock.Now()}
	etcd, err := l.Etcd(ctx, l.api, task.Namespace, task.Spec.OwnerEtcdReference.Name)
	if err == nil {
		v.etcd = etcd
		v.snapshot, err = l.observer.Observe(ctx, l.api, etcd)
	}
	if err != nil {
		v.trouble = kube.Sentence(err)
	} else {
		v.snapshot = v.snapshot.ByReadiness()
	}
	return v.lines
}

// view is what one frame of the table shows. It is a value.
type view struct {
	task     *v1alpha1.EtcdOperatorTask
	etcd     *v1alpha1.Etcd
	snapshot *observe.Snapshot
	// trouble is why the members are not known.
	trouble string
	now     time.Time
}

func (v view) lines(width int) []string {
	t := v.task
	lines := []string{
		text.Clip(fmt.Sprintf("%s of Etcd %s/%s: %s, %s", t.Spec.Type, t.Namespace, t.Spec.OwnerEtcdReference.Name, story.State(t), took(t, v.now)), width),
		"Task " + t.Name,
	}
	if v.snapshot != nil {
		lines = append(lines, "The newest revision is "+short(v.snapshot.StatefulSet.UpdateRevision), "")
		lines = append(lines, v.members().Lines(width)...)
	} else {
		lines = append(lines, "")
		lines = append(lines, text.Wrap("The members are not known: "+v.trouble, 0, width)...)
	}
	return append(append(lines, ""), text.Wrap(v.doing(), 0, width)...)
}

// doing says what the task does, or what holds it and for how long.
func (v view) doing() string {
	if r := v.task.Status.Rollout; r != nil && r.HeldBy != nil {
		say := fmt.Sprintf("Held by %s for %s: %s", r.HeldBy.Guard, text.Since(r.HeldBy.Since.Time, v.now), r.HeldBy.Message)
		if story.Progressing(v.task).Reason == v1alpha1.ReasonStalled {
			say = "Stalled. " + say
		}
		return say
	}
	if v.task.Status.State.IsFinal() {
		return ""
	}
	return story.Now(v.task)
}

func (v view) members() *text.Table {
	t := &text.Table{Columns: []text.Column{
		{Name: "POD"}, {Name: "CLASS"}, {Name: "ROLE"}, {Name: "REVISION", Rank: 1}, {Name: "LAST OPERATION"}, {Name: "SINCE"},
	}}
	for _, o := range v.snapshot.Ordinals {
		revision := "-"
		if o.Pod != nil {
			revision = short(o.Pod.Revision)
		}
		operation, since := v.lastOperation(o.Name)
		t.Add(o.Name, string(o.Class), v.role(o), revision, operation, since)
	}
	return t
}

// role of a member, as its lease or else the Etcd's status says. A member that does not participate has none.
func (v view) role(o observe.Ordinal) string {
	if o.Class != v1alpha1.ClassParticipating {
		return "-"
	}
	if o.Role != v1alpha1.RoleUnknown && o.Role != "" {
		return string(o.Role)
	}
	for _, m := range v.etcd.Status.Members {
		if m.Name == v.etcd.MemberName(o.Name) && m.Role != v1alpha1.RoleUnknown && m.Role != "" {
			return string(m.Role)
		}
	}
	return "-"
}

// lastOperation is the newest one of a pod, and how long its state has lasted.
func (v view) lastOperation(pod string) (operation, since string) {
	r := v.task.Status.Rollout
	if r == nil {
		return "-", "-"
	}
	for _, p := range slices.Backward(r.Pods) {
		if p.Name == pod {
			return fmt.Sprintf("%s %s", p.LastOperation.Name, p.LastOperation.State), text.Since(p.LastOperation.LastTransitionTime.Time, v.now)
		}
	}
	if h := r.LeaderHandover; h != nil && h.From == pod {
		return "MoveLeader", text.Since(h.LastAttemptTime.Time, v.now)
	}
	return "-", "-"
}

// short is the hash of a revision, without the name of the StatefulSet.
func short(revision string) string { return revision[strings.LastIndex(revision, "-")+1:] }
