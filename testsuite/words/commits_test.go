package words

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// since is the last commit whose subject has another form.
const since = "0accde17"

// subject is "scope: imperative", with at most 72 characters.
var (
	subject  = regexp.MustCompile(`^[a-z0-9][a-z0-9_/., -]*: [a-z]`)
	notAsked = regexp.MustCompile(`^[^:]*: [a-z]+(ed|ing) `)
)

func subjectProblem(s string) string {
	switch {
	case len(s) > 72:
		return "more than 72 characters"
	case !subject.MatchString(s):
		return "not scope: imperative"
	case notAsked.MatchString(s):
		return "not in the imperative"
	}
	return ""
}

// TestCommitSubjects reads the history of this branch.
func TestCommitSubjects(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "git", "log", "--no-merges", "--format=%s", since+"..HEAD").Output()
	if err != nil {
		t.Skipf("a copy without the history since %s: %v", since, err)
	}
	var found []string
	for s := range strings.Lines(string(out)) {
		s = strings.TrimSuffix(s, "\n")
		if p := subjectProblem(s); p != "" {
			found = append(found, s+": "+p)
		}
	}
	requireNone(t, found)
}

func TestSubjectProblem(t *testing.T) {
	for s, want := range map[string]string{
		"crdwatch: keep deletions queued when a deferred status merges": "",
		"workflows/vm, api: name the fields of a RestartRequired":       "",
		"Say it in a word of the field":                                 "not scope: imperative",
		"docs: rewriting concepts":                                      "not in the imperative",
		"docs: added a glossary":                                        "not in the imperative",
		"docs: " + strings.Repeat("a", 70):                              "more than 72 characters",
	} {
		require.Equal(t, want, subjectProblem(s), s)
	}
}
