package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// Files, from the project's root.
const (
	resultsFile = "testsuite/conformance/results.json"
	pageFile    = "docs/conformance.md"
	readmeFile  = "README.md"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// options of a run.
type options struct {
	focus, namespace, prefix, tag string
	turn                          int
	turnLasts                     time.Duration
	list                          bool
	run                           run
}

func command() *cobra.Command {
	root := &cobra.Command{Use: "conformance", Short: "KubeVirt's own functional tests on the local cluster",
		SilenceUsage: true, SilenceErrors: true}
	o := options{run: run{out: os.Stdout}}
	execute := &cobra.Command{
		Use: "run", Short: "Run specs, record their outcomes, and write the page", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.execute(cmd.Context()) },
	}
	f := execute.Flags()
	f.StringVar(&o.run.ginkgo, "ginkgo", "", "Ginkgo's program")
	f.StringVar(&o.run.tests, "tests", "", "the program of KubeVirt's functional tests")
	f.StringVar(&o.run.folder, "folder", ".build/conformance", "folder for reports")
	f.IntVar(&o.run.processes, "processes", 8, "specs that run at a time")
	f.IntVar(&o.run.attempts, "attempts", 1, "how often a spec may run until it passes")
	f.DurationVar(&o.run.lasts, "timeout", 24*time.Hour, "when the run ends; specs that have not ended keep their outcomes")
	f.StringVar(&o.focus, "focus", "", "an expression for FILE:LINE {LABELS} NAME of specs: only these run, also those that "+
		"are left out otherwise")
	f.BoolVar(&o.list, "list", false, "print the chosen specs and run none; needs no cluster")
	f.IntVar(&o.turn, "turn", -1, "run only those of the specs that passed whose turn this is, and record nothing")
	f.DurationVar(&o.turnLasts, "turn-lasts", 10*time.Minute, "about how long a turn lasts")
	f.StringVar(&o.namespace, "namespace", "virtflow", "the namespace of virtflow")
	f.StringVar(&o.prefix, "container-prefix", "localhost/virtflow", "begin of the names of the tests' images")
	f.StringVar(&o.tag, "container-tag", "dev", "tag of the tests' images")
	root.AddCommand(execute, &cobra.Command{
		Use: "page", Short: "Write the page, and the numbers in README.md, from the recorded outcomes", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			recorded, err := readResults(resultsFile)
			if err != nil {
				return err
			}
			return writePages(recorded)
		},
	})
	return root
}

// execute runs the chosen specs. It fails when a spec does not pass that passed before.
func (o options) execute(ctx context.Context) error {
	focus, err := o.focusExpression()
	if err != nil {
		return err
	}
	if o.run.folder, err = filepath.Abs(o.run.folder); err != nil {
		return fmt.Errorf("find the folder for reports: %w", err)
	}
	if err := os.MkdirAll(o.run.folder, 0o755); err != nil {
		return fmt.Errorf("make the folder for reports: %w", err)
	}
	recorded, err := readResults(resultsFile)
	if err != nil {
		return err
	}
	listed, err := o.run.dryRun(ctx)
	if err != nil {
		return err
	}
	all := merge(recorded, listed.specs(""))
	chosen := choose(all, focus)
	if o.turn >= 0 {
		chosen = turn(all, o.turn, o.run.processes, o.turnLasts)
	}
	if len(chosen) == 0 {
		return errors.New("no spec is chosen")
	}
	if o.list {
		for _, s := range chosen {
			fmt.Fprintln(o.run.out, s.line())
		}
		return nil
	}
	fmt.Fprintf(o.run.out, "Running %d of %d specs, %d at a time. Reports are in %s.\n", len(chosen), len(all),
		o.run.processes, o.run.folder)
	commit, err := currentCommit(ctx)
	if err != nil {
		return err
	}
	c := &cluster{namespace: o.namespace, image: o.prefix + "/vm-killer:" + o.tag,
		launcher: o.prefix + "/launcher:with-shell"}
	got, err := o.onCluster(ctx, c, chosen)
	if err == nil {
		err = o.conclude(all, chosen, got.specs(commit))
	}
	tidying, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*settleTime)
	defer cancel()
	return errors.Join(err, c.tidy(tidying))
}

// focusExpression returns the expression of --focus; nil: none.
func (o options) focusExpression() (*regexp.Regexp, error) {
	if o.focus == "" {
		return nil, nil
	}
	focus, err := regexp.Compile(o.focus)
	if err != nil {
		return nil, fmt.Errorf("--focus: %w", err)
	}
	return focus, nil
}

// conclude records the outcomes of a run, unless it was a turn, and prints them. A turn fails when a spec did not run.
func (o options) conclude(before, chosen, reported []spec) error {
	if o.turn < 0 {
		recorded := merge(before, reported)
		if err := errors.Join(writeResults(resultsFile, recorded), writePages(recorded)); err != nil {
			return err
		}
	}
	ran := slices.DeleteFunc(reported, func(s spec) bool { return s.Commit == "" })
	err := o.judge(before, ran)
	if n := without(chosen, ran); o.turn >= 0 && n > 0 {
		err = errors.Join(err, fmt.Errorf("%d specs whose turn it is did not run", n))
	}
	return err
}

// onCluster runs specs on a cluster.
func (o options) onCluster(ctx context.Context, c *cluster, specs []spec) (report, error) {
	if err := c.prepare(ctx); err != nil {
		return report{}, err
	}
	flags, err := o.testFlags(ctx, c)
	if err != nil {
		return report{}, err
	}
	return o.run.execute(ctx, specs, flags)
}

// testFlags returns the flags of KubeVirt's tests.
func (o options) testFlags(ctx context.Context, c *cluster) ([]string, error) {
	hasStorage, err := c.hasStorage(ctx)
	if err != nil {
		return nil, err
	}
	configuration, err := o.run.writeConfiguration(hasStorage)
	if err != nil {
		return nil, err
	}
	flags := []string{"-kubeconfig=" + os.Getenv("KUBECONFIG"), "-config=" + configuration,
		"-artifacts=" + o.run.folder, "-installed-namespace=" + o.namespace, "-cdi-namespace=cdi", "-skip-dual-stack-test",
		"-container-prefix=" + o.prefix, "-utility-container-prefix=" + o.prefix, "-container-tag=" + o.tag}
	for _, program := range []string{"kubectl", "virtctl"} {
		path, err := exec.LookPath(program)
		if err != nil {
			return nil, fmt.Errorf("find %s (run this with the environment of make env): %w", program, err)
		}
		flags = append(flags, "-"+program+"-path="+path)
	}
	return flags, nil
}

// judge prints the outcomes of a run, and fails when a spec does not pass that passed before.
func (o options) judge(before, ran []spec) error {
	passing := 0
	for _, e := range explainAll(ran) {
		if e.Outcome == passed {
			passing++
			continue
		}
		fmt.Fprintf(o.run.out, "%s %s %s\n  %s\n", e.Outcome, e.At, e.title(), e.text())
	}
	fmt.Fprintf(o.run.out, "%d of %d specs passed.\n", passing, len(ran))
	if worse := regressions(before, ran); len(worse) > 0 {
		var where []string
		for _, s := range worse {
			where = append(where, s.At)
		}
		return fmt.Errorf("%d specs passed before and do not now: %s", len(worse), strings.Join(where, " "))
	}
	return nil
}

// currentCommit returns the project's commit, and whether files differ from it.
func currentCommit(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--abbrev=8", "--exclude=*", "--dirty").Output()
	if err != nil {
		return "", fmt.Errorf("find the project's commit: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// writePages writes the page, and the line with the numbers in README.md.
func writePages(specs []spec) error {
	if err := os.WriteFile(pageFile, []byte(page(specs)), 0o644); err != nil {
		return fmt.Errorf("write the page (run this in the project's root): %w", err)
	}
	readme, err := os.ReadFile(readmeFile)
	if err != nil {
		return fmt.Errorf("read the page with the numbers: %w", err)
	}
	if err := os.WriteFile(readmeFile, []byte(withNumbers(string(readme), specs)), 0o644); err != nil {
		return fmt.Errorf("write the page with the numbers: %w", err)
	}
	return nil
}
