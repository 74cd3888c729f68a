// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// Shared is the content of the shared ConfigMap.
type Shared struct {
	// Config is etcd's configuration, the same for all members.
	Config map[string]any
	// Bootstrap is what matters only to a member without data.
	Bootstrap map[string]any
	// ClusterID is the recorded ID of the cluster, in hex; empty if none is recorded.
	ClusterID string
	// Recovery is how the cluster starts as a new one; nil if it does not.
	Recovery *Recovery
	// Kept: members keep what they had before a Restore, even if there is no Recovery.
	Kept bool
	// Revision that a backup must reach to be restored, even after the recovery is over; 0 for any.
	Revision int64
	// FirstStart permits members without data to begin the cluster; nil if they may not.
	FirstStart *FirstStart
	// Accept is what a restore may use although it is not verified; nil for nothing.
	Accept *Acceptance
	// ClientURLs are what members advertise instead of their own URL, separated by commas, by the members' names.
	ClientURLs map[string]string
	// Members is how the operator is about to change the list of members; nil if it is not.
	Members *Members
	// Source is the cluster that the members join; nil if there is none, or its members have left.
	Source *Source
}

// Identity is what distinguishes a member from the others.
type Identity struct {
	// Name of the member.
	Name string
	// PeerURL and ClientURL are its advertised URLs.
	PeerURL, ClientURL string
	// PeerClientURLs are the client URLs of the other members.
	PeerClientURLs []string
}

// InitialCluster returns the members as etcd's initial-cluster: name=URL, separated by commas.
func (s Shared) InitialCluster() string { return text(s.Bootstrap, "initial-cluster") }

// Founders returns, in the same format, the members that bootstrap the cluster: all of them, or, in a recovery, the one that starts first.
func (s Shared) Founders() string {
	for entry := range strings.SplitSeq(s.InitialCluster(), ",") {
		if name, _, _ := strings.Cut(entry, "="); s.Recovery != nil && name == s.Recovery.Member {
			return entry
		}
	}
	return s.InitialCluster()
}

// Token returns etcd's initial-cluster-token. It distinguishes the cluster from others with the same URLs, including the one before a
// recovery.
func (s Shared) Token() string {
	token := text(s.Bootstrap, "initial-cluster-token")
	if s.Recovery != nil {
		token = s.Recovery.token(token)
	}
	return token
}

// MayBegin reports whether the operator permits members without data to begin the cluster of this very Etcd.
func (s Shared) MayBegin() bool {
	return s.Source == nil && s.FirstStart != nil && s.FirstStart.Etcd == s.EtcdUID()
}

// EtcdUID returns the UID of the Etcd, which is the token of the cluster that it bootstraps.
func (s Shared) EtcdUID() string { return text(s.Bootstrap, "initial-cluster-token") }

// LocalClientURL returns where a member listens for clients in its own pod.
func (s Shared) LocalClientURL() (string, error) {
	listen, err := url.Parse(text(s.Config, "listen-client-urls"))
	if err != nil {
		return "", fmt.Errorf("reading listen-client-urls of the shared configuration: %w", err)
	}
	if ip := net.ParseIP(listen.Hostname()); ip.IsUnspecified() {
		listen.Host = net.JoinHostPort("127.0.0.1", listen.Port())
	}
	return listen.String(), nil
}

// ReadShared reads the shared ConfigMap from the directory in which it is mounted. All keys are of one version: the kubelet has each version in
// a folder of its own, puts it in place by a link, and then removes the one before.
func ReadShared(dir string) (Shared, error) {
	link := filepath.Join(dir, "..data")
	for {
		version, notMounted := os.Readlink(link)
		if notMounted != nil {
			return readShared(dir)
		}
		shared, err := readShared(filepath.Join(dir, version))
		if now, _ := os.Readlink(link); now == version {
			return shared, err
		}
	}
}

// InPod returns the configuration for a pod whose member has been prepared before, and has a configuration file: its connections stay as
// they are, since the pod has the certificates that these need and no others. A template with other connections replaces the pod.
func (s Shared) InPod(file string) (Shared, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return Shared{}, fmt.Errorf("reading the member's configuration: %w", err)
	}
	var rendered map[string]any
	if yaml.Unmarshal(data, &rendered) != nil || text(rendered, "listen-client-urls") == "" {
		return s, nil // damaged, as by a loss of power: it is written again
	}
	s.Config = maps.Clone(s.Config)
	for _, key := range []string{"listen-client-urls", "listen-peer-urls", "listen-metrics-urls", "client-transport-security", "peer-transport-security"} {
		delete(s.Config, key)
		if value, ok := rendered[key]; ok {
			s.Config[key] = value
		}
	}
	return s, nil
}

func readShared(dir string) (Shared, error) {
	values := map[string]string{}
	for _, key := range []string{KeyConfig, KeyBootstrap, KeyClusterID, KeyRecovery, KeyRecoveryDetails, KeyKept, KeyFirstStart, KeyAccept, KeyMembers, KeyClientURLs, KeySource} {
		value, err := os.ReadFile(filepath.Join(dir, key))
		if errors.Is(err, fs.ErrNotExist) && key != KeyConfig && key != KeyBootstrap {
			continue
		}
		if err != nil {
			return Shared{}, fmt.Errorf("reading the shared configuration: %w", err)
		}
		values[key] = string(value)
	}
	return ParseShared(values)
}

// ParseShared parses the data of the shared ConfigMap.
func ParseShared(data map[string]string) (Shared, error) {
	s := Shared{ClusterID: strings.TrimSpace(data[KeyClusterID]), Kept: data[KeyKept] != "", FirstStart: ParseFirstStart(data[KeyFirstStart])}
	if err := yaml.Unmarshal([]byte(data[KeyConfig]), &s.Config); err != nil {
		return Shared{}, fmt.Errorf("reading %s of the shared configuration: %w", KeyConfig, err)
	}
	if err := yaml.Unmarshal([]byte(data[KeyBootstrap]), &s.Bootstrap); err != nil {
		return Shared{}, fmt.Errorf("reading %s of the shared configuration: %w", KeyBootstrap, err)
	}
	if err := yaml.Unmarshal([]byte(data[KeyClientURLs]), &s.ClientURLs); err != nil {
		return Shared{}, fmt.Errorf("reading %s of the shared configuration: %w", KeyClientURLs, err)
	}
	var err error
	if s.Recovery, err = ParseRecovery([]byte(data[KeyRecovery])); err != nil {
		return Shared{}, err
	}
	if s.Recovery != nil {
		if err := s.Recovery.readDetails(data[KeyRecoveryDetails]); err != nil {
			return Shared{}, err
		}
		s.Revision = s.Recovery.Revision
	}
	if s.Accept, err = parseAcceptance([]byte(data[KeyAccept])); err != nil {
		return Shared{}, err
	}
	if s.Source, err = parseSource(data[KeySource]); err != nil {
		return Shared{}, err
	}
	if s.Members, err = ParseMembers(data[KeyMembers]); err != nil {
		return Shared{}, err
	}
	if m := s.Members; m != nil && (m.Etcd != s.EtcdUID() || m.ClusterID != s.ClusterID || s.Recovery != nil && s.Recovery.LeavesBehind(m.ClusterID)) {
		s.Members = nil // until an operator records the new cluster, the one that a recovery replaces is the recorded one
	}
	return s, nil
}

// PeerTLS reports whether members listen to their peers with TLS.
func (s Shared) PeerTLS() bool {
	return strings.HasPrefix(text(s.Config, "listen-peer-urls"), "https://")
}

// DataDir returns the path of etcd's data directory.
func (s Shared) DataDir() string { return text(s.Config, "data-dir") }

// Identify looks up a member in the initial cluster. Its client URL has the host of its peer URL, and the scheme and port that all members
// share.
func (s Shared) Identify(name string) (Identity, error) {
	client, err := url.Parse(text(s.Config, "listen-client-urls"))
	if err != nil {
		return Identity{}, fmt.Errorf("reading listen-client-urls of the shared configuration: %w", err)
	}
	id := Identity{Name: name}
	for entry := range strings.SplitSeq(s.InitialCluster(), ",") {
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
	if s.Source != nil {
		id.PeerClientURLs = append(id.PeerClientURLs, s.Source.ClientEndpoints...)
	}
	if id.PeerURL == "" {
		return Identity{}, fmt.Errorf("looking up member %s: it is not in the initial cluster %q", name, s.InitialCluster())
	}
	return id, nil
}

// Render renders the configuration file of a member. A member that joins needs the current members as its initial cluster, and advertises
// every peer URL that it has there; an empty initialCluster stands for the shared one.
func (s Shared) Render(id Identity, action Action, initialCluster string) ([]byte, error) {
	// etcd uses initial-cluster-state only if its data directory is empty: with "existing", a member that should have data but has none
	// fails instead of bootstrapping.
	state := "existing"
	if action == Bootstrap {
		state = "new"
	}
	config := maps.Clone(s.Config)
	maps.Copy(config, s.Bootstrap)
	maps.Copy(config, map[string]any{
		"name":                        id.Name,
		"initial-advertise-peer-urls": cmp.Or(urlsOf(initialCluster, id.Name), id.PeerURL),
		"advertise-client-urls":       cmp.Or(s.ClientURLs[id.Name], id.ClientURL),
		"initial-cluster-state":       state,
		"initial-cluster-token":       s.Token(),
	})
	if initialCluster != "" {
		config["initial-cluster"] = initialCluster
	}
	file, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("rendering the configuration of member %s: %w", id.Name, err)
	}
	return file, nil
}

// urlsOf returns the URLs of a member in an initial cluster, separated by commas.
func urlsOf(initialCluster, name string) string {
	var urls []string
	for entry := range strings.SplitSeq(initialCluster, ",") {
		if member, url, _ := strings.Cut(entry, "="); member == name {
			urls = append(urls, url)
		}
	}
	return strings.Join(urls, ",")
}

func text(config map[string]any, key string) string {
	value, _ := config[key].(string)
	return value
}
