// Package admission compares virtflow's webhooks with KubeVirt's: it starts the real HTTPS endpoint with a real
// certificate, posts admission reviews at the paths that the API server posts to, and counts how many answers agree
// with those that KubeVirt v1.9.0 gives.
//
//	endpoint.go   the endpoint, and posting to it
//	record.go     a case: a request and the answer to expect; files of recorded ones
//	compare.go    comparing answers
//	table.go      the figures, by kind
//	cases*.go     the project's own cases
//
// The suite runs the project's own cases. A whole recorded file is compared as well where VIRTFLOW_ADMISSION_CASES
// names one: JSON lines, gzipped or not, one record a line, as type Record has them. VIRTFLOW_ADMISSION_LIST=N lists up
// to N disagreements.
//
// An intended difference is counted apart, never as agreement: kinds that virtflow does not serve, and requests that
// KubeVirt would accept and that are refused by name because virtflow does not support that feature yet. The
// annotations with the actor, and virtflow's own finalizer, are left out of the comparison.
package admission
