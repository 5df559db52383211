package words

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// aphorism is the form of a doc comment that gives no fact: what X says, or what it is that something else is.
var aphorism = regexp.MustCompile(`^\w+(\.\w+)? (says|tells|is (what|who|whether|that)|are (what|who))\b`)

// commentsIn returns the doc comments that are not in Go's form: those of functions that return one boolean begin with
// "X reports whether", and none is an aphorism.
func commentsIn(name string, content []byte) ([]string, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(file) {
		return nil, err
	}
	var out []string
	add := func(at token.Pos, format string, args ...any) {
		out = append(out, fmt.Sprintf("%s:%d: ", name, set.Position(at).Line)+fmt.Sprintf(format, args...))
	}
	check := func(doc *ast.CommentGroup) {
		if text := doc.Text(); aphorism.MatchString(text) {
			add(doc.Pos(), "%q; begin with what it does: returns, reports whether, sends, has …", firstWords(text))
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			check(d.Doc)
			if d.Doc != nil && returnsBool(d.Type) &&
				!strings.Contains(firstSentence(d.Doc.Text()), "reports whether") {
				add(d.Doc.Pos(), "%q; write: %s reports whether …", firstWords(d.Doc.Text()), d.Name.Name)
			}
		case *ast.GenDecl:
			check(d.Doc)
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					check(s.Doc)
					ast.Inspect(s, func(n ast.Node) bool {
						if f, ok := n.(*ast.Field); ok {
							check(f.Doc)
						}
						return true
					})
				case *ast.ValueSpec:
					check(s.Doc)
				}
			}
		}
	}
	return out, nil
}

func returnsBool(t *ast.FuncType) bool {
	if t.Results == nil || len(t.Results.List) != 1 || len(t.Results.List[0].Names) > 1 {
		return false
	}
	id, ok := t.Results.List[0].Type.(*ast.Ident)
	return ok && id.Name == "bool"
}

func firstSentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if i := strings.Index(text, ". "); i >= 0 {
		return text[:i]
	}
	return text
}

func firstWords(text string) string {
	words := strings.Fields(text)
	return strings.Join(words[:min(8, len(words))], " ")
}

// TestDocCommentsAreInGosForm reads the doc comments of all programs.
func TestDocCommentsAreInGosForm(t *testing.T) {
	var found []string
	for name, content := range files(t, ".go") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		in, err := commentsIn(name, content)
		require.NoError(t, err)
		found = append(found, in...)
	}
	requireNone(t, found)
}

// verbs are the forms with which a log message may begin, beside those that end in -ed and -ing.
var verbs = regexp.MustCompile(`^([a-z]+(ed|ing)|began|became|built|cut|fell|found|gave|got|held|kept|left|lost|made|met|` +
	`put|ran|read|saw|sent|set|shut|spent|took|went|withdrew|won|wrote)$`)

// logsIn returns the log messages that do not begin with a lower-case verb.
func logsIn(name string, content []byte) ([]string, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, content, parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(file) {
		return nil, err
	}
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || method.Sel.Name != "Msg" {
			return true
		}
		literal, ok := call.Args[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		message, err := strconv.Unquote(literal.Value)
		first, _, _ := strings.Cut(message, " ")
		if err == nil && !verbs.MatchString(first) {
			out = append(out, fmt.Sprintf("%s:%d: %q; begin with a verb: failed to …, sent …",
				name, set.Position(literal.Pos()).Line, message))
		}
		return true
	})
	return out, nil
}

// TestLogMessagesBeginWithAVerb reads the log messages of all programs.
func TestLogMessagesBeginWithAVerb(t *testing.T) {
	var found []string
	for name, content := range files(t, ".go") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		in, err := logsIn(name, content)
		require.NoError(t, err)
		found = append(found, in...)
	}
	requireNone(t, found)
}

func TestCommentsIn(t *testing.T) {
	for text, want := range map[string]string{
		"// isDue says whether it is time.\nfunc isDue() bool { return true }":         `p.go:3: "isDue says whether it is time."; begin with`,
		"// isDue is true when it is time.\nfunc isDue() bool { return true }":         `p.go:3: "isDue is true when it is time."; write: isDue reports whether`,
		"// isDue reports whether it is time.\nfunc isDue() bool { return true }":      "",
		"// Due is what is to be done.\ntype Due struct{}":                             `p.go:3: "Due is what is to be done."; begin with`,
		"// Due is one task.\ntype Due struct {\n\t// At is what is due.\n\tAt int\n}": `p.go:5: "At is what is due."; begin with`,
	} {
		got, err := commentsIn("p.go", []byte("package p\n\n"+text+"\n"))
		require.NoError(t, err)
		if want == "" {
			require.Empty(t, got, text)
			continue
		}
		require.Contains(t, strings.Join(got, "\n"), want)
	}
}

func TestLogsIn(t *testing.T) {
	for message, want := range map[string]bool{
		"failed to open the port": false, "sent domain observation": false, "the reason is lost": true,
		"Started": true, "no VM is placed here": true,
	} {
		got, err := logsIn("p.go", fmt.Appendf(nil, "package p\n\nfunc f() { log.Info().Msg(%q) }\n", message))
		require.NoError(t, err)
		require.Equal(t, want, len(got) > 0, message)
	}
}
