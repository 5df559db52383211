package words

import (
	"fmt"
	"go/scanner"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// avoided are words, in lower case, and what to write instead.
type avoided struct {
	words   *regexp.Regexp
	instead string
}

func avoid(words, instead string) avoided {
	return avoided{regexp.MustCompile(`\b(` + strings.ReplaceAll(words, " ", `[\s/#]+`) + `)\b`), instead}
}

// anyOf returns an expression that matches what any of them matches, for one pass over a file.
func anyOf(list []avoided) *regexp.Regexp {
	all := make([]string, 0, len(list))
	for _, a := range list {
		all = append(all, a.words.String())
	}
	return regexp.MustCompile(strings.Join(all, "|"))
}

// hidesWhoActs holds for prose and for names, in every file. docs/glossary.md has the words to use.
var hidesWhoActs = []avoided{
	avoid(`nobody|somebody|anybody|whoever|whomever`, "the process or person that acts"),
	avoid(`told|tells?|telling`, "sends, reports, notifies, signals"),
	avoid(`hears?|heard|hearing|hearers?`, "receives, observes, is notified"),
	avoid(`anew`, "again"),
	avoid(`(goes|go|going|went|gone) on`, "continues"),
	avoid(`(says|say|said|saying) that`, "reports, states, requires that"),
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
	avoid(`milestones?`, "progress"),
	avoid(`quiet`, "settled, debounce, idle"),
	avoid(`buried|bury`, "tombstone"),
	avoid(`evaluator|repairer`, "differ, resync"),
	avoid(`tally|tallies`, "count, in-flight limit"),
	avoid(`strangers?`, "unauthenticated"),
	avoid(`glances?|unread`, "what it is"),
	avoid(`keepers?`, "rotator"),
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

var anyHides, anyAnywhere, anyName = anyOf(hidesWhoActs), anyOf(anywhere), anyOf(names)

// others are the words of others: KubeVirt's messages, options, a library, a user of Unix; and of a released step,
// which is a metric's label.
var others = regexp.MustCompile(
	`cannot be fulfilled|json:"[^"]*"|\baction\("[^"]*"\)|\btakes?\s+up\s+to\b|--quiet|(ttyS0|kernelArgs:) ` +
		`quiet|tally/v4|contrib/tally|sdktally|tallyprom|\btally\.|` +
		`"nobody"|nobody:[x*\\/]|\bnobody:|"tell the launcher to end"`)

// split makes words of names: takeUp and take_up become "take up". Lines stay where they are.
func split(text string) string {
	text = others.ReplaceAllString(text, "")
	var out strings.Builder
	for i := range len(text) {
		c := text[i]
		if c == '_' {
			c = ' '
		}
		if isUpper(c) && i > 0 && (!isUpper(text[i-1]) || i+1 < len(text) && isLower(text[i+1])) {
			out.WriteByte(' ')
		}
		out.WriteByte(c)
	}
	return strings.ToLower(out.String())
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isLower(c byte) bool { return 'a' <= c && c <= 'z' }

// avoidedIn returns the avoided words of a file, each with its line and what to write instead.
func avoidedIn(name string, content []byte) []string {
	var out []string
	look := func(list []avoided, first *regexp.Regexp, line int, text string) {
		if !first.MatchString(text) {
			return
		}
		for _, a := range list {
			for _, at := range a.words.FindAllStringIndex(text, -1) {
				line := line + strings.Count(text[:at[0]], "\n")
				out = append(out, fmt.Sprintf("%s:%d: %q; write: %s", name, line, text[at[0]:at[1]], a.instead))
			}
		}
	}
	look(anywhere, anyAnywhere, 1, split(string(content)))
	look(hidesWhoActs, anyHides, 1, split(string(content)))
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

var lastCell = regexp.MustCompile(`(?m)\|[^|\n]*\|$`)

// TestUsesTheFieldsWords reads every file that people wrote.
func TestUsesTheFieldsWords(t *testing.T) {
	var found []string
	for name, content := range files(t, ".go", ".md", ".sh", ".yaml", ".yml", ".proto", ".awk", "") {
		if name == "docs/glossary.md" { // its last column has them
			content = lastCell.ReplaceAll(content, []byte("|"))
		}
		found = append(found, avoidedIn(name, content)...)
	}
	requireNone(t, found)
}

func TestAvoidedIn(t *testing.T) {
	for text, want := range map[string]string{
		"package p\n\nfunc takeUp() {}":                    `p.go:3: "take up"; write: adopt`,
		"package p\n\n// It is called\n// off.\nvar X int": `p.go:3: "called\n// off"; write: cancel`,
		"package p\n\nvar places int":                      `p.go:3: "places"; write: quota, directory`,
		"package p\n\n// It comes later.\nvar x int":       "",
		"package p\n\nfunc ByAWish() {}":                   `p.go:3: "wish"; write: desired state, apply`,
		"package p\n\nfunc NobodyWaits() {}":               `p.go:3: "nobody"; write: the process or person that acts`,
		"package p\n\n// It goes\n// on.\nvar x int":       `p.go:3: "goes\n// on"; write: continues`,
		"package p\n\nconst m = `cannot be fulfilled`":     "",
		"package p\n\n// They shed load, at a pace.":       "",
	} {
		require.Equal(t, want, strings.Join(avoidedIn("p.go", []byte(text)), ""), text)
	}
}
