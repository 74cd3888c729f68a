// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Command provisioner makes the volumes of the local Kubernetes: folders of this
// machine, created for a claim, deleted with it, and "expanded" when the claim
// asks for more. The sizes are not enforced.
//
// Without it, members could only keep their data in an emptyDir, which is lost
// when a pod is deleted.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		klog.FromContext(ctx).Error(err, "Provisioner failed")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("provisioner", flag.ContinueOnError)
	name := flags.String("provisioner", "", "name of this provisioner in its StorageClass")
	dir := flags.String("dir", "", "folder that holds one folder per volume")
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("reading kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating client: %w", err)
	}

	factory := informers.NewSharedInformerFactory(client, 0)
	claims := factory.Core().V1().PersistentVolumeClaims()
	expander, err := newExpander(client, *name, claims)
	if err != nil {
		return err
	}
	provisioning := controller.NewProvisionController(ctx, client, *name, hostPath{dir: *dir},
		controller.ClaimsInformer(claims.Informer()),
		// There is exactly one instance, so leader election is not needed.
		controller.LeaderElection(false),
		// The library's own limiter waits 15 s after the first failure.
		controller.RateLimiter(workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, 10*time.Second)),
	)
	factory.Start(ctx.Done())
	go expander.watch(ctx)
	provisioning.Run(ctx)
	return nil
}
