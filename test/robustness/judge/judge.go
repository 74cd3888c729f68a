// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package judge turns the records of a run into its result. It needs nothing but their files, so a run can be judged again.
package judge

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/check"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/history"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/oracle"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/report"
)

const (
	// patience bounds the search for a linearization of one key.
	patience = 30 * time.Second
	// noticeable is the length from which a gap in writes is reported.
	noticeable = 300 * time.Millisecond
)

// Folder judges the run whose files are in a folder, and writes the result and the page there.
func Folder(dir string) (report.Result, error) {
	r := report.Result{}
	if err := errors.Join(readJSON(filepath.Join(dir, report.RunFile), &r.Run), readJSON(filepath.Join(dir, report.TimelineFile), &r.Timeline)); err != nil {
		return r, err
	}
	h, err := history.ReadFile(filepath.Join(dir, report.HistoryFile))
	if err != nil {
		return r, err
	}
	acknowledged := summarize(&r, h)
	r.Violations = check.History(h, r.Run.Cluster.Members, patience)
	acts, containers, samples, err := records(dir, r.Run.Cluster)
	if err != nil {
		return r, err
	}
	r.Samples = len(samples)
	judged := oracle.Judge(r.Run.Cluster, acts, containers, samples, r.Timeline.Outages)
	r.Judgements = oracle.Promises(judged, acts, containers, r.Timeline.Faults())
	r.Judgements = append(r.Judgements, oracle.Membership(r.Run.Cluster, acts, samples, r.Timeline.Outages, r.Timeline.Migrations)...)
	r.CountActs()
	r.Gaps = oracle.Gaps(acknowledged, noticeable, r.Judgements, r.Timeline.Faults(), r.Timeline.Outages)
	err = report.WriteJSON(filepath.Join(dir, report.ResultFile), r)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, report.PageFile), []byte(r.Page()), 0o644)
	}
	return r, err
}

// summarize counts, and returns when writes were acknowledged.
func summarize(r *report.Result, h *history.History) []time.Duration {
	var acknowledged []time.Duration
	r.Requests = len(h.Operations)
	for _, op := range h.Operations {
		if op.Acknowledged() {
			r.Acknowledged++
		}
		if op.Wrote() {
			acknowledged = append(acknowledged, op.Return)
			if strings.HasPrefix(op.Key, check.UniquePrefix) {
				r.Unique++
			}
		}
	}
	for _, w := range h.Watches {
		r.Events += len(w.Events)
	}
	return acknowledged
}

func records(dir string, cluster oracle.Cluster) ([]oracle.Act, *oracle.Containers, []oracle.Sample, error) {
	log, err := os.Open(filepath.Join(dir, report.AuditFile))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("reading the audit log: %w", err)
	}
	defer log.Close() //nolint:errcheck // it is only read
	acts, containers, err := oracle.Read(log, cluster)
	if err != nil {
		return nil, nil, nil, err
	}
	file, err := os.Open(filepath.Join(dir, report.SamplesFile))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("reading what members said: %w", err)
	}
	defer file.Close() //nolint:errcheck // it is only read
	var samples []oracle.Sample
	for lines := json.NewDecoder(bufio.NewReader(file)); ; {
		var s oracle.Sample
		if err := lines.Decode(&s); errors.Is(err, io.EOF) {
			return acts, containers, samples, nil
		} else if err != nil {
			return nil, nil, nil, fmt.Errorf("reading what members said: %w", err)
		}
		samples = append(samples, s)
	}
}

func readJSON(path string, into any) error {
	content, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(content, into)
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}
