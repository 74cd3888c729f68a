// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"cmp"
	"net"
	"net/url"
	"slices"

	"k8s.io/utils/ptr"
)

// MemberPeerURLs are further peer URLs of a member.
type MemberPeerURLs struct {
	// memberName is the name of the member: that of its pod, after the memberNamePrefix and a dash if there is one.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?-[0-9]+$`
	MemberName string `json:"memberName"`
	// urls are the peer URLs.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MaxLength=2048
	// +kubebuilder:validation:items:XValidation:rule="(self.startsWith('http://') || self.startsWith('https://')) && isURL(self)",message="must be a valid http:// or https:// URL (e.g., https://10.0.0.1:2380)"
	// +kubebuilder:validation:items:XValidation:rule="!isURL(self) || size(url(self).getHostname()) > 0 && size(url(self).getEscapedPath()) < 2 && size(url(self).getQuery()) == 0",message="must have a host, and neither path nor query: etcd takes no such URL"
	// +listType=set
	URLs []string `json:"urls"`
}

// MemberURLs are further URLs of a member.
type MemberURLs struct {
	// name of the member: that of its pod, after the memberNamePrefix and a dash if there is one.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?-[0-9]+$`
	Name string `json:"name"`
	// urls of the member.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MaxLength=2048
	// +kubebuilder:validation:items:XValidation:rule="(self.startsWith('http://') || self.startsWith('https://')) && isURL(self)",message="must be a valid http:// or https:// URL (e.g., https://10.0.0.1:2380)"
	// +kubebuilder:validation:items:XValidation:rule="!isURL(self) || size(url(self).getHostname()) > 0 && size(url(self).getEscapedPath()) < 2 && size(url(self).getQuery()) == 0",message="must have a host, and neither path nor query: etcd takes no such URL"
	// +listType=set
	URLs []string `json:"urls"`
}

// ListedURLs are URLs with which the operator lists, or has listed, a member.
type ListedURLs struct {
	// name of the member.
	Name string `json:"name"`
	// urls of the member.
	// +listType=atomic
	URLs []string `json:"urls"`
}

// AdvertisedURLs are the further URLs of one kind that members advertise.
type AdvertisedURLs struct {
	// overrideDefaultURL makes each member that members names advertise only the URLs given there, without the one in the cluster's
	// own network. Default: false.
	// +optional
	OverrideDefaultURL *bool `json:"overrideDefaultURL,omitempty"`
	// members are the URLs by member. A member that is not named advertises only its own URL.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	Members []MemberURLs `json:"members"`
}

// AdditionalAdvertisedURLs are further URLs that members advertise, under which they can be reached from other networks.
type AdditionalAdvertisedURLs struct {
	// peerURLs are those that other members connect to. The operator adds them to the list of members; no pod is replaced.
	// +optional
	PeerURLs *AdvertisedURLs `json:"peerURLs,omitempty"`
	// clientURLs are those that members publish for clients. A change replaces pods: etcd publishes them when it starts.
	// +optional
	ClientURLs *AdvertisedURLs `json:"clientURLs,omitempty"`
}

// Of returns the further URLs of a member, each with its port and without a path: etcd takes no others. A URL that cannot be written so
// is left out; the schema admits none.
func (u AdvertisedURLs) Of(member string) []string {
	var urls []string
	for _, m := range u.Members {
		if m.Name != member {
			continue
		}
		for _, text := range m.URLs {
			if url := withPort(text); url != "" && !slices.Contains(urls, url) {
				urls = append(urls, url)
			}
		}
	}
	return urls
}

// withPort returns scheme, host and port of a URL, with the port of the scheme if it has none; empty if it is no such URL.
func withPort(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	port, known := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	if !known {
		return ""
	}
	return u.Scheme + "://" + net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
}

// Overrides reports whether a member advertises only its further URLs.
func (u AdvertisedURLs) Overrides(member string) bool {
	return ptr.Deref(u.OverrideDefaultURL, false) && len(u.Of(member)) > 0
}

// AdvertisedPeerURLs returns the further peer URLs of the members, from whichever field has them.
func (e *Etcd) AdvertisedPeerURLs() AdvertisedURLs {
	if more := e.Spec.Etcd.AdditionalAdvertisedURLs; more != nil && more.PeerURLs != nil {
		return *more.PeerURLs
	}
	var all AdvertisedURLs
	for _, m := range e.Spec.Etcd.AdditionalAdvertisePeerURLs {
		all.Members = append(all.Members, MemberURLs{Name: m.MemberName, URLs: m.URLs})
	}
	return all
}

// AdvertisedClientURLs returns the further client URLs of the members.
func (e *Etcd) AdvertisedClientURLs() AdvertisedURLs {
	return ptr.Deref(ptr.Deref(e.Spec.Etcd.AdditionalAdvertisedURLs, AdditionalAdvertisedURLs{}).ClientURLs, AdvertisedURLs{})
}
