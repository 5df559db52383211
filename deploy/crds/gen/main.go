package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
)

func main() {
	out := flag.String("out", "..", "folder of the definitions")
	module := flag.String("module", "../../..", "folder of the module that says which version of kubevirt.io/api")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: gen [flags] generate|verify")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(flag.Arg(0), *module, *out); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(mode, module, out string) error {
	if mode != "generate" && mode != "verify" {
		return fmt.Errorf("%q is neither generate nor verify", mode)
	}
	files, err := generate(module)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)
	var errs []error
	for _, name := range names {
		path := filepath.Join(out, name)
		if mode == "generate" {
			if err := os.WriteFile(path, files[name], 0o644); err != nil {
				return fmt.Errorf("writing a definition: %w", err)
			}
			continue
		}
		if err := compare(path, files[name]); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// compare says at which line a committed file differs from what would be generated.
func compare(path string, want []byte) error {
	got, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading a definition: %w", err)
	}
	if bytes.Equal(got, want) {
		return nil
	}
	g, w := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	line := 0
	for line < len(g) && line < len(w) && bytes.Equal(g[line], w[line]) {
		line++
	}
	return fmt.Errorf("%s differs from the generated one at line %d: run `go run . generate` in deploy/crds/gen and "+
		"commit the result", path, line+1)
}
