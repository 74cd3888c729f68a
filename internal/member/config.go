// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"strings"

	"sigs.k8s.io/yaml"
)

// Shared is the content of the shared ConfigMap.
type Shared struct {
	// Config is etcd's configuration, the same for all members.
	Config map[string]any
	// Bootstrap is what matters only to a member without data.
	Bootstrap map[string]any
	// ClusterID is the recorded ID of the cluster in hex, or empty.
	ClusterID string
}

// Identity is what distinguishes a member from the others.
type Identity struct {
	// Name of the member.
	Name string
	// PeerURL and ClientURL are where the others, and clients, reach it.
	PeerURL, ClientURL string
	// PeerClientURLs are the client URLs of the other members.
	PeerClientURLs []string
}

// ParseShared reads the values of the shared ConfigMap.
func ParseShared(config, bootstrap []byte, clusterID string) (Shared, error) {
	s := Shared{ClusterID: strings.TrimSpace(clusterID)}
	if err := yaml.Unmarshal(config, &s.Config); err != nil {
		return Shared{}, fmt.Errorf("reading %s of the shared configuration: %w", KeyConfig, err)
	}
	if err := yaml.Unmarshal(bootstrap, &s.Bootstrap); err != nil {
		return Shared{}, fmt.Errorf("reading %s of the shared configuration: %w", KeyBootstrap, err)
	}
	return s, nil
}

// DataDir is etcd's data directory.
func (s Shared) DataDir() string { return text(s.Config, "data-dir") }

// Identify looks a member up in the initial cluster. Its client URL has the host of its peer URL, and the
// scheme and port that all members listen on.
func (s Shared) Identify(name string) (Identity, error) {
	client, err := url.Parse(text(s.Config, "listen-client-urls"))
	if err != nil {
		return Identity{}, fmt.Errorf("reading listen-client-urls of the shared configuration: %w", err)
	}
	id := Identity{Name: name}
	for entry := range strings.SplitSeq(text(s.Bootstrap, "initial-cluster"), ",") {
		member, peerURL, _ := strings.Cut(entry, "=")
		peer, err := url.Parse(peerURL)
		if err != nil {
			return Identity{}, fmt.Errorf("reading initial-cluster of the shared configuration: %w", err)
		}
		clientURL := url.URL{Scheme: client.Scheme, Host: net.JoinHostPort(peer.Hostname(), client.Port())}
		if member == name {
			id.PeerURL, id.ClientURL = peerURL, clientURL.String()
		} else {
			id.PeerClientURLs = append(id.PeerClientURLs, clientURL.String())
		}
	}
	if id.PeerURL == "" {
		return Identity{}, fmt.Errorf("looking up member %s: it is not in the initial cluster %q", name, text(s.Bootstrap, "initial-cluster"))
	}
	return id, nil
}

// Render renders the configuration file of a member that starts in the way of an action.
func (s Shared) Render(id Identity, action Action) ([]byte, error) {
	// Only an empty data directory makes etcd look at the state. So a member that is to start with its data,
	// and finds none after all, fails; it does not bootstrap.
	state := "existing"
	if action == Bootstrap {
		state = "new"
	}
	config := maps.Clone(s.Config)
	maps.Copy(config, s.Bootstrap)
	maps.Copy(config, map[string]any{
		"name":                        id.Name,
		"initial-advertise-peer-urls": id.PeerURL,
		"advertise-client-urls":       id.ClientURL,
		"initial-cluster-state":       state,
	})
	file, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("rendering the configuration of member %s: %w", id.Name, err)
	}
	return file, nil
}

func text(config map[string]any, key string) string {
	value, _ := config[key].(string)
	return value
}
