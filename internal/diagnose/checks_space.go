// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

// size, inUse and quota of the database, in bytes; 0 if they are not known.
func (r reading) database() (size, inUse, quota float64) {
	size, _ = r.now("etcd_mvcc_db_total_size_in_bytes")
	inUse, _ = r.now("etcd_mvcc_db_total_size_in_use_in_bytes")
	quota, _ = r.now("etcd_server_quota_backend_bytes")
	return size, inUse, quota
}

// fullest returns the database that is closest to its quota.
func (s *state) fullest() []Evidence {
	var best []Evidence
	for _, m := range s.members {
		if size, _, limit := m.database(); limit > 0 && (len(best) == 0 || 100*size/limit > best[0].Value) {
			best = []Evidence{{Member: m.Name, Signal: "size of the database, of its quota", Value: 100 * size / limit, Unit: "%", Threshold: quotaThreshold, Source: ours}}
		}
	}
	return best
}

func quota(s *state) result {
	var r result
	if best := s.fullest(); len(best) > 0 && best[0].Value >= quotaThreshold {
		best[0].proves = true
		r.evidence = best
	}
	return r.advise(
		Advice{"Remove old revisions and defragment, before etcd refuses writes.", s.verb("defrag", "--compaction")},
		Advice{"If what is in use is close to the quota, delete keys or raise spec.etcd.quota (etcd recommends at most 8 GiB).", ""})
}

func fragmentation(s *state) result {
	var r result
	for _, m := range s.members {
		if size, used, _ := m.database(); size >= minFragmented && used > 0 && 100*used/size < inUseThreshold {
			r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "part of the database file that is in use", Value: 100 * used / size, Unit: "%", Threshold: inUseThreshold, Source: fragmentedUsage, proves: true})
		}
	}
	return r.advise(Advice{"Defragment at a quiet time. It costs space on the volume and in the page cache, and seldom time.", s.verb("defrag")})
}

func fileDescriptors(s *state) result {
	var r result
	for _, m := range s.members {
		open, known := m.now("process_open_fds")
		limit, too := m.now("process_max_fds")
		if known && too && limit > 0 && 100*open/limit >= filesThreshold {
			r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "open files, of the limit", Value: 100 * open / limit, Unit: "%", Threshold: filesThreshold, Source: ours, proves: true})
		}
	}
	return r.advise(Advice{"Find the clients that open so many connections; each takes a file descriptor.", ""})
}
