// Package replay proves that workflows already under way survive new code: every history in histories/ was recorded from a real run and
// must replay, whole and cut at every workflow task. The folder only grows: MANIFEST says how many histories each workflow type has at
// least.
//
// `make record-histories` adds those of the local cluster.
package replay
