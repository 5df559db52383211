package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// maxMessage limits the recorded part of a failure's text, in characters.
const maxMessage = 200

// suiteTimeout is Ginkgo's reason for a suite that was ended by its time limit.
const suiteTimeout = "Suite Timeout Elapsed"

// pending is Ginkgo's state of a spec that its authors have switched off.
const pending = "pending"

// report is the part of Ginkgo's report on a suite that is read here.
type report struct {
	SuiteConfig                struct{ DryRun bool }
	SpecialSuiteFailureReasons []string
	SpecReports                []specReport
}

// specReport is the part of Ginkgo's report on a spec, or on the suite's preparation, that is read here.
type specReport struct {
	ContainerHierarchyTexts  []string
	ContainerHierarchyLabels [][]string
	LeafNodeType             string
	LeafNodeText             string
	LeafNodeLabels           []string
	LeafNodeLocation         struct {
		FileName   string
		LineNumber int
	}
	State   string
	RunTime time.Duration
	Failure struct{ Message string }
}

// readReport reads Ginkgo's report of one suite.
func readReport(path string) (report, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return report{}, fmt.Errorf("read Ginkgo's report: %w", err)
	}
	var suites []report
	if err := json.Unmarshal(data, &suites); err != nil {
		return report{}, fmt.Errorf("read Ginkgo's report: %w", err)
	}
	if len(suites) != 1 {
		return report{}, fmt.Errorf("read Ginkgo's report: it has %d suites, not one", len(suites))
	}
	return suites[0], nil
}

// failedPreparation returns why the suite's preparation failed, before any spec.
func (r report) failedPreparation() error {
	for _, s := range r.SpecReports {
		if strings.HasSuffix(s.LeafNodeType, "BeforeSuite") && s.State != passed && s.State != skipped {
			return errors.New("the tests' own preparation of the cluster failed: " + s.Failure.Message)
		}
	}
	return nil
}

// specs returns all specs of the suite. Those that the run reached have their outcome.
func (r report) specs(commit string) []spec {
	var all []spec
	for _, reported := range r.SpecReports {
		if reported.LeafNodeType != "It" {
			continue
		}
		s := reported.spec()
		if s.Outcome, s.Message = r.outcome(reported); s.Outcome != "" && reported.State != pending {
			s.Seconds, s.Commit = int(reported.RunTime.Round(time.Second).Seconds()), commit
		}
		all = append(all, s)
	}
	slices.SortFunc(all, compare)
	return all
}

// spec returns what does not depend on the run.
func (s specReport) spec() spec {
	labels := slices.Concat(append(s.ContainerHierarchyLabels, s.LeafNodeLabels)...)
	slices.Sort(labels)
	_, file, _ := strings.Cut(s.LeafNodeLocation.FileName, "/tests/")
	return spec{
		At:     file + ":" + strconv.Itoa(s.LeafNodeLocation.LineNumber),
		Name:   strings.Join(append(slices.Clone(s.ContainerHierarchyTexts), s.LeafNodeText), " "),
		Labels: slices.Compact(labels),
	}
}

// outcome returns a spec's outcome and the text about it. "": the spec did not run, or was cut off.
func (r report) outcome(s specReport) (outcome, message string) {
	message = shorten(s.Failure.Message)
	switch s.State {
	case pending:
		return skipped, "KubeVirt has marked the spec as pending."
	case skipped:
		if message == "" { // not chosen, or the suite ended before
			return "", ""
		}
		return skipped, message
	case passed:
		if r.SuiteConfig.DryRun {
			return "", ""
		}
		return passed, ""
	case failed, "panicked":
		return failed, message
	case "timedout": // the spec, or the suite with it
		if slices.Contains(r.SpecialSuiteFailureReasons, suiteTimeout) {
			return "", ""
		}
		return failed, message
	}
	return "", ""
}

// shorten returns the beginning of a text, in one line, without characters that cannot be printed.
func shorten(text string) string {
	printable := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) && !unicode.IsSpace(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, text)
	line := []rune(strings.Join(strings.Fields(printable), " "))
	if len(line) > maxMessage {
		return string(line[:maxMessage-1]) + "…"
	}
	return string(line)
}
