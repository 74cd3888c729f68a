// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// labeled creates Etcds with a label.
func (p *person) labeled(replicas int32, names ...string) {
	p.T.Helper()
	for _, name := range names {
		p.Expect(testEnv.Client.Create(p.T.Context(), &v1alpha1.Etcd{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name, Labels: map[string]string{"stage": p.Namespace}},
			Spec:       v1alpha1.EtcdSpec{Replicas: replicas},
		})).To(Succeed())
	}
}

// One task for each Etcd that is selected, and none for the others.
func TestRestartOfSelectedEtcds(t *testing.T) {
	p := newPerson(t)
	p.labeled(3, "a", "b")
	selected := "stage=" + p.Namespace
	for dryRun, suffix := range map[string]string{"client": " (dry run)", "server": " (server dry run)"} {
		got := p.run("restart", "-l", selected, "--dry-run="+dryRun)
		p.Expect(got.code).To(BeZero(), got.String())
		p.Expect(got.out).To(Equal("etcdoperatortask.druid.gardener.cloud/a-restart-x7k2p created" + suffix + "\netcdoperatortask.druid.gardener.cloud/b-restart-x7k2p created" + suffix + "\n"))
	}
	p.Expect(p.Tasks(p)).To(BeEmpty())

	got := p.run("restart", "-l", selected)
	p.Expect(got.code).To(Equal(2), got.String())
	p.Expect(got.err).To(Equal(p.Namespace + "/a: 3 members\n" + p.Namespace + "/b: 3 members\nerror: no task was created: confirm with --yes, since the input is not a terminal\n"))
	p.Expect(p.Tasks(p)).To(BeEmpty())
	for _, answer := range []string{"", "n\n", "no\n", "what?\n", "Y", "yes\n"} {
		p.input, p.interactive = answer, true
		got := p.run("restart", "-l", selected, "-A")
		p.Expect(got.err).To(ContainSubstring("Create a restart for each of these 2 Etcds? [y/N] "))
		if strings.HasPrefix(strings.ToLower(answer), "y") {
			p.Expect(got.code).To(BeZero(), got.String())
			p.Expect(p.Tasks(p)).To(HaveLen(2))
			for _, task := range p.Tasks(p) {
				p.Expect(task.Spec.Config).To(Equal("restart: true\n"))
				p.Expect(testEnv.Client.Delete(t.Context(), &task)).To(Succeed())
			}
			continue
		}
		p.Expect(got.code).To(Equal(1), got.String())
		p.Expect(got.err).To(HaveSuffix("error: no task was created\n"))
		p.Expect(p.Tasks(p)).To(BeEmpty())
	}
}

// One mistake, and nothing is created.
func TestRestartOfSelectedEtcdsIsRefusedAsAWhole(t *testing.T) {
	p := newPerson(t)
	p.labeled(3, "a")
	p.labeled(0, "b")
	got := p.run("restart", "-l", "stage="+p.Namespace, "--yes")
	p.Expect(got.code).To(Equal(1), got.String())
	p.Expect(got.err).To(Equal("error: no task was created: Etcd " + p.Namespace + "/b is hibernated\n"))

	p = newPerson(t)
	p.labeled(3, "a", "c")
	p.make("c-restart-x7k2p", v1alpha1.TaskStateSucceeded)
	for _, dryRun := range []string{"none", "server"} {
		got = p.run("restart", "-l", "stage="+p.Namespace, "--yes", "--dry-run="+dryRun)
		p.Expect(got.code).To(Equal(1), got.String())
		p.Expect(got.err).To(HavePrefix("error: no task was created: the task of Etcd " + p.Namespace + "/c is refused: "))
		p.Expect(p.Tasks(p)).To(HaveLen(1))
	}
}

func TestWaitForSelectedEtcds(t *testing.T) {
	p := newPerson(t)
	p.labeled(3, "a", "b")
	end := p.start(t.Context(), "restart", "-l", "stage="+p.Namespace, "-y", "--wait")
	p.operate(p.task("b-restart-x7k2p"), v1alpha1.TaskStateFailed, "it could not")
	p.operate(p.task("a-restart-x7k2p"), v1alpha1.TaskStateSucceeded, "it could")
	got := end()
	p.Expect(got.code).To(Equal(1), got.String())
	p.Expect(got.err).To(HaveSuffix("error: 1 of 2 tasks have not succeeded: " + p.Namespace + "/b-restart-x7k2p\n"))
	p.Expect(got.err).To(And(ContainSubstring("it could not"), ContainSubstring("task a-restart-x7k2p succeeded")))

	got = p.run("restart", "-l", "stage="+p.Namespace, "-y", "--wait", "--timeout", "100ms", "--suspend")
	p.Expect(got.code).To(Equal(2), got.String())
}

func TestMistakesWithASelector(t *testing.T) {
	p := newPerson(t)
	for args, say := range map[string]string{
		"restart":                       "name an Etcd, or select several with --selector",
		"restart main -A":               "--all-namespaces goes with --selector",
		"restart main -l a=b":           "a name and --selector exclude each other",
		"restart -l a==b=c":             "--selector: ",
		"restart -l a=b --name x":       "each task has a name of its own",
		"restart -l a=b main other":     "accepts at most 1 arg",
		"rollout -l a=b":                "unknown shorthand flag",
		"restart --selector a=b --wait": "no Etcd in namespace " + p.Namespace + ` has the labels "a=b"`,
	} {
		got := p.run(strings.Fields(args)...)
		p.Expect(got.code).NotTo(BeZero(), args)
		p.Expect(got.err).To(MatchRegexp(`^error: [^\n]+\n$`), args)
		p.Expect(got.err).To(ContainSubstring(say), args)
	}
	p.Expect(p.Tasks(p)).To(BeEmpty())
}
