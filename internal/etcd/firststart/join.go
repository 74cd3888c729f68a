// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package firststart

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	membersof "github.com/etcd-foreman/etcd-foreman/internal/etcd/members"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
)

// join decides on the first start of members that join a source cluster, given the content of the volumes and the answers of that cluster.
// They never begin a cluster: the source cluster becomes the Etcd's, and is recorded before any member is started. It is pure.
//
// Versions, alarms and quota are checked before members join, since a mistake affects the whole cluster: a learner that never starts blocks
// every other change of members, and a member that exceeds its quota raises an alarm that stops all writes.
func join(etcd *v1alpha1.Etcd, found *Cluster, source observe.Source, image string) decision {
	hex, list := fmt.Sprintf("%x", source.ClusterID), source.Members
	switch undeclared, missing := compare(etcd, list); {
	case source.Refused:
		return blocked(wait, "the source cluster has auth enabled, and refuses the operator: make the common name of the certificate in spec.etcd.clientUrlTls.clientTLSSecretRef a user of it with the role root, and have its members check client certificates (--client-cert-auth), or disable auth until its members have left")
	case len(list) == 0:
		return blocked(wait, "no client endpoint of spec.etcd.bootstrapWithExistingCluster answers with the member list of a cluster that has a quorum (%s): check the source cluster, the network and, with TLS, that each side trusts the CA of the other", strings.Join(etcd.Source().ClientEndpoints, ", "))
	case found != nil && found.ID != hex:
		return blocked(wait, "the volumes hold data of cluster %s, and the members are to join cluster %s: delete the claims whose data is not wanted", found.ID, hex)
	case found == nil && ownListed(etcd, list) != "":
		return blocked(wait, "the source cluster lists %s, which is a name or a peer URL of a member of this Etcd: choose another name for the Etcd or a memberNamePrefix, or, if the member is left from an earlier Etcd of this name, remove it with etcdctl", ownListed(etcd, list))
	case len(undeclared) > 0:
		return blocked(wait, "the source cluster has members that spec.etcd.bootstrapWithExistingCluster does not name: %s", strings.Join(undeclared[:min(len(undeclared), maxNames)], ", "))
	case len(missing) > 0:
		return blocked(wait, "spec.etcd.bootstrapWithExistingCluster names members that the source cluster does not have: %s", strings.Join(missing, ", "))
	case found == nil && refusedImage(source, image) != "":
		return blocked(wait, "%s", refusedImage(source, image))
	case found == nil && len(source.Alarms) > 0:
		return blocked(wait, "the source cluster has the alarm %s: %s", alarms(source), whatToDo(source))
	case found == nil && source.DatabaseSize >= component.Quota(etcd):
		return blocked(wait, "the database of the source cluster has %d bytes, and spec.etcd.quota of the Etcd is %d: its members would raise the alarm NOSPACE, which stops the writes of the whole cluster. Raise the quota, or compact and defragment the source cluster", source.DatabaseSize, component.Quota(etcd))
	}
	d := surveying(wait, "the members join cluster %s; recording that before they are started", hex)
	d.found = &Cluster{ID: hex, Size: etcd.Spec.Replicas}
	return d
}

// alarms names the alarms of a source cluster, and their members.
func alarms(source observe.Source) string {
	var names []string
	for _, a := range source.Alarms[:min(len(source.Alarms), maxNames)] {
		of := fmt.Sprintf("%x", a.MemberID)
		if i := slices.IndexFunc(source.Members, func(m etcdclient.Member) bool { return m.ID == a.MemberID }); i >= 0 {
			of = shown(source.Members[i])
		}
		names = append(names, fmt.Sprintf("%s of %s", a.Kind, of))
	}
	return strings.Join(names, ", ")
}

// whatToDo about the alarms of a source cluster, which would come along. With CORRUPT, nobody knows which member has the right data.
func whatToDo(source observe.Source) string {
	if slices.ContainsFunc(source.Alarms, func(a etcdclient.Alarm) bool { return a.Kind != etcdclient.AlarmNoSpace }) {
		return "replace the member by one with the data of the others, and disarm the alarm (etcdctl alarm disarm), before members join"
	}
	return "it takes no writes. Compact and defragment it, or raise its quota, and disarm the alarm (etcdctl alarm disarm), before members join"
}

// refusedImage returns why members of an image must not join the source cluster; empty if they may, or if its version is not known.
func refusedImage(source observe.Source, image string) string {
	var members []rollout.MemberVersion
	for _, endpoint := range slices.Sorted(maps.Keys(source.Versions)) {
		members = append(members, rollout.MemberVersion{Name: endpoint, Versions: source.Versions[endpoint], Answers: true})
	}
	_, why := rollout.RefusedVersion(members, observe.ImageVersion(image))
	return why
}

// maxName bounds the shown part of a member's name, in bytes, and maxNames how many are shown: the names come from another cluster.
const maxName, maxNames = 64, 5

func shown(m etcdclient.Member) string {
	return fmt.Sprintf("%s (%x)", sanitize.Text(m.Name, maxName), m.ID)
}

// compare returns the members of the source cluster that are not declared, and those that are declared and not listed.
func compare(etcd *v1alpha1.Etcd, list []etcdclient.Member) (undeclared, missing []string) {
	for _, m := range list {
		if membersof.Ordinal(etcd, m) < 0 && !membersof.IsSource(etcd, m) {
			undeclared = append(undeclared, shown(m))
		}
	}
	for _, s := range etcd.Source().Members {
		if !slices.ContainsFunc(list, func(m etcdclient.Member) bool { return s.Is(m.Name, m.PeerURLs) }) {
			missing = append(missing, s.Name)
		}
	}
	return undeclared, missing
}

// ownListed returns the name of a listed member that has the name or the address of one of the Etcd; empty if there is none.
func ownListed(etcd *v1alpha1.Etcd, list []etcdclient.Member) string {
	for _, m := range list {
		if membersof.Ordinal(etcd, m) >= 0 {
			return shown(m)
		}
		for i := range etcd.Spec.Replicas {
			if slices.ContainsFunc([]bool{true, false}, func(tls bool) bool { return slices.Contains(m.PeerURLs, component.PeerURL(etcd, i, tls)) }) {
				return shown(m)
			}
		}
	}
	return ""
}
