// Package replay proves that workflows already under way survive new code. Every history in histories/ was recorded
// from a real run and must replay, whole and cut at every workflow task.
//
// histories/MANIFEST names the floor: the oldest release whose histories are kept, which is also the oldest that a
// cluster may still run. It also has the least number of histories of each workflow type. From its floor on the
// folder only grows.
//
// Where an entity branches by the change IDs of contract.Changes, a history of the release before has to fail without
// that branch: gates_test.go removes each in turn.
//
// `make record-histories RELEASE=v0.1.0` adds those of the local cluster; TestRecord of testsuite/crash those of
// migrations and of a drain, without one.
package replay
