// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package read

import (
	"sync"

	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace"
	"k8s.io/apimachinery/pkg/types"
)

// Known are the templates of ControllerRevisions that were read before. For one StatefulSet, a name stands for one template: the
// StatefulSet controller makes it of a hash, and the data cannot be changed. If a revision is deleted, its pods
// still have the template that was read; if it is created again with other data, they do not have that. What is missing is
// not kept, so it is looked for again.
type Known struct {
	mu        sync.Mutex
	set       types.UID
	templates map[string]*inplace.Template
}

// maxKnown bounds Known. It is more than a rollout of a few pods whose template does not change all the time needs.
const maxKnown = 16

// get returns the template of a revision; nil if it is not known.
func (k *Known) get(set types.UID, name string) *inplace.Template {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.set != set {
		return nil
	}
	return k.templates[name]
}

// put keeps the template of a revision, unless there is none.
func (k *Known) put(set types.UID, name string, template *inplace.Template) {
	if k == nil || template == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.set != set || len(k.templates) >= maxKnown {
		k.set, k.templates = set, map[string]*inplace.Template{}
	}
	k.templates[name] = template
}
