package words

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// avoided are words, in lower case, and what to say instead.
type avoided struct {
	words *regexp.Regexp
	say   string
}

func avoid(words, say string) avoided {
	return avoided{regexp.MustCompile(`\b(` + strings.ReplaceAll(words, " ", `[\s/#]+`) + `)\b`), say}
}

// anyOf finds whether there is any of them at all, in one pass.
func anyOf(list []avoided) *regexp.Regexp {
	all := make([]string, 0, len(list))
	for _, a := range list {
		all = append(all, a.words.String())
	}
	return regexp.MustCompile(strings.Join(all, "|"))
}

// anywhere holds for prose and for names, in every file.
var anywhere = []avoided{
	avoid(`tak(e|es|en|ing) up|took up`, "adopt"),
	avoid(`(let|lets|letting) go`, "release, or remove the finalizer"),
	avoid(`call(|s|ed|ing) off`, "cancel"),
	avoid(`(left|leave|leaves) alone`, "orphaned, unchanged"),
	avoid(`wish(|es|ed)|fulfil(|l|s|ls|led|ling)`, "desired state, apply"),
	avoid(`doubts?|unsure`, "outcome unknown"),
	avoid(`fates?`, "outcome"),
	avoid(`expel(|s|led)`, "force-delete"),
	avoid(`unwinds?|unwound`, "compensate"),
	avoid(`milestones?`, "progress"),
	avoid(`shed(|s|ding)`, "refuse"),
	avoid(`quiet`, "settled, hold-off, idle"),
	avoid(`buried|bury|churns?`, "tombstone, crash loop"),
	avoid(`evaluator|repairer`, "differ, resync"),
	avoid(`tally|tallies`, "count, in-flight limit"),
	avoid(`pac(e|es|ed|ing)`, "rate, rate limit"),
	avoid(`strangers?`, "unauthenticated"),
	avoid(`glances?|unread`, "what it is"),
	avoid(`keepers?`, "rotator"),
	avoid(`proven`, "authenticated, confirmed"),
	avoid(`boards?`, "what it is"),
	avoid(`start passing|grace over`, "start retryable, grace period expired"),
	avoid(`kitchens?`, "builder"),
	avoid(`deeds?`, "effect"),
}

// names holds for identifiers of Go: in prose these are plain English.
var names = []avoided{
	avoid(`^places?$`, "quota, directory"),
	avoid(`shares`, "quota"),
	avoid(`^rooms?$`, "limit"),
	avoid(`^plug$`, "veth"),
}

var anyAnywhere, anyName = anyOf(anywhere), anyOf(names)

// others are the words of others: KubeVirt's messages, options, a library.
var others = regexp.MustCompile(
	`cannot be fulfilled|\btakes?\s+up\s+to\b|--quiet|(ttyS0|kernelArgs:) ` +
		`quiet|tally/v4|contrib/tally|sdktally|tallyprom|\btally\.`)

// split makes words of names: takeUp and take_up become "take up". Lines stay where they are.
func split(text string) string {
	text = others.ReplaceAllString(text, "")
	var out strings.Builder
	for i := range len(text) {
		c := text[i]
		if c == '_' {
			c = ' '
		}
		if upper(c) && i > 0 && (!upper(text[i-1]) || i+1 < len(text) && lower(text[i+1])) {
			out.WriteByte(' ')
		}
		out.WriteByte(c)
	}
	return strings.ToLower(out.String())
}

func upper(c byte) bool { return 'A' <= c && c <= 'Z' }
func lower(c byte) bool { return 'a' <= c && c <= 'z' }

// find returns what a file says otherwise than it should.
func find(name string, content []byte) []string {
	var out []string
	look := func(list []avoided, first *regexp.Regexp, line int, text string) {
		if !first.MatchString(text) {
			return
		}
		for _, a := range list {
			for _, at := range a.words.FindAllStringIndex(text, -1) {
				line := line + strings.Count(text[:at[0]], "\n")
				out = append(out, fmt.Sprintf("%s:%d: %q; say: %s", name, line, text[at[0]:at[1]], a.say))
			}
		}
	}
	look(anywhere, anyAnywhere, 1, split(string(content)))
	if filepath.Ext(name) != ".go" {
		return out
	}
	file := token.NewFileSet().AddFile(name, -1, len(content))
	var s scanner.Scanner
	s.Init(file, content, nil, 0)
	for {
		at, kind, literal := s.Scan()
		if kind == token.EOF {
			return out
		}
		if kind == token.IDENT {
			look(names, anyName, file.Line(at), split(literal))
		}
	}
}

// TestTheFieldsWords reads every file that people wrote.
func TestTheFieldsWords(t *testing.T) {
	root := filepath.Join("..", "..")
	text := []string{".go", ".md", ".sh", ".yaml", ".yml", ".proto", ".awk", ""}
	var found []string
	read := 0
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && slices.Contains(
			[]string{".git", ".build", "deploy/crds", "testsuite/replay/histories", "testsuite/words"}, name):
			return filepath.SkipDir
		case !d.Type().IsRegular() || !slices.Contains(text, filepath.Ext(name)) || strings.HasSuffix(name, ".pb.go") ||
			name == "LICENSE":
			return nil
		}
		content, err := os.ReadFile(path)
		found = append(found, find(name, content)...)
		read++
		return err
	}))
	require.Greater(t, read, 500, "the project's files are not where they are looked for")
	require.Empty(t, found, "%s", strings.Join(found, "\n"))
}

func TestFind(t *testing.T) {
	for text, want := range map[string]string{
		"package p\n\nfunc takeUp() {}":                    `p.go:3: "take up"; say: adopt`,
		"package p\n\n// It is called\n// off.\nvar X int": `p.go:3: "called\n// off"; say: cancel`,
		"package p\n\nvar places int":                      `p.go:3: "places"; say: quota, directory`,
		"package p\n\n// It comes later.\nvar x int":       "",
		"package p\n\nfunc ByAWish() {}":                   `p.go:3: "wish"; say: desired state, apply`,
		"package p\n\nconst m = `cannot be fulfilled`":     "",
	} {
		require.Equal(t, want, strings.Join(find("p.go", []byte(text)), ""), text)
	}
}
