// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// stricter are the rules of the project's Etcd that etcd-druid's does not have, each with the row of docs/gardener.md that gives
// the reason. A path may end with an asterisk.
var stricter = map[string]string{
	".spec required":                                          "spec",
	".spec.replicas enum":                                     "replicas",
	".spec.*Port minimum":                                     "ports",
	".spec.*port minimum":                                     "ports",
	".spec.*Port maximum":                                     "ports",
	".spec.*port maximum":                                     "ports",
	".spec.* maxLength":                                       "lengths",
	".spec.* maxItems":                                        "lengths",
	".spec.*SecretRef.name required":                          "references",
	".spec.*secretRef.name required":                          "references",
	".spec.* minLength":                                       "references",
	".spec.etcd.clientUrlTls.clientTLSSecretRef required":     "clientTLSSecretRef",
	".spec.backup.store.container required":                   "container",
	".spec.backup.store.prefix pattern":                       "prefix",
	".spec.etcd.snapshotCount minimum":                        "counts",
	".spec.backup.maxBackupsLimitBasedGC minimum":             "counts",
	".spec.backup.snapshotCompaction.eventsThreshold minimum": "counts",
	".spec.backup.snapshotCompaction.triggerFullSnapshotThreshold minimum": "counts",
	".status.conditions[].reason pattern":                                  "status",
	".status.conditions[].type pattern":                                    "status",
	".status.conditions[].* enum":                                          "status",
	".status.conditions[].* maxLength":                                     "status",
	".status.conditions[].* minLength":                                     "status",
	".status.lastErrors maxItems":                                          "status",
	".status.lastErrors[].code pattern":                                    "status",
	".status.members[].status enum":                                        "status",
}

// rules are the CEL rules of the project's Etcd, by their messages, each with its row.
var rules = map[string]string{
	"the name of an Etcd consists of":            "name",
	"the name of an Etcd may have at most":       "name",
	"storageCapacity cannot shrink":              "immutable",
	"storageClass cannot be removed":             "",
	"volumeClaimTemplate cannot be changed":      "",
	"memberNamePrefix cannot be changed":         "",
	"etcd.serverPort cannot be changed":          "immutable",
	"etcd.clientUrlTls cannot be removed":        "immutable",
	"etcd.peerUrlTls cannot be removed":          "immutable",
	"externallyManagedMemberAddresses is not":    "externallyManagedMemberAddresses",
	"runAsRoot is not supported":                 "runAsRoot",
	"must use http":                              "",
	"member names must start with the Etcd":      "additionalAdvertisePeerURLs",
	"member name index must be less":             "",
	"additionalAdvertisedURLs.peerURLs mean the": "",
	"must be a valid http":                       "",
	"must have a host, and neither path":         "additionalAdvertisePeerURLs",
	"cannot be added after the Etcd":             "",
	"cannot be modified while the bootstrap":     "",
	"members[*].name must":                       "",
	"bootstrapWithExistingCluster can be":        "bootstrapWithExistingCluster",
	"enableProfiling is not supported":           "enableProfiling",
	"a range like 2-5 begins":                    "ranges",
	"must be at least 1s":                        "durations",
	"provider must be":                           "provider",
	"with provider Local, container":             "Local",
	"with provider azure or ABS":                 "secretRef",
	"prefix must not begin with a slash":         "prefix",
	"endpointOverride must be a URL":             "",
	"managedTLS":                                 "",
}

// definition is one of the project's, and the rules that etcd-druid's does not have.
type definition struct {
	plural, component string
	stricter, rules   map[string]string
}

// definitions are those that both operators have.
var definitions = map[string]definition{
	"Etcd": {"etcds", "etcd", stricter, rules},
	"EtcdCopyBackupsTask": {"etcdcopybackupstasks", "copybackupstask", map[string]string{
		".spec.*Store.container required":      "container",
		".spec.*Store.prefix pattern":          "prefix",
		".spec.*Store.secretRef.name required": "references",
		".spec.* maxLength":                    "lengths",
		".spec.* minLength":                    "references",
		".status.conditions[].reason pattern":  "status",
		".status.conditions[].type pattern":    "status",
		".status.conditions[].* enum":          "status",
		".status.conditions[].* maxLength":     "status",
		".status.conditions[].* minLength":     "status",
	}, map[string]string{
		"provider must be":                                 "provider",
		"with provider Local, container":                   "Local",
		"with provider azure or ABS":                       "secretRef",
		"endpointOverride must be a URL":                   "",
		"timeout must be a duration":                       "durations",
		"sourceStore and targetStore must have a prefix":   "",
		"sourceStore and targetStore must have a provider": "provider",
	}},
	"EtcdOpsTask": {"etcdopstasks", "opstask", map[string]string{
		".status.lastErrors[].code pattern": "status",
	}, map[string]string{
		"config is immutable":                  "",
		"etcdName is immutable":                "",
		"ttlSecondsAfterFinished is immutable": "",
		"isFinal must be false":                "",
	}},
}

// Every field of etcd-druid's types is in the project's, with the same type, and every rule of the project's that is stricter has
// a row in docs/gardener.md.
func TestTheTypesAreSupersets(t *testing.T) {
	for kind, d := range definitions {
		t.Run(kind, func(t *testing.T) { d.isSuperset(t) })
	}
}

func (d definition) isSuperset(t *testing.T) {
	t.Helper()
	page, err := os.ReadFile(root + "/docs/gardener.md")
	if err != nil {
		t.Fatal(err)
	}
	row := func(rule, name string) {
		if name != "" && !strings.Contains(string(page), "| `"+name+"` |") {
			t.Errorf("docs/gardener.md has no row %q, which is to give the reason of %s", name, rule)
		}
	}
	spec := own(t, d.component)[0].Object["spec"].(map[string]any)
	version := spec["versions"].([]any)[0].(map[string]any)
	ours := map[string]field{}
	flatten("", version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any), false, ours)
	theirs := upstream(t, d.plural)
	if d.plural == "etcds" {
		// It is newer than the facts.
		theirs.Fields[".spec.externallyManagedMemberAddresses"] = field{"type": "array"}
		theirs.Fields[".spec.externallyManagedMemberAddresses[]"] = field{"type": "string"}
	}
	used := map[string]bool{}
	for _, at := range slices.Sorted(maps.Keys(theirs.Fields)) {
		their, our := theirs.Fields[at], ours[at]
		if our == nil {
			t.Errorf("%s of etcd-druid is missing", at)
			continue
		}
		if fmt.Sprint(their["type"]) != fmt.Sprint(our["type"]) && at != "" && !strings.HasPrefix(at, ".metadata") {
			t.Errorf("%s is %v in etcd-druid, and %v here", at, their["type"], our["type"])
		}
		for _, property := range differences(their, our) {
			rule := at + " " + property
			if name, known := lookUp(d.stricter, rule, used); known {
				row(rule, name)
			} else {
				t.Errorf("%s is stricter: %v, in etcd-druid %v", rule, our[property], their[property])
			}
		}
	}
	for at, our := range ours {
		messages, _ := our["messages"].([]string)
		if _, known := theirs.Fields[at]; !known {
			// No Etcd of etcd-druid has the field, so none is refused.
			messages = nil
		}
		for _, message := range messages {
			found := false
			for start, name := range d.rules {
				if strings.Contains(message, start) {
					found, used[start] = true, true
					row(message, name)
				}
			}
			if !found {
				t.Errorf("the rule %q of %s is on no list", message, at)
			}
		}
		if _, known := theirs.Fields[at]; !known && our.required() && !strings.Contains(at, "[]") {
			parent := at[:strings.LastIndex(at, ".")]
			if _, known := theirs.Fields[parent]; known && strings.HasPrefix(at, ".spec") {
				t.Errorf("%s is required, and etcd-druid does not have it", at)
			}
		}
	}
	for _, list := range []map[string]string{d.stricter, d.rules} {
		for rule := range list {
			if !used[rule] {
				t.Errorf("%q is on a list, and there is no such rule", rule)
			}
		}
	}
	g := NewWithT(t)
	for name, subresource := range theirs.Subresources {
		g.Expect(version["subresources"]).To(HaveKeyWithValue(name, Equal(subresource)))
	}
	g.Expect(spec["names"]).To(HaveKeyWithValue("plural", theirs.Names["plural"]))
	if short, ok := theirs.Names["shortNames"]; ok && d.plural != "etcds" {
		g.Expect(spec["names"]).To(HaveKeyWithValue("shortNames", short))
	}
}

// lookUp finds a rule in a list, and notes which entry has it.
func lookUp(list map[string]string, rule string, used map[string]bool) (string, bool) {
	name, found := "", false
	for pattern, row := range list {
		expression := "^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$"
		if regexp.MustCompile(expression).MatchString(rule) {
			name, found, used[pattern] = row, true, true
		}
	}
	return name, found
}

// flatten collects the fields of a schema by their paths, as the facts do.
func flatten(at string, schema map[string]any, required bool, into map[string]field) {
	f := field{"required": required}
	for _, property := range []string{"type", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "x-kubernetes-int-or-string"} {
		if value, ok := schema[property]; ok {
			f[property] = value
		}
	}
	if all, ok := schema["allOf"].([]any); ok {
		for _, one := range all {
			for property, value := range one.(map[string]any) {
				f[property] = value
			}
		}
	}
	var messages []string
	list, _ := schema["x-kubernetes-validations"].([]any)
	for _, rule := range list {
		messages = append(messages, fmt.Sprint(rule.(map[string]any)["message"]))
	}
	f["messages"] = messages
	into[at] = f
	if items, ok := schema["items"].(map[string]any); ok {
		flatten(at+"[]", items, false, into)
	}
	if values, ok := schema["additionalProperties"].(map[string]any); ok {
		flatten(at+"{}", values, false, into)
	}
	names, _ := schema["required"].([]any)
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		flatten(at+"."+name, property.(map[string]any), slices.Contains(names, any(name)), into)
	}
}

// differences returns the properties of a field that are, or may be, stricter than those of etcd-druid.
func differences(their, our field) []string {
	var found []string
	if our.required() && !their.required() {
		found = append(found, "required")
	}
	for _, property := range []string{"enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"} {
		limit, ok := our[property]
		if !ok || covers(property, their[property], limit) {
			continue
		}
		found = append(found, property)
	}
	return found
}

// covers reports whether a limit admits all that etcd-druid's does.
func covers(property string, their, our any) bool {
	switch {
	case fmt.Sprint(their) == fmt.Sprint(our):
		return true
	case their == nil:
		return false
	case property == "enum":
		ours, _ := our.([]any)
		for _, value := range their.([]any) {
			if !slices.Contains(ours, value) {
				return false
			}
		}
		return true
	case property == "pattern":
		// Schedules are compared by samples, in TestSchedulesOfUpstream.
		return strings.Contains(fmt.Sprint(their), `[1-6]\/[1-7]`)
	case strings.HasPrefix(property, "max"):
		return number(our) >= number(their)
	}
	return number(our) <= number(their)
}

func number(value any) float64 {
	switch value := value.(type) {
	case int64:
		return float64(value)
	case float64:
		return value
	}
	return 0
}

// Every form of a schedule that etcd-druid's pattern admits is admitted by the project's.
func TestSchedulesOfUpstream(t *testing.T) {
	g := NewWithT(t)
	versions := own(t, "etcd")[0].Object["spec"].(map[string]any)["versions"].([]any)
	ours := map[string]field{}
	flatten("", versions[0].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any), false, ours)
	forms := [][]string{
		{"*", "0", "7", "59", "0-59", "5-9", "10-50", "5/15", "30/60", "*/5", "*/60"},
		{"*", "0", "9", "23", "0-9", "3-17", "10-12", "20-23", "1/6", "23/24", "*/4", "*/24"},
		{"*", "1", "9", "31", "1-9", "3-31", "10-30", "31-31", "1/7", "30/31", "*/2", "*/31"},
		{"*", "1", "9", "12", "1-9", "3-12", "10-12", "1/3", "12/12", "*/2", "*/12"},
		{"*", "1", "7", "1-7", "1-5", "6-7", "1/2", "6/7", "*/1", "*/7"},
	}
	for _, at := range []string{".spec.backup.fullSnapshotSchedule", ".spec.etcd.defragmentationSchedule"} {
		theirs := regexp.MustCompile(fmt.Sprint(upstream(t, "etcds").Fields[at]["pattern"]))
		our := regexp.MustCompile(fmt.Sprint(ours[at]["pattern"]))
		for position, list := range forms {
			for _, form := range list {
				for _, space := range []string{" ", "  ", "\t"} {
					parts := []string{"*", "*", "*", "*", "*"}
					parts[position] = form
					schedule := strings.Join(parts, space)
					g.Expect(theirs.MatchString(schedule)).To(BeTrue(), "%s is no sample: etcd-druid refuses %q", path.Base(at), schedule)
					g.Expect(our.MatchString(schedule)).To(BeTrue(), "%s refuses %q", at, schedule)
				}
			}
		}
	}
}
