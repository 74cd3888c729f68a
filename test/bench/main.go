// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Command bench measures rollouts against their peers, on the local Kubernetes (go run ./test/local up).
//
//	go run ./test/bench [-pairs 5] [-scenarios 3-healthy,3-frozen,3-resources,...] [-interval 30s] [-strict]
//
// A scenario is a change of a cluster of 3 or 5 members, all healthy, or with member 0 frozen (SIGSTOP) before the clock
// starts. In each pair it is rolled out in three ways. Their order is reversed from pair to pair, so that a slow minute of the
// machine does not always affect the same way. The same ordinal leads at the start of each:
//
//   - QuorumAwareRollout: etcd-foreman, after a change of the Etcd, with new pods;
//   - InPlaceIfPossible: the same in the pods, for changes that need no new ones;
//   - RollingUpdate: the StatefulSet's own controller;
//   - OnDelete by hand, by ordinal: the highest is deleted, and once it is ready the next.
//
// In 3-healthy, 3-frozen, 5-healthy and 5-frozen an annotation changes that takes new pods. In 3-resources CPU and memory of etcd
// are raised, beside a minute in which nothing changes, and in 3-agent-image and 3-etcd-image an image gets another name: the
// same programs, so that nothing but the rollout is measured. 3-changes raises the resources of one cluster twenty times in ten
// minutes; -interval 0 does it without a pause. In members, a cluster of one member grows to three and five, and
// shrinks back, under load.
//
// The peers run on a StatefulSet that etcd-foreman has created, and whose Etcd was then deleted with its objects left behind
// (kubectl delete --cascade=orphan). So it is identical down to the last probe, nothing manages it, and its strategy can be
// set without switching the feature gate, which would restart the operator between two runs. Both clusters run all the
// time, with default image, probes and settings, but smaller requests of CPU and memory, so that ten members fit on one
// machine.
//
// Besides rollouts it counts the operator's requests in the API server's audit log, and the writes of an idle operator. It
// prints medians. The results are in .local/bench.json.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/bench/target"
	"github.com/etcd-foreman/etcd-foreman/test/measure/console"
	"github.com/etcd-foreman/etcd-foreman/test/measure/stage"
	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	pairs := flag.Int("pairs", 5, "the number of rollouts of each scenario in each way")
	names := flag.String("scenarios", strings.Join(scenarioNames(), ","), "what to measure")
	interval := flag.Duration("interval", 30*time.Second, "the time between two changes of "+changes+"; 0: each follows at once when the one before is done")
	strict := flag.Bool("strict", false, "exit with 1 when a target is missed")
	flag.Parse()
	// The benchmark disturbs the cluster; what libraries log about that is noise.
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *names, *pairs, *interval, *strict)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// errMissed is returned with -strict.
var errMissed = errors.New("a target was missed")

func run(ctx context.Context, names string, pairs int, interval time.Duration, strict bool) error {
	chosen, err := chooseScenarios(names)
	if err != nil {
		return err
	}
	if pairs < 1 {
		return fmt.Errorf("measuring %d pairs: at least one is needed", pairs)
	}
	s, err := stage.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	b := &bench{stage: s, console: console.New(os.Stderr), pairs: pairs, interval: interval}
	err = b.all(ctx, chosen)
	targets := b.results.targets()
	fmt.Print(b.results.table(targets))
	if err := errors.Join(err, b.write(targets)); err != nil {
		return err
	}
	if strict && !target.Met(targets) {
		return errMissed
	}
	return nil
}
