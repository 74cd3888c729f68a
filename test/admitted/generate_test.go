// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package admitted

import (
	"maps"
	"slices"
	"strconv"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// generator makes values of a schema from a sequence of bytes, which is all that it is random by. After their end, it takes the first choice.
type generator struct{ bytes []byte }

// choose returns a number below n.
func (g *generator) choose(n int) int {
	if len(g.bytes) == 0 || n < 2 {
		return 0
	}
	b := g.bytes[0]
	g.bytes = g.bytes[1:]
	return int(b) % n
}

// isDone reports whether no bytes are left.
func (g *generator) isDone() bool { return len(g.bytes) == 0 }

// words are what fields mean something by, or what is at the edge of it.
var words = []string{
	"", "main", "1h", "30s", "0s", "-1h", "2540400h", "1Gi", "0", "-1", "1e30", "100m", "0 */24 * * *", "* * * * *", "0 0 31 2 *", "@every 1s", "TZ=", "S3", "Local", "GCS", "ABS", "LimitBased", "Exponential",
	"metrics", "extensive", "basic", "periodic", "auto", "../../etc", "/", "a/b", "kube-system", "https://example.com", "http://169.254.169.254", "2000-01-01T00:00:00Z", "localhost/etcd:v3.6.16", "etcd:v3.5.0",
	"etcd", "backup-restore", "MAIN", "a b", "a\nb", "ü", "\x00", "true", "OnDelete", "Retain", "gzip", "{}", "RELEASE", "druid.gardener.cloud/x", "app", "256Mi", "0.5", "99999999999999999999",
}

var numbers = []int64{0, 1, 3, 5, 2, 7, -1, 10, 100, 2379, 2380, 8080, 65535, 65536, 1 << 30, 1<<31 - 1, 1 << 40, -1 << 31}

// value makes a value of a schema. Few optional fields are there, so that most values are valid.
func (g *generator) value(s *schema.Structural, depth int) any {
	if v := s.ValueValidation; v != nil && len(v.Enum) > 0 && g.choose(8) != 7 {
		return v.Enum[g.choose(len(v.Enum))].Object
	}
	if s.XIntOrString {
		if g.choose(2) == 0 {
			return numbers[g.choose(len(numbers))]
		}
		return g.text()
	}
	switch s.Type {
	case "object":
		return g.object(s, depth)
	case "array":
		items := []any{}
		for range g.choose(4) {
			items = append(items, g.value(s.Items, depth+1))
		}
		return items
	case "string":
		return g.text()
	case "integer":
		return g.number(s)
	case "number":
		return float64(g.number(s))
	case "boolean":
		return g.choose(2) == 1
	}
	return map[string]any{}
}

func (g *generator) number(s *schema.Structural) int64 {
	if v := s.ValueValidation; v != nil && v.Minimum != nil && g.choose(2) == 0 {
		return int64(*v.Minimum) + int64(g.choose(5))
	}
	return numbers[g.choose(len(numbers))]
}

func (g *generator) text() string {
	if g.choose(4) != 3 {
		return words[g.choose(len(words))]
	}
	n := g.choose(80)
	n = min(n, len(g.bytes))
	text := strconv.QuoteToASCII(string(g.bytes[:n]))
	g.bytes = g.bytes[n:]
	return text[1 : len(text)-1]
}

func (g *generator) object(s *schema.Structural, depth int) map[string]any {
	o := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		required := s.ValueValidation != nil && slices.Contains(s.ValueValidation.Required, name)
		if required || g.choose(3+2*depth) == 1 {
			o[name] = g.value(&property, depth+1)
		}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		for range g.choose(3) {
			o[g.text()] = g.value(s.AdditionalProperties.Structural, depth+1)
		}
	}
	return o
}

// change puts a new value at a random place of an object.
func (g *generator) change(o map[string]any, s *schema.Structural) {
	for {
		names := slices.Sorted(maps.Keys(s.Properties))
		if len(names) == 0 {
			return
		}
		name := names[g.choose(len(names))]
		property := s.Properties[name]
		if property.Type == "object" && len(property.Properties) > 0 && g.choose(4) != 3 {
			inner, ok := o[name].(map[string]any)
			if !ok {
				inner = map[string]any{}
				for _, required := range requiredOf(&property) {
					of := property.Properties[required]
					inner[required] = g.value(&of, 9)
				}
				o[name] = inner
			}
			o, s = inner, &property
			continue
		}
		o[name] = g.value(&property, 1)
		return
	}
}

func requiredOf(s *schema.Structural) []string {
	if s.ValueValidation == nil {
		return nil
	}
	return s.ValueValidation.Required
}
