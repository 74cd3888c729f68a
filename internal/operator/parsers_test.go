// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// parsers are the functions that parse certificates and keys, whatever that costs, by their packages.
var parsers = map[string]*regexp.Regexp{
	"crypto/x509":  regexp.MustCompile(`^(Parse|DecryptPEMBlock$)`),
	"crypto/tls":   regexp.MustCompile(`X509KeyPair$`),
	"encoding/pem": regexp.MustCompile(`^Decode$`),
}

// mayParse are the files that use them, with the reason why a tenant's Secret does no harm there.
var mayParse = map[string]string{
	"internal/base/boundedpem/boundedpem.go":  "it checks the bounds",
	"internal/etcd/pki/certificate.go":        "a key that boundedpem has checked, and a certificate that the operator has just signed",
	"internal/cluster/certificates/check.go":  "intermediates of a pair that boundedpem has parsed",
	"internal/druid/webhookcert/authority.go": "a certificate that the operator has just signed",
	"internal/agent/backup/server/tls.go":     "it runs in the pod that mounts the Secret",
	"internal/agent/backup/store/buckets.go":  "it runs in the pod that mounts the Secret",
	"internal/agent/backup/signature/keys.go": "it runs in the pod that mounts the Secret, and bounds the size",
}

// What comes from a tenant's Secret is parsed by boundedpem alone. Whoever adds a file to the list has to say why it does no harm.
func TestOnlyBoundedPEMParsesSecrets(t *testing.T) {
	found := map[string][]string{}
	for _, dir := range []string{"api", "cmd", "internal", "tasks"} {
		err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			calls, err := parsing(path)
			if len(calls) > 0 {
				found[filepath.ToSlash(strings.TrimPrefix(path, "../../"))] = calls
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(found)) {
		if mayParse[file] == "" {
			t.Errorf("%s uses %s: use internal/base/boundedpem, or say in mayParse why a large key does no harm", file, strings.Join(found[file], ", "))
		}
	}
	for file := range mayParse {
		if found[file] == nil {
			t.Errorf("%s parses nothing: remove it from mayParse", file)
		}
	}
}

// parsing returns the parsers that a file names, under whatever name it imports their packages.
func parsing(path string) (uses []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	packages := map[string]string{}
	for _, i := range file.Imports {
		of := strings.Trim(i.Path.Value, `"`)
		name := of[strings.LastIndex(of, "/")+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		packages[name] = of
	}
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := s.X.(*ast.Ident)
		if is := s.Sel.Name == "AppendCertsFromPEM" || ok && parsers[packages[x.Name]] != nil && parsers[packages[x.Name]].MatchString(s.Sel.Name); is {
			uses = append(uses, s.Sel.Name)
		}
		return true
	})
	return uses, nil
}
