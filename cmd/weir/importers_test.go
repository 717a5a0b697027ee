package main_test

import (
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// importersHeading begins the part of a package comment that names the packages which import it.
const importersHeading = "# Who imports it\n"

// importable matches the paths of packages in text.
var importable = regexp.MustCompile(`[a-z0-9]+(/[a-z0-9]+)*`)

// TestImportersAreDocumented compares the importers that each package comment names with those
// there are. A name also stands for the packages below it. Programs and packages for tests alone
// have none to name.
func TestImportersAreDocumented(t *testing.T) {
	packages, err := readPackages(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	importers := map[string][]string{}
	for dir, p := range packages {
		for target := range p.imports {
			importers[target] = append(importers[target], dir)
		}
	}
	for dir, p := range packages {
		_, section, found := strings.Cut(p.comment, importersHeading)
		forTests := within(dir, fakes) || within(dir, runner) || strings.HasSuffix(dir, "test")
		if !found {
			if p.name != "main" && !forTests {
				t.Errorf("the comment of package %s has no part %q", dir, strings.TrimSpace(importersHeading))
			}
			continue
		}
		section, _, _ = strings.Cut(section, "\n# ")
		var named []string
		for _, word := range importable.FindAllString(section, -1) {
			if packages[word] != nil && !slices.Contains(named, word) {
				named = append(named, word)
			}
		}
		for _, name := range named {
			if !slices.ContainsFunc(importers[dir], func(importer string) bool { return within(importer, name) }) {
				t.Errorf("the comment of package %s says that %s imports it, which it does not", dir, name)
			}
		}
		for _, importer := range importers[dir] {
			if !slices.ContainsFunc(named, func(name string) bool { return within(importer, name) }) {
				t.Errorf("the comment of package %s does not say that %s imports it", dir, importer)
			}
		}
	}
}

// packageFacts are what the shipped files of a package say.
type packageFacts struct {
	name    string
	comment string
	imports map[string]bool // packages of this module, by directory
}

// readPackages parses the shipped files below root, which is the module's.
func readPackages(root string) (map[string]*packageFacts, error) {
	packages := map[string]*packageFacts{}
	err := eachShipped(root, func(name, rel string) error {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		p := packages[path.Dir(rel)]
		if p == nil {
			p = &packageFacts{name: file.Name.Name, imports: map[string]bool{}}
			packages[path.Dir(rel)] = p
		}
		p.comment += file.Doc.Text()
		for _, spec := range file.Imports {
			target, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if target, ours := strings.CutPrefix(target, module+"/"); ours {
				p.imports[target] = true
			}
		}
		return nil
	})
	return packages, err
}

// TestReadPackages keeps TestImportersAreDocumented honest: it reads packages that it would miss
// only by mistake.
func TestReadPackages(t *testing.T) {
	packages, err := readPackages(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	relay := packages["relay"]
	if relay == nil || relay.name != "relay" || !relay.imports["relay/xds"] || !strings.HasPrefix(relay.comment, "Package relay") {
		t.Errorf("package relay is read as %+v, of %q", relay, slices.Sorted(maps.Keys(packages)))
	}
}
