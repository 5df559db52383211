// Package inflight limits how much is done at a time: all in all, and for each owner by a quota, so that nobody takes
// all of it.
package inflight
