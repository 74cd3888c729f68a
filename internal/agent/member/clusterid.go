// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"crypto/sha1"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
)

// ClusterID returns the ID, in hex, that etcd gives to a cluster that the given members bootstrap: name=URL, separated by commas. etcd
// derives it from the members' peer URLs and the token (etcdserver/api/membership: computeMemberID, genID).
func ClusterID(token, founders string) string {
	urls := map[string][]string{}
	for entry := range strings.SplitSeq(founders, ",") {
		name, url, _ := strings.Cut(entry, "=")
		urls[name] = append(urls[name], url)
	}
	var members []uint64
	for _, of := range urls {
		slices.Sort(of)
		members = append(members, digest([]byte(strings.Join(of, "")+token)))
	}
	slices.Sort(members)
	var all []byte
	for _, id := range members {
		all = binary.BigEndian.AppendUint64(all, id)
	}
	return strconv.FormatUint(digest(all), 16)
}

func digest(b []byte) uint64 {
	sum := sha1.Sum(b) // etcd derives IDs with it; nothing rests on its strength
	return binary.BigEndian.Uint64(sum[:8])
}
