// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package measure measures what a rollout costs the clients of an etcd cluster. The end-to-end tests, the demo and the
// benchmarks use it:
//
//	w, err := measure.Start(ctx, measure.Options{Config: config, Namespace: "demo", StatefulSet: "etcd-main"})
//	...
//	change := time.Now()
//	// change the template, wait until the rollout is over
//	report := w.Stop()
//	figures := report.Between(change, time.Now())
//	err = w.Verify(ctx)
//
// What is measured, and how:
//
//   - Writes. Each member has its own loop, with a client that knows no other member, so that results do not
//     depend on client failover. It puts a new key every 50 ms, even while earlier writes hang (a
//     writer that waits for its last write would not notice how long others would have waited). A write that
//     is not acknowledged within 1 s has failed. A write gap is the time between two successive
//     acknowledgements by any member: while one member accepts writes, the cluster is available.
//     "Seconds without writes" is the sum of the gaps of more than 0.3 s; shorter ones are normal.
//   - Leaders. Each member is asked for its raft term and leader every 100 ms.
//   - Pods. Every change of a pod of the StatefulSet is recorded at the moment in which the API server's watch
//     shows it, and so is the operator's own share of a rollout: from the moment in which the last replaced
//     member is ready and serves to the one in which the next pod is marked for deletion.
//   - Data. Verify reads every acknowledged write back, linearizably, through every member.
//
// All times are taken by the clock of the measuring process. It dials pods at their addresses, so it has to run where pods
// can be reached: on the node of the local Kubernetes. A cluster elsewhere would need a port-forward for each member, which
// is not implemented.
//
// It imports client-go and etcd's client, and of this project the API only.
package measure
