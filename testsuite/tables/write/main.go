// Command write writes the pages of tables: docs/lifecycle-tables.md and docs/unsupported.md. It is run in the
// project's root by make generate.
package main

import (
	"fmt"
	"os"

	"github.com/virtflow/virtflow/testsuite/tables"
)

func main() {
	for page, text := range map[string]string{
		"docs/lifecycle-tables.md": tables.Markdown(), "docs/unsupported.md": tables.Unsupported(),
	} {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			fmt.Fprintf(os.Stderr, "writing a page of tables (run this in the project's root): %v\n", err)
			os.Exit(1)
		}
	}
}
