// Package inflight limits how much is in flight: in total, and for each owner by a quota, so that no owner uses up the
// limit.
package inflight
