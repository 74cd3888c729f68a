// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
)

// quiet is for how long etcd-druid must not have written. It writes the status of each Etcd every 15 seconds.
const quiet = time.Minute

// oldestEtcd that the operator's pods run: earlier ones do not serve the probes.
var oldestEtcd = version.MustParseGeneric("3.5.11")

// input decides whether an Etcd is adopted, and whether the first change of its pods is applied. It comes from the API server and
// from the members.
type input struct {
	etcd *v1alpha1.Etcd
	set  *appsv1.StatefulSet
	// foreign objects have names that the Etcd needs, and are neither its own nor etcd-druid's.
	foreign []ownership.Foreign
	// snapshot of the cluster; nil when it could not be observed.
	snapshot *cluster.Snapshot
	// images of the containers etcd and backup-restore that the operator's pods would have.
	images map[string]string
	// peerTLS of the pods as they are.
	peerTLS bool
	// onDelete: the operator replaces pods, by its feature gate.
	onDelete bool
	// enabled: the operator adopts, by its feature gate.
	enabled bool
	// now is the time by the clock of the API server, which has recorded when etcd-druid wrote.
	now time.Time
}

// refuseAdoption returns why an Etcd is not adopted, as a sentence without its full stop that says what to do; empty if it may be.
// It is pure.
func refuseAdoption(f input) string {
	switch {
	case !f.enabled:
		return "the operator's feature gate AdoptFromDruid is off"
	case f.set == nil:
		return fmt.Sprintf("there is no StatefulSet %s/%s: there is nothing to adopt. Remove the annotation %s", f.etcd.Namespace, f.etcd.Name, v1alpha1.AnnotationOperation)
	case f.set.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy:
		return fmt.Sprintf("StatefulSet %s is the operator's own: there is nothing to adopt. Remove the annotation %s", f.set.Name, v1alpha1.AnnotationOperation)
	case !f.onDelete:
		return "the feature gate QuorumAwareUpdatesWithOnDelete is off, so the first change would be rolled out without regard to the quorum: switch it on"
	case len(f.foreign) > 0:
		return f.foreign[0].String()
	case f.set.DeletionTimestamp != nil:
		return fmt.Sprintf("StatefulSet %s is being deleted", f.set.Name)
	case ownership.Manager(f.etcd, f.set) != "":
		// etcd-druid came back and has gone again, perhaps in the middle of a rollout, which then has to continue.
		return active(f)
	}
	return first(f, active, layout, refuseConversion)
}

// refuseConversion returns why the pods of an adopted Etcd are not replaced by the operator's; empty if they may be. It is pure.
func refuseConversion(f input) string {
	return first(f, replicas, members, images, certificates, etcdVersions)
}

// refuseReturn returns why an adopted Etcd is not handed back; empty if it may be. It is pure.
func refuseReturn(f input, tasks []v1alpha1.EtcdOperatorTask) string {
	for i := range tasks {
		if t := &tasks[i]; t.Status.State == v1alpha1.TaskStateInProgress {
			return fmt.Sprintf("task %s is running: wait until it has ended, or delete it", t.Name)
		}
	}
	return first(f, applied, replicas, members, olderEtcd, knownTLS, knownBackup)
}

// applied objects if the pods may have what the spec no longer names: the other checks read the spec.
func applied(f input) string {
	have := f.etcd.Status.ObservedGeneration
	if have == f.etcd.Generation || ownership.Unconverted(f.etcd, f.set) {
		return ""
	}
	why := "if that takes long, see status.lastErrors"
	switch {
	case ownership.DruidIsBack(f.etcd):
		why = "it is not while etcd-druid is back: " + ownership.Contested(f.etcd).Remedy
	case f.etcd.SpecSuspended():
		why = "it is not while its reconciliation is suspended"
	}
	return fmt.Sprintf("the spec has yet to be applied: its generation is %d, and status.observedGeneration is %d; %s", f.etcd.Generation, have, why)
}

// knownTLS objects if etcd-druid would roll out members without TLS, since it does not know where their certificates are.
func knownTLS(f input) string {
	switch {
	case f.etcd.Spec.ManagedTLS == nil || ownership.Unconverted(f.etcd, f.set):
		return ""
	case f.etcd.ManagesTLS(v1alpha1.TLSClients) || f.etcd.ManagesTLS(v1alpha1.TLSPeers):
		return "etcd-druid does not know spec.managedTLS, and would start members without TLS, which do not reach the others; and it cannot be removed from clients or peers: create an Etcd for etcd-druid under another name, with a copy of the backups, and remove the annotation " + v1alpha1.AnnotationOperation
	}
	return "etcd-druid does not know spec.managedTLS, and would start agents without TLS: name Secrets of your own in spec.backup.tls, and remove spec.managedTLS"
}

// knownBackup objects if etcd-backup-restore would continue a backup that it cannot read.
func knownBackup(f input) string {
	if f.etcd.Encryption() == nil || ownership.Unconverted(f.etcd, f.set) {
		return ""
	}
	return fmt.Sprintf("etcd-druid does not know spec.backup.encryption, and etcd-backup-restore would add deltas to a full snapshot that it cannot read: remove the annotation %s and spec.backup.encryption, "+
		"and once the pods are replaced, take a full snapshot (kubectl etcdtask snapshot %s -n %s --type full --wait). Then hand the Etcd back", v1alpha1.AnnotationOperation, f.etcd.Name, f.etcd.Namespace)
}

// olderEtcd objects if the pods of etcd-druid could not read the data any more.
func olderEtcd(f input) string {
	adopted, err := version.ParseGeneric(f.set.Annotations[v1alpha1.AnnotationAdoptedVersion])
	if err != nil {
		return ""
	}
	lower := fmt.Sprintf("%d.%d.99", adopted.Major(), adopted.Minor())
	for _, m := range rollout.VersionsOf(f.snapshot) {
		if storage, err := version.ParseGeneric(m.Versions.Storage); err == nil && storage.GreaterThan(version.MustParseGeneric(lower)) {
			return fmt.Sprintf("the cluster is at etcd %d.%d, and etcd-druid ran %s: downgrade it first (docs/rollout.md), or, if etcd-druid runs that version by now, remove the annotation %s from StatefulSet %s",
				storage.Major(), storage.Minor(), adopted, v1alpha1.AnnotationAdoptedVersion, f.set.Name)
		}
	}
	return ""
}

// first returns the first objection of some checks; empty if there is none.
func first(f input, checks ...func(input) string) string {
	for _, check := range checks {
		if why := check(f); why != "" {
			return why
		}
	}
	return ""
}

// active objects if etcd-druid has just written.
func active(f input) string {
	for _, fields := range append(f.etcd.ManagedFields[:len(f.etcd.ManagedFields):len(f.etcd.ManagedFields)], f.set.ManagedFields...) {
		if fields.Manager == v1alpha1.ManagedByDruid && fields.Time != nil && f.now.Sub(fields.Time.Time) < quiet {
			return fmt.Sprintf("etcd-druid is running: it wrote at %s. Scale its Deployment to 0 and remove its webhooks; this continues %s after its last write", fields.Time.UTC().Format(time.RFC3339), quiet)
		}
	}
	return ""
}

// layout objects to a StatefulSet that differs in a field that cannot be changed.
func layout(f input) string {
	spec, differs := f.set.Spec, ""
	selector := map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByDruid, v1alpha1.LabelPartOf: f.etcd.Name}
	switch {
	case spec.Selector == nil || len(spec.Selector.MatchExpressions) > 0 || !maps.Equal(spec.Selector.MatchLabels, selector):
		differs = "selector"
	case spec.ServiceName != f.etcd.PeerServiceName():
		differs = "serviceName"
	case spec.PodManagementPolicy != appsv1.ParallelPodManagement:
		differs = "podManagementPolicy"
	case len(spec.VolumeClaimTemplates) != 1 || spec.VolumeClaimTemplates[0].Name+"-"+f.etcd.Name+"-0" != f.etcd.ClaimName(0):
		differs = "volumeClaimTemplates"
	}
	if differs == "" {
		return ""
	}
	return fmt.Sprintf("spec.%s of StatefulSet %s is not what etcd-druid 0.38 writes, and cannot be changed: let that version reconcile the Etcd first", differs, f.set.Name)
}

func replicas(f input) string {
	switch have := ptr.Deref(f.set.Spec.Replicas, 1); {
	case have == 0:
		return fmt.Sprintf("StatefulSet %s has no replicas, so its members cannot say which version they run: wake the cluster up with etcd-druid first", f.set.Name)
	case have != f.etcd.Spec.Replicas:
		return fmt.Sprintf("StatefulSet %s has %d replicas, and the Etcd asks for %d: let etcd-druid finish, or set spec.replicas to %d", f.set.Name, have, f.etcd.Spec.Replicas, have)
	}
	return ""
}

// members objects if the cluster is not healthy, or its pods are not at the newest template: then the StatefulSet controller,
// or etcd-druid, is replacing pods.
func members(f input) string {
	s := f.snapshot
	if s == nil || !s.StatefulSet.Observed {
		return fmt.Sprintf("the members of StatefulSet %s could not be observed", f.set.Name)
	}
	if outdated, missing := s.PodsBehind(); outdated+missing > 0 {
		return fmt.Sprintf("%d of %d pods are not at the newest template of StatefulSet %s: wait until they are", outdated+missing, s.Replicas(), f.set.Name)
	}
	for _, o := range s.Ordinals {
		if o.Class != v1alpha1.ClassParticipating || !o.Answers {
			return fmt.Sprintf("%s is %s: fix it first", o.Name, o.Describe())
		}
	}
	for _, v := range s.Cluster.Voters {
		if v.Ordinal < 0 {
			return fmt.Sprintf("voter %s is not a member of StatefulSet %s: remove it from the cluster first", v.Name, f.set.Name)
		}
	}
	if len(s.Cluster.Voters) != s.Replicas() {
		return fmt.Sprintf("%d of %d members are voters: wait until all are", len(s.Cluster.Voters), s.Replicas())
	}
	return ""
}

// images objects if the spec names an image of etcd-druid, which has other programs than the operator's pods start. Pods that were handed
// back may still have the operator's.
func images(f input) string {
	if !f.snapshot.StatefulSet.OfDruid {
		return ""
	}
	for _, c := range f.set.Spec.Template.Spec.Containers {
		field := map[string]string{v1alpha1.ContainerEtcd: "spec.etcd.image", v1alpha1.ContainerBackupRestore: "spec.backup.image"}[c.Name]
		if field != "" && f.images[c.Name] == c.Image {
			return fmt.Sprintf("%s is the image of etcd-druid (%s), which the operator's pods cannot run: remove the field", field, c.Image)
		}
	}
	return ""
}

// certificates objects if etcd-druid has not finished a change of TLS. The conversion and that change must not meet.
func certificates(f input) string {
	if wanted := f.etcd.PeerTLS() != nil; wanted != f.peerTLS {
		return fmt.Sprintf("spec.etcd.peerUrlTls and the pods of StatefulSet %s differ: let etcd-druid finish the change first", f.set.Name)
	}
	for _, o := range f.snapshot.Ordinals {
		if strings.HasPrefix(o.Pod.Endpoint, "https://") != (f.etcd.ClientTLS() != nil) {
			return fmt.Sprintf("spec.etcd.clientUrlTls and %s differ: let etcd-druid finish the change first", o.Name)
		}
	}
	return ""
}

// etcdVersions is the version gate.
func etcdVersions(f input) string {
	image := f.images[v1alpha1.ContainerEtcd]
	target := observe.ImageVersion(image)
	if !rollout.IsKnownVersion(target) {
		return fmt.Sprintf("the version of etcd in image %q is not known: use an image with a tag such as v3.6.16, also beside a digest", image)
	}
	all := rollout.VersionsOf(f.snapshot)
	for _, m := range all {
		switch runs, err := version.ParseGeneric(m.Versions.Etcd); {
		case err != nil:
			return fmt.Sprintf("%s does not say which version of etcd it runs", m.Name)
		case runs.LessThan(oldestEtcd):
			return fmt.Sprintf("%s runs etcd %s, and the operator runs %s and newer: let etcd-druid upgrade it first (its feature gate UpgradeEtcdVersion)", m.Name, runs, oldestEtcd)
		}
	}
	if _, why := rollout.RefusedVersion(all, target); why != "" {
		return why
	}
	return ""
}

// newestEtcd returns the newest version of etcd among the members.
func (f input) newestEtcd() string {
	newest := version.MustParseGeneric("0.0")
	for _, m := range rollout.VersionsOf(f.snapshot) {
		if v, err := version.ParseGeneric(m.Versions.Etcd); err == nil && newest.LessThan(v) {
			newest = v
		}
	}
	return newest.String()
}
