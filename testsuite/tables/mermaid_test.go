package tables

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mermaidKind is the part of one of Mermaid's grammars that the pages use. GitHub draws nothing if it cannot parse a
// line, so a line that matches no form is refused, also if Mermaid would accept it.
type mermaidKind struct {
	// begin is the first line, forms match the others.
	begin, forms *regexp.Regexp
	// declares matches the line that declares the name in its first group; uses matches a line whose groups are names
	// that must be declared. nil: names need no declaration.
	declares, uses *regexp.Regexp
	// opens matches the beginning of a block that the line "end" ends; within divides it.
	opens, within *regexp.Regexp
}

const (
	mermaidText  = `[^;#:\n]+` // of a state diagram: a colon, too, would end it
	mermaidSaid  = `[^;#\n]+`  // of a sequence diagram
	mermaidLabel = `"[^"\n]+"` // of a flow chart
	mermaidNode  = `\w+(\[\(` + mermaidLabel + `\)\]|\[` + mermaidLabel + `\]|\(` + mermaidLabel + `\)|\{` + mermaidLabel + `\})?`
)

var diagrams = []mermaidKind{
	{
		begin: regexp.MustCompile(`^stateDiagram-v2$`),
		forms: regexp.MustCompile(`^(\[\*\]|\w+) --> (\[\*\]|\w+)(: ` + mermaidText + `)?$|^direction (LR|TB)$`),
	},
	{
		begin:    regexp.MustCompile(`^sequenceDiagram$`),
		forms:    regexp.MustCompile(`^autonumber$`),
		declares: regexp.MustCompile(`^participant (\w+) as ` + mermaidSaid + `$`),
		uses:     regexp.MustCompile(`^(?:Note over )?(\w+)(?:(?:-?->>|,)(\w+))?: ` + mermaidSaid + `$`),
		opens:    regexp.MustCompile(`^(alt|opt|loop|par) ` + mermaidSaid + `$`),
		within:   regexp.MustCompile(`^(else|and) ` + mermaidSaid + `$`),
	},
	{
		begin: regexp.MustCompile(`^flowchart (LR|TB)$`),
		forms: regexp.MustCompile(`^` + mermaidNode + `( (-->|-\.->|<-->)(\|` + mermaidLabel + `\|)? ` + mermaidNode + `)*$`),
		opens: regexp.MustCompile(`^subgraph \w+\[` + mermaidLabel + `\]$`),
	},
}

func matches(r *regexp.Regexp, line string) bool { return r != nil && r.MatchString(line) }

// checkMermaid returns the first part of a diagram that GitHub could not draw.
func checkMermaid(text string) error {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	kind := slices.IndexFunc(diagrams, func(d mermaidKind) bool { return d.begin.MatchString(lines[0]) })
	if kind < 0 {
		return fmt.Errorf("unknown kind of diagram %q", lines[0])
	}
	d, open, declared := diagrams[kind], 0, map[string]bool{}
	for _, line := range lines[1:] {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "%%"):
		case line == "end" && open > 0:
			open--
		case line == "end":
			return fmt.Errorf("there is nothing to end")
		case matches(d.opens, line):
			open++
		case open > 0 && matches(d.within, line), matches(d.forms, line):
		case matches(d.declares, line):
			declared[d.declares.FindStringSubmatch(line)[1]] = true
		case matches(d.uses, line):
			for _, name := range d.uses.FindStringSubmatch(line)[1:] {
				if name != "" && !declared[name] {
					return fmt.Errorf("%s is not declared: %q", name, line)
				}
			}
		default:
			return fmt.Errorf("not a line of this diagram: %q", line)
		}
	}
	if open > 0 {
		return fmt.Errorf("%d blocks have no end", open)
	}
	return nil
}

var mermaidBlock = regexp.MustCompile("(?s)\n *```mermaid\n(.*?)\n *```")

// TestDiagramsParse reads every Mermaid diagram of the pages.
func TestDiagramsParse(t *testing.T) {
	drawn := 0
	for name, text := range pages(t) {
		require.Equal(t, strings.Count(text, "```mermaid"), len(mermaidBlock.FindAllString(text, -1)), name)
		for _, block := range mermaidBlock.FindAllStringSubmatch(text, -1) {
			require.NoError(t, checkMermaid(block[1]), name)
			drawn++
		}
	}
	require.Greater(t, drawn, 5)
}

func TestCheckMermaid(t *testing.T) {
	for text, want := range map[string]string{
		"graph TD\nA --> B": "unknown kind",
		"stateDiagram-v2\n[*] --> A: made\nA --> B\nB --> [*]":                                               "",
		"stateDiagram-v2\nA -> B":                                                                            "not a line",
		"stateDiagram-v2\nA --> B: why: because":                                                             "not a line",
		"sequenceDiagram\nparticipant A as one\nA->>A: says; more":                                           "not a line",
		"sequenceDiagram\nparticipant A as one\nA->>B: asks":                                                 "B is not declared",
		"sequenceDiagram\nparticipant A as one\nparticipant B as two\nNote over A,B: both\nA-->>B: news":     "",
		"sequenceDiagram\nparticipant A as one\nalt this\nA->>A: a\nelse that\nA->>A: b\nend":                "",
		"sequenceDiagram\nparticipant A as one\nloop each second\nA->>A: asks":                               "1 blocks have no end",
		"sequenceDiagram\nparticipant A as one\nend":                                                         "nothing to end",
		"sequenceDiagram\nelse that":                                                                         "not a line",
		"flowchart LR\na[\"one\"] -->|\"says\"| b[(\"two\")]\nsubgraph s[\"all\"]\nc(\"three\") -.-> a\nend": "",
		"flowchart LR\na[\"one\" --> b":                                                                      "not a line",
		"flowchart LR\na[one] --> b":                                                                         "not a line",
	} {
		err := checkMermaid(text)
		if want == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, want, text)
	}
}
