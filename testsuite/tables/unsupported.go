package tables

import (
	"fmt"
	"slices"
	"strings"

	"github.com/virtflow/virtflow/api/support"
)

// Unsupported returns the page of fields that are refused by name.
func Unsupported() string {
	var b strings.Builder
	b.WriteString("# What is not supported yet\n\n" +
		"<!-- Written by make generate from api/support: change fields.go and reasons.go there. -->\n\n" +
		"These fields of KubeVirt's API (v1.9.0) are not supported. A request that sets one is refused, with the " +
		"field's path:\nvirtflow ignores no field that would change a guest. The [settings of KubeVirt's operator]" +
		"(#settings-without-effect) are accepted with a\nwarning.\n\n" +
		"Other pages list what else is refused or differs:\n\n" +
		"- [Differences](differences.md): hook sidecars, and other requests by annotations\n" +
		"- [Admission](admission.md): combinations of fields\n" +
		"- [The API](api.md): subresources and commands\n")
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
	b.WriteString("\n## Settings without effect\n\n" +
		"These fields of the KubeVirt object's spec configure KubeVirt's operator, the processes that it deploys, or what " +
		"no\nguest of virtflow has. They are accepted with a warning, as are feature gates without effect. The condition\n" +
		"`FieldsWithoutEffect` of the object is True while any of them is set, and its message lists them. It also lists\n" +
		"unsupported fields and invalid values, of an object that was stored before virtflow's webhooks could refuse it." +
		"\n\n" +
		"| field | why it has no effect |\n|---|---|\n")
	for _, r := range support.AllWithoutEffect() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", r.Path, r.Why)
	}
	return b.String()
}
