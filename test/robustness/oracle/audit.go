// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// entry is what is read of a line of the audit log.
type entry struct {
	Stage, Verb, RequestURI string
	User                    struct{ Username string }
	ObjectRef               struct{ Resource, Subresource, Namespace, Name, UID string }
	// RequestObject is there for some writes.
	RequestObject  json.RawMessage
	ResponseStatus struct{ Code int }
	// RequestReceivedTimestamp is when the request arrived. What it did was done later.
	RequestReceivedTimestamp time.Time
}

// Read reads, from an audit log, the requests of all users that can cost the cluster members or data, and that were
// carried out or may have been, and what the kubelet reports of etcd's containers. The last line may be torn.
func Read(log io.Reader, cluster Cluster) ([]Act, *Containers, error) {
	var acts []Act
	specs, containers := podSpecs{}, &Containers{}
	lines := bufio.NewReaderSize(log, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			slices.SortStableFunc(acts, func(a, b Act) int { return int(a.At - b.At) })
			return acts, containers, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reading the audit log: %w", err)
		}
		var e entry
		if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil {
			return nil, nil, fmt.Errorf("decoding a line of the audit log: %w", err)
		}
		if e.isDryRun() || e.ObjectRef.Namespace != cluster.Namespace || e.RequestReceivedTimestamp.Before(cluster.Began) {
			continue
		}
		switch {
		case e.carriedOut():
			if act, relevant := e.act(cluster, specs); relevant {
				acts = append(acts, act)
			}
			containers.note(e, cluster)
		case e.perhapsCarriedOut():
			if act, relevant := e.act(cluster, specs.copyOf(e.ObjectRef.Name)); relevant {
				act.Perhaps = true
				acts = append(acts, act)
			}
		}
	}
}

func (e entry) carriedOut() bool {
	return e.Stage == "ResponseComplete" && e.ResponseStatus.Code < 300
}

// perhapsCarriedOut reports whether the API server failed, or gave up, before it knew what became of the request. It carries out
// nothing that it answers with 4xx.
func (e entry) perhapsCarriedOut() bool {
	return (e.Stage == "ResponseComplete" || e.Stage == "Panic") && e.ResponseStatus.Code >= 500
}

// isDryRun reports whether the request only asked what would happen.
func (e entry) isDryRun() bool {
	type options struct{ DryRun []string }
	var body struct {
		options
		DeleteOptions options
	}
	_ = json.Unmarshal(e.RequestObject, &body) // a body that cannot be read is no dry run
	return strings.Contains(e.RequestURI, "dryRun=All") || len(body.DryRun)+len(body.DeleteOptions.DryRun) > 0
}

// act returns what the request did, and whether it matters.
func (e entry) act(cluster Cluster, specs podSpecs) (Act, bool) {
	ref := e.ObjectRef
	act := Act{At: e.RequestReceivedTimestamp.Sub(cluster.Began), User: e.User.Username, Name: ref.Name, UID: e.precondition()}
	resource := ref.Resource
	if ref.Subresource != "" {
		resource += "/" + ref.Subresource
	}
	switch e.Verb + " " + resource {
	case "create pods":
		specs.create(e)
	case "delete pods":
		act.Kind, act.Pods = DeletePod, []string{ref.Name}
	case "create pods/eviction":
		act.Kind, act.Pods = EvictPod, []string{ref.Name}
		if e.asksOnly() {
			return Act{}, false
		}
	case "deletecollection pods":
		act.Kind = DeletePodsOf
	case "update pods", "patch pods", "update pods/resize", "patch pods/resize":
		act.Kind, act.Pods = UpdatePod, []string{ref.Name}
		switch {
		case e.changesContainers():
			act.Effect, act.Change = specs.update(e)
		case e.setsLabels():
			act.Effect, act.Change = Keeps, Labels
		default:
			return Act{}, false
		}
	case "delete persistentvolumeclaims":
		act.Kind, act.Pods = DeleteClaim, []string{cluster.podOfClaim(ref.Name)}
		return act, act.Pods[0] != ""
	case "deletecollection persistentvolumeclaims":
		act.Kind, act.Pods = DeleteClaim, cluster.allPods()
		return act, true
	case "delete statefulsets":
		act.Kind = DeleteSet
		return act, cluster.runs(ref.Name) && !e.orphans()
	case "update statefulsets", "patch statefulsets", "update statefulsets/scale", "patch statefulsets/scale":
		act.Kind = ScaleSet
		replicas, set := e.replicas()
		act.Pods = beyond(ref.Name, replicas)
		act.Name = fmt.Sprintf("%s to %d", ref.Name, replicas)
		return act, set && cluster.runs(ref.Name)
	}
	return act, act.Kind == DeletePodsOf || act.Kind != "" && cluster.setOf(ref.Name) != ""
}

// maxMembers is more than an etcd cluster has.
const maxMembers = 9

// beyond returns the pods that a StatefulSet of so many replicas has no more.
func beyond(set string, replicas int) []string {
	var pods []string
	for i := replicas; i < maxMembers; i++ {
		pods = append(pods, set+"-"+strconv.Itoa(i))
	}
	return pods
}

// isMember reports whether a pod has a name of the StatefulSet's.
func isMember(pod, set string) bool {
	ordinal, cut := strings.CutPrefix(pod, set+"-")
	_, err := strconv.Atoi(ordinal)
	return cut && err == nil
}

// podOfClaim returns the pod of a claim, whose name is TEMPLATE-POD; empty if it is not a StatefulSet's.
func (c Cluster) podOfClaim(claim string) string {
	for _, pod := range c.allPods() {
		if strings.HasSuffix(claim, "-"+pod) {
			return pod
		}
	}
	return ""
}

// precondition returns the UID that a deletion, an eviction or a patch names.
func (e entry) precondition() string {
	type options struct {
		Preconditions struct{ UID string }
	}
	var body struct {
		options
		DeleteOptions options
		Metadata      struct{ UID string }
	}
	if json.Unmarshal(e.RequestObject, &body) != nil {
		return ""
	}
	return body.Preconditions.UID + body.DeleteOptions.Preconditions.UID + body.Metadata.UID
}

// asksOnly reports whether an eviction is a dry run, which asks a budget and evicts nobody.
func (e entry) asksOnly() bool {
	var eviction struct {
		DeleteOptions struct{ DryRun []string }
	}
	return json.Unmarshal(e.RequestObject, &eviction) == nil && len(eviction.DeleteOptions.DryRun) > 0
}

func (e entry) orphans() bool {
	var options struct{ PropagationPolicy string }
	return json.Unmarshal(e.RequestObject, &options) == nil && options.PropagationPolicy == "Orphan"
}

// changesContainers reports whether a write of a pod is about its containers: one of metadata restarts nothing. One that
// cannot be read might.
func (e entry) changesContainers() bool {
	if e.ObjectRef.Subresource == "resize" {
		return true
	}
	var pod struct {
		Spec struct {
			Containers     json.RawMessage
			InitContainers json.RawMessage
		}
	}
	if e.Verb == "update" || json.Unmarshal(e.RequestObject, &pod) != nil {
		return true
	}
	return len(pod.Spec.Containers)+len(pod.Spec.InitContainers) > 0
}

// setsLabels reports whether a write of a pod sets labels, besides the one of its revision.
func (e entry) setsLabels() bool {
	var pod struct {
		Metadata struct{ Labels map[string]any }
	}
	if json.Unmarshal(e.RequestObject, &pod) != nil {
		return false
	}
	delete(pod.Metadata.Labels, "controller-revision-hash")
	return len(pod.Metadata.Labels) > 0
}

// replicas returns what a write sets the number of replicas to, if it does.
func (e entry) replicas() (int, bool) {
	var set struct{ Spec struct{ Replicas *int } }
	if json.Unmarshal(e.RequestObject, &set) != nil || set.Spec.Replicas == nil {
		return 0, false
	}
	return *set.Spec.Replicas, true
}
