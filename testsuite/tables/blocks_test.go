package tables

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Limits for blocks of text: readers skip longer ones. A list, a table or a heading divides them.
const (
	paragraphLines = 6
	itemLines      = 3
)

var (
	item     = regexp.MustCompile(`^ *([-*]|\d+\.) `)
	noBlock  = regexp.MustCompile(`^(\s*$|#|\||!\[|<!--)`)
	codeEdge = regexp.MustCompile("^ *```")
)

// longBlocks returns the paragraphs and list items of a page that have too many lines.
func longBlocks(text string) []string {
	var out []string
	begin, lines, most := "", 0, 0
	end := func() {
		if lines > most {
			out = append(out, fmt.Sprintf("%d lines, at most %d: %s", lines, most, begin))
		}
		lines, most = 0, 0
	}
	code := false
	for line := range strings.Lines(text) {
		switch {
		case codeEdge.MatchString(line):
			end()
			code = !code
		case code:
		case noBlock.MatchString(line):
			end()
		case item.MatchString(line):
			end()
			begin, lines, most = line, 1, itemLines
		case lines == 0:
			begin, lines, most = line, 1, paragraphLines
		default:
			lines++
		}
	}
	end()
	return out
}

func TestBlocksAreShort(t *testing.T) {
	for name, text := range pages(t) {
		if !strings.HasPrefix(name, "docs/design/") { // notes for few readers
			require.Empty(t, longBlocks(text), name)
		}
	}
}

func TestLongBlocks(t *testing.T) {
	for text, want := range map[string]int{
		strings.Repeat("line\n", 6):                              0,
		strings.Repeat("line\n", 7):                              1,
		"- item\n  line\n  line\n- item\n":                       0,
		"- item\n  line\n  line\n  line\n":                       1,
		"```\n" + strings.Repeat("code\n", 9) + "```\nline\n":    0,
		strings.Repeat("| cell |\n", 9) + "\n## heading\nline\n": 0,
		"line\n\n" + strings.Repeat("1. item\n", 9):              0,
	} {
		require.Len(t, longBlocks(text), want, text)
	}
}
