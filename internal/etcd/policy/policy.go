// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package policy decides what the operator's configuration allows of Etcds and copies: images, TLS, claims and prefixes of stores, and
// the stores of copies. It is pure.
package policy

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/utils/ptr"
)

// Rules are the parts of the operator's configuration that restrict Etcds and tasks.
type Rules struct {
	// Images that an Etcd may name; empty for any.
	Images []string
	// TLS is required of clients and peers.
	TLS bool
	// LocalClaims that may be mounted as stores: NAMESPACE/NAME, NAMESPACE/*, or *.
	LocalClaims []string
	// NamespacePrefixes: the prefix of a store starts with the namespace of the Etcd.
	NamespacePrefixes bool
	// CloudIdentity: a store may have no Secret.
	CloudIdentity bool
	// Endpoints that a store may name in place of its own.
	Endpoints []string
	// CopyStores that a copy may use besides the Etcd's own, and AnyCopyStore for any.
	CopyStores   []configv1alpha1.CopyStore
	AnyCopyStore bool
	// Issuers of cert-manager that an Etcd may name.
	Issuers []configv1alpha1.AllowedIssuer
	// Sources that members may join: NAMESPACE/ENDPOINT, NAMESPACE/*, or *.
	Sources []string
}

// New returns the Rules of a configuration.
func New(c *configv1alpha1.OperatorConfiguration) Rules {
	return Rules{
		Images: c.Images.Allowed, TLS: c.RequireTLS, LocalClaims: c.Backup.LocalClaims, NamespacePrefixes: c.Backup.EnforceNamespacePrefixes, CloudIdentity: c.Backup.AllowCloudIdentity, Endpoints: c.Backup.AllowedEndpoints,
		CopyStores: c.Backup.CopyStores, AnyCopyStore: c.Backup.AllowAnyCopyStore,
		Issuers: c.ManagedTLS.Issuers, Sources: c.JoinSources,
	}
}

// Etcd returns why an Etcd is refused; nil if it is allowed.
func (r Rules) Etcd(etcd *v1alpha1.Etcd) error {
	if _, static := etcd.Annotations[v1alpha1.AnnotationDisableRuntimeComponents]; static {
		return fmt.Errorf("annotation %s is not supported, since the operator knows no static pods and runs every member itself: leave the Etcd to etcd-druid, or remove the annotation", v1alpha1.AnnotationDisableRuntimeComponents)
	}
	images := map[string]*string{"spec.etcd.image": etcd.Spec.Etcd.Image}
	if etcd.Spec.Backup != nil {
		images["spec.backup.image"] = etcd.Spec.Backup.Image
	}
	for _, field := range []string{"spec.etcd.image", "spec.backup.image"} {
		if image := ptr.Deref(images[field], ""); image != "" && !r.allowsImage(image) {
			return fmt.Errorf("%s %q is not allowed by the operator's configuration (images.allowed): use one of %s, or remove the field for the operator's default", field, image, strings.Join(r.Images, ", "))
		}
	}
	if r.TLS && (etcd.ClientTLS() == nil || etcd.PeerTLS() == nil) {
		return errors.New("the operator's configuration (requireTLS) requires TLS for clients and peers: set spec.managedTLS, or spec.etcd.clientUrlTls and spec.etcd.peerUrlTls")
	}
	if store := etcd.BackupStore(); store != nil {
		if err := r.store("spec.backup.store", *store, etcd.Namespace); err != nil {
			return err
		}
	}
	if source := etcd.Source(); source != nil {
		for _, endpoint := range source.ClientEndpoints {
			if !r.allowsSource(etcd.Namespace, endpoint) {
				return fmt.Errorf("spec.etcd.bootstrapWithExistingCluster names client endpoint %s, which the operator's configuration (joinSources) does not have: if the namespace may join that cluster, have the administrator of the operator add %q there, and restart the operator", endpoint, etcd.Namespace+"/"+endpoint)
			}
		}
	}
	return r.issuers(etcd)
}

// Beside returns why an Etcd is refused because of others: an older one of its namespace has the same store with an overlapping prefix.
// Both would write and remove snapshots there, and a member that has lost its volume could restore the other's. Other namespaces do not
// matter: the same name may be another store there, and tenants could block each other's Etcds.
func (r Rules) Beside(etcd *v1alpha1.Etcd, neighbors []v1alpha1.Etcd) error {
	own := etcd.BackupStore()
	if own == nil {
		return nil
	}
	for i := range neighbors {
		e := &neighbors[i]
		live := e.BackupStore()
		if live == nil || e.Namespace != etcd.Namespace || !older(e, etcd) || !sameStore(*own, *live) || !overlap(own.Prefix, live.Prefix) {
			continue
		}
		return fmt.Errorf("the prefix of spec.backup.store is %q, and Etcd %s, which is older, has its backups at %q: both would write and remove snapshots there, and one could restore the other's. Set spec.backup.store.prefix to another one", own.Prefix, e.Name, live.Prefix)
	}
	return nil
}

// older reports whether an Etcd was created before another one of its namespace, or sorts before it.
func older(a, b *v1alpha1.Etcd) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name)) < 0
}

// Elsewhere returns why the operator does not connect to an endpoint outside of an Etcd's pods; nil if it may. Such endpoints come from the
// spec, and from member lists, which an image of the tenant's choice returns; and the operator's network may reach what a tenant's does
// not.
func (r Rules) Elsewhere(etcd *v1alpha1.Etcd, endpoint string) error {
	if r.allowsSource(etcd.Namespace, endpoint) {
		return nil
	}
	if u, err := url.Parse(endpoint); err == nil {
		for i := range int32(maxOwn) {
			if u.Hostname() == etcd.MemberHost(etcd.PodName(i)) {
				return nil
			}
		}
	}
	return fmt.Errorf("the operator's configuration (joinSources) does not have %s for namespace %s", endpoint, etcd.Namespace)
}

// maxOwn is how many members an Etcd may have, including one that stands in while another moves.
const maxOwn = 6

// allowsSource reports whether members of a namespace may join the cluster at an endpoint.
func (r Rules) allowsSource(namespace, endpoint string) bool {
	return slices.ContainsFunc(r.Sources, func(allowed string) bool {
		return allowed == "*" || allowed == namespace+"/*" || allowed == namespace+"/"+endpoint
	})
}

// WithAllowedImages returns the Etcd, or a copy of it that names no image that is not allowed. The Etcd may be nil.
func (r Rules) WithAllowedImages(etcd *v1alpha1.Etcd) *v1alpha1.Etcd {
	refused := func(image *string) bool { return image != nil && *image != "" && !r.allowsImage(*image) }
	if etcd == nil || !refused(etcd.Spec.Etcd.Image) && (etcd.Spec.Backup == nil || !refused(etcd.Spec.Backup.Image)) {
		return etcd
	}
	etcd = etcd.DeepCopy()
	if refused(etcd.Spec.Etcd.Image) {
		etcd.Spec.Etcd.Image = nil
	}
	if b := etcd.Spec.Backup; b != nil && refused(b.Image) {
		b.Image = nil
	}
	return etcd
}

// allowsImage reports whether an entry allows an image: the image itself; a repository, with any tag or digest; or, with a
// slash at its end, all repositories beneath it. A digest decides which image is pulled, whatever the tag beside it: an
// entry with a tag does not allow it.
func (r Rules) allowsImage(image string) bool {
	if len(r.Images) == 0 {
		return true
	}
	for _, allowed := range r.Images {
		rest, ok := strings.CutPrefix(image, allowed)
		switch {
		case !ok:
		case rest == "":
			return true
		case strings.HasSuffix(allowed, "/"):
			return true
		case strings.HasPrefix(rest, "@"):
			if !strings.Contains(last(allowed), ":") {
				return true
			}
		case strings.HasPrefix(rest, ":"):
			// What follows is a tag, and not the port of a registry.
			if strings.Contains(allowed, "/") && !strings.Contains(last(allowed), ":") && !strings.Contains(rest, "/") {
				return true
			}
		}
	}
	return false
}

// last returns the last part of the path of a repository.
func last(image string) string { return image[strings.LastIndexByte(image, '/')+1:] }

// store returns an error if a store has no Secret, another endpoint, or a claim, unless that is allowed, or a prefix that is not
// the namespace's, if that is enforced.
func (r Rules) store(field string, store v1alpha1.StoreSpec, namespace string) error {
	if store.Provider.Canonical() == v1alpha1.ProviderLocal && !r.allowsClaim(namespace, store.Container) {
		return fmt.Errorf("%s mounts claim %s, which the operator's configuration (backup.localClaims) does not have: if the namespace may use it as a store, have the administrator of the operator set backup: {localClaims: [%q]}, beside what is listed there, and restart the operator", field, store.Container, namespace+"/"+store.Container)
	}
	if store.SecretRef == nil && store.Provider.Canonical() != v1alpha1.ProviderLocal && !r.CloudIdentity {
		return fmt.Errorf("%s has no secretRef, and the operator's configuration (backup.allowCloudIdentity) does not allow the identity of the pods or their nodes: name a Secret with credentials", field)
	}
	if endpoint := ptr.Deref(store.EndpointOverride, ""); endpoint != "" && !slices.Contains(r.Endpoints, endpoint) {
		return fmt.Errorf("endpointOverride of %s is %q, which the operator's configuration (backup.allowedEndpoints) does not have: requests to it would be authorized with the credentials of the store. Have the administrator of the operator add it there, or remove the field", field, endpoint)
	}
	if r.NamespacePrefixes && !strings.HasPrefix(store.Prefix, namespace+"/") {
		return fmt.Errorf("the prefix of %s is %q; the operator's configuration (backup.enforceNamespacePrefixes) requires that it starts with %q", field, store.Prefix, namespace+"/")
	}
	return nil
}

// allowsClaim reports whether a claim may be mounted as a store: by its own setting, or as a store of copies.
func (r Rules) allowsClaim(namespace, claim string) bool {
	if slices.Contains(r.CopyStores, configv1alpha1.CopyStore{Provider: string(v1alpha1.ProviderLocal), Container: claim}) {
		return true
	}
	return slices.ContainsFunc(r.LocalClaims, func(allowed string) bool {
		return allowed == "*" || allowed == namespace+"/*" || allowed == namespace+"/"+claim
	})
}

// Copy returns why a copy for an Etcd is refused; nil if it is allowed. Neighbors are the Etcds whose live backups must not
// be a target, with or without the Etcd itself.
func (r Rules) Copy(etcd *v1alpha1.Etcd, neighbors []v1alpha1.Etcd, source, target v1alpha1.StoreSpec) error {
	own := etcd.BackupStore()
	if own == nil {
		return fmt.Errorf("Etcd %s has no spec.backup.store, and one side of a copy must be the Etcd's own store", etcd.Name)
	}
	if err := spares(append(neighbors[:len(neighbors):len(neighbors)], *etcd), "targetStore", target); err != nil {
		return err
	}
	fromOwn := sameStore(source, *own) && source.Prefix == own.Prefix
	if !fromOwn && !sameStore(target, *own) {
		return fmt.Errorf("one side of a copy must be the Etcd's own store: its backups as sourceStore (%s container %s, prefix %q, and its Secret), or its container, with another prefix, as targetStore", own.Provider, own.Container, own.Prefix)
	}
	for _, side := range []struct {
		field string
		store v1alpha1.StoreSpec
	}{{"sourceStore", source}, {"targetStore", target}} {
		if !sameStore(side.store, *own) && !r.names(side.store) {
			return fmt.Errorf("%s is named neither by the Etcd nor by the operator's configuration (backup.copyStores): %s container %s with Secret %q. Have the administrator of the operator add it there, or name another store", side.field, side.store.Provider, side.store.Container, secret(side.store))
		}
		if err := r.store(side.field, side.store, etcd.Namespace); err != nil {
			return err
		}
	}
	return nil
}

// CopyWithoutEtcd returns why a copy in a namespace, which no Etcd asks for, is refused; nil if it is allowed. Its author may use
// the Secrets of the namespace, as the author of an Etcd may. The live backups of the Etcds of the namespace must not be
// the target.
func (r Rules) CopyWithoutEtcd(namespace string, etcds []v1alpha1.Etcd, source, target v1alpha1.StoreSpec) error {
	if err := spares(etcds, "targetStore", target); err != nil {
		return err
	}
	if err := r.store("sourceStore", source, namespace); err != nil {
		return err
	}
	return r.store("targetStore", target, namespace)
}

// Restore returns why a Restore of an Etcd from another place than its own backups is refused; nil if it is allowed. The members read it with
// what they have for their own store, so it is in the same container. Neighbors are Etcds whose retention removes from their live backups, of
// any namespace: those of another one are not named.
func (r Rules) Restore(etcd *v1alpha1.Etcd, neighbors []v1alpha1.Etcd, from v1alpha1.StoreSpec) error {
	own := etcd.BackupStore()
	if own == nil {
		return fmt.Errorf("Etcd %s has no spec.backup.store", etcd.Name)
	}
	if !sameStore(from, *own) {
		return r.copyFirst(etcd, from, *own)
	}
	near := []v1alpha1.Etcd{*etcd}
	for _, e := range neighbors {
		switch {
		case e.Namespace == etcd.Namespace:
			near = append(near, e)
		case from.Provider.Canonical() != v1alpha1.ProviderLocal && spares([]v1alpha1.Etcd{e}, "from", from) != nil:
			return errors.New("from overlaps the live backups of an Etcd of another namespace: choose another prefix")
		}
	}
	if err := spares(near, "from", from); err != nil {
		return err
	}
	return r.store("from", from, etcd.Namespace)
}

// copyFirst is the error of a Restore from another store than the Etcd's own: how to bring that into the own one.
func (r Rules) copyFirst(etcd *v1alpha1.Etcd, from, own v1alpha1.StoreSpec) error {
	target := own
	target.Prefix = cmp.Or(own.Prefix, etcd.Namespace+"/"+etcd.Name) + "-copy"
	say := fmt.Sprintf("from is in %s container %s with Secret %q, and members can only read the container of their own store (%s container %s, with its Secret): copy the backup there", from.Provider, from.Container, secret(from), own.Provider, own.Container)
	if !r.names(from) {
		say += ", once the administrator of the operator has added its store to backup.copyStores"
	}
	if command := copyCommand(etcd, from, target); command != "" {
		say += ": " + command
	} else {
		say += " with a CopyBackups, under a prefix of its own"
	}
	return fmt.Errorf("%s. Then restore from that prefix (from: {prefix: %s})", say, target.Prefix)
}

// plain matches what a person may paste into a shell.
var plain = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]*$`)

// copyCommand returns the command that copies a store to another one for an Etcd; empty if a name in it is unsafe to paste into a shell,
// since its author may not be the reader.
func copyCommand(etcd *v1alpha1.Etcd, source, target v1alpha1.StoreSpec) string {
	command := fmt.Sprintf("kubectl etcdtask copy-backups %s -n %s --wait", etcd.Name, etcd.Namespace)
	for _, side := range []struct {
		name  string
		store v1alpha1.StoreSpec
	}{{"source", source}, {"target", target}} {
		for _, flag := range [][2]string{
			{"provider", string(side.store.Provider)}, {"container", side.store.Container}, {"prefix", side.store.Prefix},
			{"secret", secret(side.store)}, {"endpoint", ptr.Deref(side.store.EndpointOverride, "")},
		} {
			switch value := flag[1]; {
			case value == "":
			case !plain.MatchString(value):
				return ""
			default:
				command += fmt.Sprintf(" --%s-%s %s", side.name, flag[0], value)
			}
		}
	}
	return command
}

// spares returns an error if a store overlaps the live backups of an Etcd in a list.
func spares(etcds []v1alpha1.Etcd, field string, store v1alpha1.StoreSpec) error {
	for _, e := range etcds {
		if live := e.BackupStore(); live != nil && sameBucket(store, *live) && overlap(store.Prefix, live.Prefix) {
			return fmt.Errorf("%s overlaps the live backups of Etcd %s (prefix %q): choose another prefix", field, e.Name, live.Prefix)
		}
	}
	return nil
}

// names reports whether the configuration names a store.
func (r Rules) names(store v1alpha1.StoreSpec) bool {
	for _, c := range r.CopyStores {
		if v1alpha1.StorageProvider(c.Provider).Canonical() == store.Provider.Canonical() && c.Container == store.Container && c.SecretName == secret(store) && ptr.Deref(store.EndpointOverride, "") == "" {
			return true
		}
	}
	return r.AnyCopyStore
}

// sameBucket reports whether two stores may be the same bucket: their Secrets may lead to the same place.
func sameBucket(a, b v1alpha1.StoreSpec) bool {
	return a.Provider.Canonical() == b.Provider.Canonical() && a.Container == b.Container
}

// sameStore reports whether two stores are the same bucket by the same Secret.
func sameStore(a, b v1alpha1.StoreSpec) bool {
	return sameBucket(a, b) && secret(a) == secret(b) && ptr.Deref(a.EndpointOverride, "") == ptr.Deref(b.EndpointOverride, "")
}

func secret(store v1alpha1.StoreSpec) string {
	return cmp.Or(ptr.Deref(store.SecretRef, v1alpha1.SecretReference{}).Name, "")
}

// overlap reports whether two prefixes are the same, or one is below the other.
func overlap(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}
