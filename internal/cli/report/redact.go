// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"regexp"
	"strings"
)

// redacted stands for a value that may be a secret.
const redacted = "REDACTED"

// lastApplied is a copy of an object as it was applied, secrets included.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// harmless are environment variables whose values are needed to understand a program and are not secrets.
var harmless = map[string]bool{
	"GOMEMLIMIT": true, "GOGC": true, "GOMAXPROCS": true, "GODEBUG": true, "POD_NAME": true, "POD_NAMESPACE": true, "TZ": true,
}

// secretName matches the name of a secret: a key of a map, a flag, or the name before a value in text.
const secretName = `(?:pass(?:word|wd|phrase)|secret|token|credential|authorization|api[-_]?key|access[-_]?key|account[-_]?key|private[-_]?key|signature|cookie|sas)`

// patterns match what may be a secret in text. Only the groups of a match are kept.
var patterns = []*regexp.Regexp{
	// A key in PEM, also with escaped line ends or without its end.
	regexp.MustCompile(`()-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----|[A-Za-z0-9+/=\s\\]*)`),
	// The end of such a key, in a log that begins in the middle of one.
	regexp.MustCompile(`()(?:(?:\S+Z )?[A-Za-z0-9+/=]+\s*\n)*(?:\S+Z )?-----END [A-Z ]*PRIVATE KEY-----`),
	// The user information of a URL.
	regexp.MustCompile(`(://)[^/@\s"']+(@)`),
	// The credentials of an Authorization header, wherever they are.
	regexp.MustCompile(`(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{6,}`),
	// A JSON web token.
	regexp.MustCompile(`()\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+){0,2}`),
	// An access key ID of AWS.
	regexp.MustCompile(`()\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b`),
	// name=value, name: value, "name":"value", name="two words"; not the beginning of a map or list.
	regexp.MustCompile(`(?i)(` + secretName + `[\w.-]*\\?["']?[ \t]*[=:][ \t]*)(?:\\"(?:[^"\\]|\\[^"])*\\"|"(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'{\[,;&\\][^\s"',;&]*)`),
	// --name value
	regexp.MustCompile(`(?i)(--?[\w.-]*` + secretName + `[\w.-]*[ \t]+)[^\s"'-][^\s"',;]*`),
}

// scrub returns a text without what looks like a secret.
func scrub(text string) string {
	for _, p := range patterns {
		text = p.ReplaceAllString(text, "${1}"+redacted+"${2}")
	}
	return text
}

var (
	secretKey  = regexp.MustCompile(`(?i)` + secretName)
	secretFlag = regexp.MustCompile(`(?i)^--?[\w.-]*` + secretName + `[\w.-]*$`)
	// notSecret are keys of Kubernetes that name a secret and do not contain one.
	notSecret = map[string]bool{"secretName": true, "tokenExpirationSeconds": true}
)

// redact removes what may be a secret from an object: the value of everything that has a name and a value, such as an environment
// variable or a header, the value of a key or flag that is named like a secret, and what scrub finds. It also removes copies of the
// object.
func redact(object map[string]any) map[string]any {
	name, hasName := object["name"].(string)
	_, hasValue := object["value"].(string)
	out := map[string]any{}
	for key, value := range object {
		text, isText := value.(string)
		switch {
		case key == "managedFields" || key == lastApplied:
		case hasName && hasValue && key == "value" && !harmless[name]:
			out[key] = redacted
		case isText && secretKey.MatchString(key) && !notSecret[key]:
			out[key] = redacted
		case isText:
			out[key] = scrub(text)
		default:
			out[key] = redactValue(value)
		}
	}
	return out
}

func redactValue(value any) any {
	switch v := value.(type) {
	case map[string]any:
		return redact(v)
	case []any:
		return redactList(v)
	case string:
		return scrub(v)
	}
	return value
}

func redactList(list []any) []any {
	out := make([]any, len(list))
	for i, value := range list {
		out[i] = redactValue(value)
		if i == 0 {
			continue
		}
		before, isText := list[i-1].(string)
		if text, ok := value.(string); ok && isText && secretFlag.MatchString(before) && !strings.HasPrefix(text, "-") {
			out[i] = redacted
		}
	}
	return out
}
