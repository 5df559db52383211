package tables

import (
	"fmt"
	"slices"
	"strings"

	"github.com/virtflow/virtflow/api/support"
)

// Unsupported is the page of what is refused by name.
func Unsupported() string {
	var b strings.Builder
	b.WriteString("# What is not supported yet\n\n" +
		"<!-- Written by make generate from api/support: change fields.go and reasons.go there. -->\n\n" +
		"KubeVirt's API (v1.9.0) without what virtflow runs. Whoever sets one of these fields is refused, with its " +
		"path; nothing\nis accepted and ignored. Hook sidecars and what else is asked for by annotations is in " +
		"[Concepts](concepts.md), what is\nrefused of a combination of fields in [Admission](admission.md), " +
		"subresources and commands in [the API](api.md).\n")
	for _, s := range support.AllUnsupported() {
		fmt.Fprintf(&b, "\n## %s\n\n| field | what runs of it | why, and what to do |\n|---|---|---|\n", s.Title)
		for _, r := range s.Rows {
			only := "nothing"
			if len(r.Only) > 0 {
				values := slices.Clone(r.Only)
				slices.Sort(values)
				only = "`" + strings.Join(values, "`, `") + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Path, only, r.Why)
		}
	}
	return b.String()
}
