// Command conformance runs KubeVirt's own functional tests on the local cluster, records the outcome of each spec in
// results.json, and writes docs/conformance.md from these.
//
//	spec.go      a spec and its outcome
//	report.go    what Ginkgo reports
//	results.go   the recorded outcomes
//	reasons.go   why specs are left out, or fail
//	choose.go    which specs a run has
//	cluster.go, kinds.go  what the tests require of the cluster
//	ginkgo.go    the run
//	page.go      the page
//
//	make conformance                          # all specs that no reason leaves out
//	make conformance FOCUS='console\.go:'     # some, also those that are left out
package main
