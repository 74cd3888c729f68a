// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Restart is the fingerprint of a change that only replaces pods.
const Restart = "restart"

// Names are what differs between clusters although the change is the same.
type Names struct{ Etcd, Namespace, UID string }

// Fingerprint returns what a change from one pod template to another is known by: it is the same in clusters that differ only in their
// names. Both are in JSON.
func Fingerprint(current, target []byte, names Names) (string, error) {
	place := names.placeholders()
	before, err := flatten(current, place)
	if err != nil {
		return "", err
	}
	after, err := flatten(target, place)
	if err != nil {
		return "", err
	}
	var differences []string
	paths := maps.Clone(before)
	maps.Copy(paths, after)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		was, is := before[path], after[path]
		if was == is {
			continue
		}
		line := path
		switch {
		case strings.HasSuffix(path, "/image"):
			line += "\x00" + plain(was) + "\x00" + plain(is)
		case strings.Contains(path, "/resources/"):
			line += "\x00" + direction(was, is)
		case byValue(path):
			line += "\x00" + plain(place(was)) + "\x00" + plain(place(is))
		}
		differences = append(differences, line)
	}
	if len(differences) == 0 {
		return Restart, nil
	}
	sum := sha256.Sum256([]byte(strings.Join(differences, "\n")))
	return "v1-" + hex.EncodeToString(sum[:])[:16], nil
}

// onlyPath matches what differs between clusters that have the same change, such as their size, or says nothing of what runs: the names
// of objects, resources, labels and annotations.
var onlyPath = regexp.MustCompile(`/(secretName|claimName|configMap/name|secretRef/name|secretKeyRef/name)$|/resources/|/metadata/labels/|/metadata/annotations/`)

// checksum is the annotation with the checksum of etcd's configuration, in which there is no name of a cluster.
const checksum = "/metadata/annotations/checksum/etcd-config"

// byValue reports whether it matters for a change what a path was, and what it becomes, and not only that it changes.
func byValue(path string) bool {
	return strings.HasSuffix(path, checksum) || !onlyPath.MatchString(path)
}

// direction says how a quantity changes: clusters differ in how much they get, and one that grows is another change than one that shrinks.
func direction(was, is string) string {
	before, errBefore := resource.ParseQuantity(was)
	after, errAfter := resource.ParseQuantity(is)
	if errBefore != nil || errAfter != nil {
		return fmt.Sprint(was == "", is == "")
	}
	return fmt.Sprint(after.Cmp(before))
}

// placeholders returns a function that replaces the names of a cluster, all by the same word: an Etcd may be named like its namespace. So may
// either like a word of all templates: etcd.
func (n Names) placeholders() func(string) string {
	all := slices.DeleteFunc([]string{n.UID, n.Etcd, n.Namespace, "etcd"}, func(name string) bool { return name == "" })
	// The longest first: one may be a part of another.
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return func(text string) string {
		var said strings.Builder
		for i := 0; i < len(text); {
			name := slices.IndexFunc(all, func(name string) bool { return isWord(text, i, name) })
			if name < 0 {
				said.WriteByte(text[i])
				i++
				continue
			}
			said.WriteString("<name>")
			i += len(all[name])
		}
		return said.String()
	}
}

// isWord reports whether a name is at a place of a text, as a whole word: a name may be as short as one letter.
func isWord(text string, at int, name string) bool {
	inWord := func(i int) bool {
		return i >= 0 && i < len(text) && (text[i] >= '0' && text[i] <= '9' || text[i]|0x20 >= 'a' && text[i]|0x20 <= 'z')
	}
	return strings.HasPrefix(text[at:], name) && !inWord(at-1) && !inWord(at+len(name))
}

// flatten returns the values of a JSON document by their paths. What a list has is known by its name, if it has one. Volumes may be named after
// their cluster.
func flatten(document []byte, place func(string) string) (map[string]string, error) {
	var value any
	if err := json.Unmarshal(document, &value); err != nil {
		return nil, fmt.Errorf("decoding a pod template: %w", err)
	}
	all := map[string]string{}
	var walk func(path string, value any)
	walk = func(path string, value any) {
		switch v := value.(type) {
		case map[string]any:
			for key, inner := range v {
				walk(path+"/"+key, inner)
			}
		case []any:
			for i, inner := range v {
				key := fmt.Sprint(i)
				if o, ok := inner.(map[string]any); ok {
					if name, ok := o["name"].(string); ok {
						key = name
					}
					if strings.HasSuffix(path, "/volumes") || strings.HasSuffix(path, "/volumeMounts") {
						key = place(key)
					}
				}
				walk(path+"/"+key, inner)
			}
		default:
			all[path] = fmt.Sprint(v)
		}
	}
	walk("", value)
	return all, nil
}

// plain returns a value without what separates differences: a tenant who writes that into a value of theirs would make their change look like
// another one. A value that has none stays as it is. Names are replaced before: the quotation of a new line ends in a letter.
func plain(value string) string {
	if !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' }) {
		return value
	}
	return "\x01" + strconv.Quote(value)
}
