package vulnerabilities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// online is the Go project's database; module has the same entries in its folder data/osv, and the module proxy
	// serves it where the outside is not reached otherwise.
	online, module = "https://vuln.go.dev", "golang.org/x/vulndb"
	// standardLibrary is govulncheck's name for the module of Go itself.
	standardLibrary = "stdlib"
)

// Check has the programs of the source tree looked through by govulncheck, a path of that program, and prints what it
// finds. Vulnerable modules that the programs call are an error, and so is a check that was not made. Those of Go's
// standard library are printed only: not the source but the machine says which Go builds it.
func Check(ctx context.Context, source, govulncheck string, out io.Writer) error {
	database, what, err := findDatabase(ctx, source)
	if err != nil {
		return fmt.Errorf("NOT CHECKED for known vulnerabilities: %w", err)
	}
	fmt.Fprintln(out, "Database:", what)
	return run(ctx, source, govulncheck, database, out)
}

func run(ctx context.Context, source, govulncheck, database string, out io.Writer) error {
	cmd := exec.CommandContext(ctx, govulncheck, "-db", database, "-format", "json", "-tags", "libvirt_dlopen",
		"./cmd/...")
	cmd.Dir = source
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	answer, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("NOT CHECKED for known vulnerabilities: govulncheck: %w: %s", err, stderr.String())
	}
	found, err := parse(answer)
	if err != nil {
		return fmt.Errorf("NOT CHECKED for known vulnerabilities: %w", err)
	}
	return report(found, out)
}

// findDatabase returns the database as govulncheck takes it, and what it is.
func findDatabase(ctx context.Context, source string) (address, what string, err error) {
	attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(attempt, http.MethodHead, online+"/index/db.json", nil)
	if err != nil {
		return "", "", err
	}
	response, unreachable := http.DefaultClient.Do(request)
	if unreachable == nil {
		_ = response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return online, online, nil
		}
		unreachable = errors.New(response.Status)
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module+"@latest")
	cmd.Dir = source
	answer, err := cmd.Output()
	var downloaded struct{ Version, Dir, Error string }
	if failed := json.Unmarshal(answer, &downloaded); failed != nil || downloaded.Dir == "" {
		return "", "", fmt.Errorf("%s is not reachable (%w), and neither is the module %s: %w %s", online, unreachable,
			module, err, downloaded.Error)
	}
	return "file://" + filepath.Join(downloaded.Dir, "data", "osv"),
		fmt.Sprintf("the module %s %s, as %s is not reachable", module, downloaded.Version, online), nil
}

// finding is one vulnerability of one module that the programs call.
type finding struct{ ID, Summary, Module, Version, Fixed string }

// parse reads govulncheck's messages. A vulnerability counts where a vulnerable function is called.
func parse(answer []byte) ([]finding, error) {
	summaries := map[string]string{}
	seen := map[finding]bool{}
	for messages := json.NewDecoder(bytes.NewReader(answer)); ; {
		var message struct {
			OSV     *struct{ ID, Summary string }
			Finding *struct {
				OSV   string
				Fixed string `json:"fixed_version"`
				Trace []struct{ Module, Version, Function string }
			}
		}
		err := messages.Decode(&message)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading what govulncheck says: %w", err)
		}
		if v := message.OSV; v != nil {
			summaries[v.ID] = v.Summary
		}
		if f := message.Finding; f != nil && len(f.Trace) > 0 && f.Trace[0].Function != "" {
			seen[finding{ID: f.OSV, Module: f.Trace[0].Module, Version: f.Trace[0].Version, Fixed: f.Fixed}] = true
		}
	}
	var found []finding
	for f := range seen {
		f.Summary = summaries[f.ID]
		found = append(found, f)
	}
	slices.SortFunc(found, func(a, b finding) int { return strings.Compare(a.Module+a.ID, b.Module+b.ID) })
	return found, nil
}

func report(found []finding, out io.Writer) error {
	modules, standard := 0, 0
	for _, f := range found {
		if f.Module == standardLibrary {
			standard++
		} else {
			modules++
		}
		fixed := "not fixed yet"
		if f.Fixed != "" {
			fixed = "fixed in " + f.Fixed
		}
		fmt.Fprintf(out, "%s: %s %s: %s (%s)\n", f.ID, f.Module, f.Version, f.Summary, fixed)
	}
	if standard > 0 {
		fmt.Fprintf(out, "WARNING: %d known vulnerabilities of this machine's Go are in what the programs call: build "+
			"releases with a Go that has the fixes.\n", standard)
	}
	if modules > 0 {
		return fmt.Errorf("%d known vulnerabilities of modules are in what the programs call: update the modules in go.mod",
			modules)
	}
	fmt.Fprintln(out, "No known vulnerability of a module is in what the programs call.")
	return nil
}
