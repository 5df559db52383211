package words

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// maxSentence is how many words a sentence of a page may have.
const maxSentence = 30

var (
	markup   = regexp.MustCompile("!?\\[([^\\]]*)\\]\\([^)]*\\)|`[^`]*`|<[^>]*>|[*_]{1,2}")
	listItem = regexp.MustCompile(`^\s*([-*]|\d+\.) `)
	ends     = regexp.MustCompile(`[.!?:;]\s`)
)

// longSentencesIn returns the sentences of a Markdown page that are too long. Code, tables and headings are left out,
// and each item of a list begins a sentence; a colon and a semicolon end one.
func longSentencesIn(name, content string) []string {
	var out []string
	var paragraph []string
	first, inCode := 0, false
	flush := func() {
		text := markup.ReplaceAllStringFunc(strings.Join(paragraph, " "), func(m string) string {
			if inner := markup.FindStringSubmatch(m)[1]; inner != "" {
				return inner
			}
			if strings.HasPrefix(m, "`") {
				return "code"
			}
			return ""
		})
		for _, s := range ends.Split(text+" ", -1) {
			if n := len(strings.Fields(s)); n > maxSentence {
				out = append(out, fmt.Sprintf("%s:%d: %d words: %s …", name, first, n, firstWords(s)))
			}
		}
		paragraph = nil
	}
	for i, line := range strings.Split(content+"\n", "\n") {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") {
			inCode = !inCode
			flush()
			continue
		}
		if inCode {
			continue
		}
		if trimmed == "" || strings.HasPrefix(trimmed, "|") || strings.HasPrefix(trimmed, "#") {
			flush()
			continue
		}
		if listItem.MatchString(line) {
			flush()
		}
		if len(paragraph) == 0 {
			first = i + 1
		}
		paragraph = append(paragraph, listItem.ReplaceAllString(line, ""))
	}
	return out
}

// TestSentencesOfPagesAreShort reads all pages.
func TestSentencesOfPagesAreShort(t *testing.T) {
	var found []string
	for name, content := range files(t, ".md") {
		found = append(found, longSentencesIn(name, string(content))...)
	}
	requireNone(t, found)
}

func TestLongSentencesIn(t *testing.T) {
	long := strings.Repeat("word ", maxSentence+1)
	require.Len(t, longSentencesIn("p.md", "# A page\n\n"+long+"end.\n"), 1)
	require.Empty(t, longSentencesIn("p.md", "# "+long+"\n\n```\n"+long+"\n```\n| "+long+" |\n"))
	require.Empty(t, longSentencesIn("p.md", strings.Repeat("One two three. ", 20)))
	require.Empty(t, longSentencesIn("p.md", strings.Repeat("- one two three\n", 20)))
	require.Len(t, longSentencesIn("p.md", "- "+long+"\n- short\n"), 1)
}
