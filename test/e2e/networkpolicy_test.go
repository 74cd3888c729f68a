//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/node"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The network plugin of the local cluster enforces no NetworkPolicies, so the test does: it translates them into rules for
// connections between pods. As with every plugin, the node itself may connect to its pods.
const policyTable = "etcd-foreman-e2e"

// Who may connect to whom under the NetworkPolicies, and that a rollout succeeds under them.
func TestNetworkPolicies(t *testing.T) {
	c := newCluster(t, 3)
	stranger := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "stranger"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "etcd", Image: "localhost/etcd:v3.6.16", Command: []string{"etcd", "--data-dir=/tmp/data", "--listen-client-urls=http://0.0.0.0:2379", "--advertise-client-urls=http://localhost:2379"},
	}}}}
	c.create(stranger)
	c.Eventually(func(g Gomega) {
		g.Expect(kube.Get(context.Background(), client.ObjectKeyFromObject(stranger), stranger)).To(Succeed())
		g.Expect(stranger.Status.PodIP).NotTo(BeEmpty())
		g.Expect(stranger.Status.Phase).To(Equal(corev1.PodRunning))
	}).Should(Succeed())
	var operator *corev1.Pod
	c.Eventually(func(g Gomega) {
		operator = c.leadingOperator(g)
		g.Expect(operator).NotTo(BeNil())
	}).Should(Succeed())
	member, peer := c.pod(c, 0), c.pod(c, 1)
	type connection struct {
		from    *corev1.Pod
		program string
		to      *corev1.Pod
		port    int
	}
	allowed := map[connection]bool{
		{stranger, node.Etcd, member, 2379}:      true,
		{stranger, node.Etcd, member, 2380}:      false,
		{stranger, node.Etcd, member, 8080}:      false,
		{stranger, node.Etcd, member, 9095}:      false,
		{peer, node.Etcd, member, 2379}:          true,
		{peer, node.Etcd, member, 2380}:          true,
		{peer, node.Etcd, member, 8080}:          true,
		{peer, node.Etcd, member, 9095}:          false,
		{operator, operatorName, member, 2379}:   true,
		{operator, operatorName, member, 8080}:   true,
		{operator, operatorName, member, 2380}:   false,
		{operator, operatorName, stranger, 2379}: false,
		{stranger, node.Etcd, operator, 8080}:    false,
		{stranger, node.Etcd, operator, 8081}:    true,
	}
	check := func(g Gomega, enforced bool) {
		for a, want := range allowed {
			got := c.connects(g, a.from, a.program, a.to, a.port)
			g.Expect(got).To(Equal(want || !enforced), "from %s to %s:%d", a.from.Name, a.to.Name, a.port)
		}
	}
	c.Eventually(func(g Gomega) { check(g, false) }).Should(Succeed(), "without policies everything is open: the test can tell")

	t.Cleanup(func() {
		c.local("kubectl", "delete", "--ignore-not-found", "-f", "../../config/network-policy/operator.yaml")
	})
	c.local("kubectl", "apply", "--server-side", "-f", "../../config/network-policy/operator.yaml")
	c.local("kubectl", "apply", "--server-side", "-n", c.namespace, "-k", "../../config/network-policy/members")
	enforce(t)
	c.Eventually(func(g Gomega) { check(g, true) }).Should(Succeed())

	c.change("under network policies")
	c.untilSucceeded()
	c.ready()
	c.neverTookTheQuorum()
	c.writesSurvive()
}

// connects reports whether a program in a pod can open a connection to another pod.
func (c *cluster) connects(g Gomega, from *corev1.Pod, program string, to *corev1.Pod, port int) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	process, err := node.Find(ctx, string(from.UID), program)
	g.Expect(err).NotTo(HaveOccurred())
	return exec.CommandContext(ctx, "nsenter", "--net=/proc/"+strconv.Itoa(process.PID())+"/ns/net",
		"timeout", "2", "bash", "-c", fmt.Sprintf(": </dev/tcp/%s/%d", to.Status.PodIP, port)).Run() == nil
}

// enforce enforces all NetworkPolicies until the test ends. Pods come and go, so it translates them again all the time.
func enforce(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	first := make(chan struct{})
	go func() {
		var failed error
		for n := 0; ctx.Err() == nil; n++ {
			rules, err := translate(ctx)
			if err == nil {
				nft := exec.CommandContext(ctx, "nft", "-f", "-")
				nft.Stdin = strings.NewReader(rules)
				err = nft.Run()
			}
			if err != nil && ctx.Err() == nil {
				failed = err
			}
			if n == 0 {
				close(first)
			}
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
		done <- failed
	}()
	<-first
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("enforcing the NetworkPolicies: %v", err)
		}
		for _, family := range []string{"bridge", "ip"} {
			_ = exec.Command("nft", "delete", "table", family, policyTable).Run()
		}
	})
}

// translate returns the rules. Pods reach each other on the bridge, and through the node where a Service is between them.
func translate(ctx context.Context) (string, error) {
	policies, pods, namespaces := &networkingv1.NetworkPolicyList{}, &corev1.PodList{}, &corev1.NamespaceList{}
	for _, list := range []client.ObjectList{policies, pods, namespaces} {
		if err := kube.List(ctx, list); err != nil {
			return "", err
		}
	}
	w := world{pods: pods.Items, namespaces: map[string]labels.Set{}}
	for _, n := range namespaces.Items {
		w.namespaces[n.Name] = n.Labels
	}
	ingress, egress := w.rules(policies.Items, networkingv1.PolicyTypeIngress), w.rules(policies.Items, networkingv1.PolicyTypeEgress)
	var out strings.Builder
	for _, family := range []string{"bridge", "ip"} {
		fmt.Fprintf(&out, "add table %[1]s %[2]s\ndelete table %[1]s %[2]s\ntable %[1]s %[2]s {\n"+
			"chain ingress { type filter hook forward priority 0; policy accept;\n%[3]s}\n"+
			"chain egress { type filter hook forward priority 10; policy accept;\n%[4]s}\n}\n", family, policyTable, ingress, egress)
	}
	return out.String(), nil
}

// world is what selectors select from.
type world struct {
	pods       []corev1.Pod
	namespaces map[string]labels.Set
}

// rules returns the rules of policies in one direction. Only the packet that opens a connection is looked at.
func (w world) rules(policies []networkingv1.NetworkPolicy, direction networkingv1.PolicyType) string {
	const opens = "tcp flags & (syn | ack) == syn"
	own, other := "daddr", "saddr"
	if direction == networkingv1.PolicyTypeEgress {
		own, other = other, own
	}
	var accept, drop strings.Builder
	for _, policy := range policies {
		for _, t := range policy.Spec.PolicyTypes {
			if t != direction {
				continue
			}
			for _, pod := range w.selected(policy.Namespace, nil, &policy.Spec.PodSelector) {
				for _, rule := range w.opened(policy, direction, other) {
					fmt.Fprintf(&accept, "ip %s %s %s%s accept\n", own, pod, opens, rule)
				}
				fmt.Fprintf(&drop, "ip %s %s %s drop\n", own, pod, opens)
			}
		}
	}
	return accept.String() + drop.String()
}

// opened returns what a policy allows, as matches of nft.
func (w world) opened(policy networkingv1.NetworkPolicy, direction networkingv1.PolicyType, other string) []string {
	var all []string
	add := func(ports []networkingv1.NetworkPolicyPort, peers []networkingv1.NetworkPolicyPeer) {
		match := ""
		var numbers []string
		for _, p := range ports {
			if p.Protocol == nil || *p.Protocol == corev1.ProtocolTCP {
				numbers = append(numbers, p.Port.String())
			}
		}
		if len(ports) > 0 {
			match += " tcp dport { " + strings.Join(numbers, ", ") + " }"
		}
		if len(peers) > 0 {
			var addresses []string
			for _, peer := range peers {
				addresses = append(addresses, w.selected(policy.Namespace, peer.NamespaceSelector, peer.PodSelector)...)
			}
			if len(addresses) == 0 {
				return
			}
			match += " ip " + other + " { " + strings.Join(addresses, ", ") + " }"
		}
		all = append(all, match)
	}
	if direction == networkingv1.PolicyTypeIngress {
		for _, r := range policy.Spec.Ingress {
			add(r.Ports, r.From)
		}
		return all
	}
	for _, r := range policy.Spec.Egress {
		add(r.Ports, r.To)
	}
	return all
}

// selected returns the addresses of the pods that selectors select: in the policy's namespace, unless one selects namespaces.
func (w world) selected(namespace string, namespaces, pods *metav1.LabelSelector) []string {
	matches := func(selector *metav1.LabelSelector, of labels.Set) bool {
		if selector == nil {
			return true
		}
		s, err := metav1.LabelSelectorAsSelector(selector)
		return err == nil && s.Matches(of)
	}
	var addresses []string
	for _, pod := range w.pods {
		in := pod.Namespace == namespace
		if namespaces != nil {
			in = matches(namespaces, w.namespaces[pod.Namespace])
		}
		if in && !pod.Spec.HostNetwork && pod.Status.PodIP != "" && pod.Status.Phase == corev1.PodRunning && matches(pods, pod.Labels) {
			addresses = append(addresses, pod.Status.PodIP)
		}
	}
	return addresses
}
