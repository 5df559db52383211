// Package replay proves that workflows already under way survive new code. Every history in histories/ was recorded
// from a real run and must replay, whole and cut at every workflow task.
//
// histories/MANIFEST names the floor: the oldest release whose histories are kept, which is also the oldest that a
// cluster may still run. It says as well how many histories each workflow type has at least. From its floor on the
// folder only grows.
//
// `make record-histories RELEASE=v0.1.0` adds those of the local cluster; TestRecord of testsuite/crash those of
// migrations and of a drain, without one.
package replay
