// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/diagnose"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Everyday is what clients do to an etcd that is not slow: 200 writes of 1 KiB and 50 pages of 50 keys a second, transactions, leases that
// come and go, and 20 watchers.
func Everyday(by *clientv3.Client) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	for range 20 {
		go func() {
			for range by.Watch(ctx, "/registry/pods", clientv3.WithPrefix()) {
				continue
			}
		}()
	}
	all := []func(){
		cancel,
		Writes(by, 200, 1<<10),
		During(1, func(ctx context.Context, _ int) error {
			Pause(ctx, 20*time.Millisecond)
			_, err := by.Get(ctx, "/registry/pods", clientv3.WithPrefix(), clientv3.WithLimit(50))
			return err
		}),
		During(1, func(ctx context.Context, n int) error {
			Pause(ctx, 50*time.Millisecond)
			key := fmt.Sprintf("/registry/configmaps/c-%d", n%100)
			got, err := by.Get(ctx, key)
			if err != nil {
				return err
			}
			revision := int64(0)
			for _, kv := range got.Kvs {
				revision = kv.ModRevision
			}
			_, err = by.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).Then(clientv3.OpPut(key, "v")).Commit()
			return err
		}),
		During(4, func(ctx context.Context, n int) error {
			lease, err := by.Grant(ctx, 10) // seconds
			if err != nil {
				return err
			}
			_, err = by.Put(ctx, fmt.Sprintf("/registry/events/e-%d", n), "v", clientv3.WithLease(lease.ID))
			Pause(ctx, 500*time.Millisecond)
			return err
		}),
	}
	return func() {
		for _, stop := range all {
			stop()
		}
	}
}

// Hour is how long a test is to ask healthy members why they are slow, by the environment variable HOUR, such as 1h. It skips the test
// without.
func Hour(t testing.TB) time.Duration {
	t.Helper()
	lasts, err := time.ParseDuration(os.Getenv("HOUR"))
	if err != nil {
		t.Skip("HOUR=1h asks healthy members for an hour why they are slow")
	}
	return lasts
}

// FindNothing measures members again and again for a while, and expects no finding. A machine without a free CPU makes etcd slow indeed:
// what is found then is logged, and does not count.
func FindNothing(t testing.TB, lasts time.Duration, measure func() diagnose.Input) {
	t.Helper()
	began := time.Now()
	asked, busy, slow, excused := 0, 0, 0, 0
	for time.Since(began) < lasts {
		since := machine.BusyCPU(t)
		v := diagnose.Judge(measure())
		used := since()
		isBusy := used >= 95
		asked++
		if isBusy {
			busy++
		}
		if v.Slow {
			slow++
		}
		t.Logf("HOUR | %s | CPU of the machine %.0f %% | %s", time.Since(began).Round(time.Second), used, v.Headline)
		for _, f := range v.Findings {
			t.Logf("HOUR | %s | %s %s: %v", time.Since(began).Round(time.Second), f.Cause, f.Grade, f.Evidence)
		}
		switch {
		case len(v.Findings) > 0 && isBusy:
			excused++
		case len(v.Findings) > 0:
			t.Errorf("%s is found, and %d more: %s", v.Findings[0].Cause, len(v.Findings)-1, v.Headline)
		}
	}
	t.Logf("HOUR | %s: asked %d times, %d of them with the CPUs of the machine busy; slow %d times; findings on the busy machine %d times", time.Since(began).Round(time.Second), asked, busy, slow, excused)
}
