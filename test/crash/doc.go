// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package crash holds the tests that kill a process, or lose its requests, at each of its writes. "make test" runs a part of them, and
// "make crashes" all. Each compares a disturbed run with an undisturbed one: it must come to the same end and do nothing twice.
//
//   - engine: the task engine, and the controller of Etcds where a task needs it, on a cluster in memory (test/inmemory) whose time is
//     simulated. It proves that every write may be the last one, that every answer and every event may be late or lost, and that two
//     operators at once do what one does. A run takes milliseconds, so every write is tried.
//   - operator: the whole operator, in front of a real API server with the real StatefulSet controller. It proves the same with the
//     server-side apply, optimistic locking and garbage collection that the memory does not have. A run takes seconds, so "make test" takes
//     a sample. proxy stands between the operator and the API server.
//   - killed: a process at each system call that changes files. The agent's tests use it (test/integration/backup and member, KilledAtEachWrite); it
//     proves that a restore, a compaction, a copy, a snapshot, a rebuild and a member that goes back leave nothing unfinished under the name of data.
//   - disturb: what engine and operator share: a write, what becomes of it, and members and agents that take part.
//
// What a crash does to a real kubelet, to volumes and to clients is tested by test/e2e and test/robustness.
package crash
