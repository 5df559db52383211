// Package fencing is the workflow that keeps Temporal's side of crdwatch's fencing token (contract.FencingToken).
package fencing
