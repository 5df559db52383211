// Package events writes Kubernetes events beside the work that they report: nothing waits for them.
package events
