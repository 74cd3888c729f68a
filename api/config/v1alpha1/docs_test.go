// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// Every field of the configuration is documented, and nothing else is.
func TestEveryFieldIsDocumented(t *testing.T) {
	g := NewWithT(t)
	page, err := os.ReadFile("../../../docs/operator.md")
	g.Expect(err).NotTo(HaveOccurred())
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[A-Za-z.`, ]+`) \\|").FindAllStringSubmatch(string(page), -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			documented = append(documented, strings.Trim(name, "`"))
		}
	}
	g.Expect(documented).To(ConsistOf(fields(reflect.TypeFor[OperatorConfiguration](), "")))
}

// fields returns the fields of a struct as YAML paths.
func fields(of reflect.Type, path string) []string {
	var all []string
	for f := range of.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch inner := f.Type; {
		case options == "inline":
		case inner.Kind() == reflect.Struct && inner.PkgPath() == of.PkgPath():
			all = append(all, fields(inner, path+name+".")...)
		default:
			all = append(all, path+name)
		}
	}
	return all
}
