// Command write writes the page of state tables, docs/lifecycle-tables.md. It is run in the project's root by make
// generate.
package main

import (
	"fmt"
	"os"

	"github.com/virtflow/virtflow/testsuite/tables"
)

func main() {
	const page = "docs/lifecycle-tables.md"
	if err := os.WriteFile(page, []byte(tables.Markdown()), 0o644); err != nil {
		fmt.Fprintf(os.Stderr, "writing the page of state tables (run this in the project's root): %v\n", err)
		os.Exit(1)
	}
}
