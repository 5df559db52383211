// Package conditions sets, removes and compares Kubernetes conditions as plain data.
package conditions
