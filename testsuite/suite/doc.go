// Package suite has what the test suites share.
//
//	figures.go  prints the results of a suite in one line: cases, and broken invariants
//	turns.go    in continuous integration, whose time is limited, runs each of the longest tests in every eighth run
//	recorded.go reads recordings of KubeVirt: files with one JSON object a line
package suite
