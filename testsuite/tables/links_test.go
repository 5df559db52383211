package tables

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// pages returns the pages in docs/ and in the project's root, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(root, file)
		require.NoError(t, relErr)
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && name != "docs" && !strings.HasPrefix(name, "docs/"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".md":
			return nil
		}
		text, err := os.ReadFile(file)
		out[filepath.ToSlash(name)] = string(text)
		return err
	}))
	return out
}

var (
	fence    = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	mdLink   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeSpan = regexp.MustCompile("`[^`\n]*`")
)

// anchors returns the anchors that GitHub makes of a page's headings.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		out[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			default:
				return -1
			}
		}, strings.TrimSpace(h[1]))] = true
	}
	return out
}

// TestLinksLead checks that each link leads to an existing file, and to one of its headings.
func TestLinksLead(t *testing.T) {
	all, followed := pages(t), 0
	for name, text := range all {
		prose := codeSpan.ReplaceAllString(fence.ReplaceAllString(text, ""), "")
		for _, m := range mdLink.FindAllStringSubmatch(prose, -1) {
			link, err := url.Parse(m[1])
			require.NoError(t, err, name)
			if link.Host != "" || link.Scheme != "" {
				continue
			}
			target := name
			if link.Path != "" {
				target = path.Join(path.Dir(name), link.Path)
			}
			require.FileExists(t, filepath.Join(root, target), "%s: %s", name, m[1])
			if link.Fragment != "" {
				require.True(t, anchors(all[target])[link.Fragment], "%s: %s has no such heading", name, m[1])
			}
			followed++
		}
	}
	require.Greater(t, followed, 100)
}
