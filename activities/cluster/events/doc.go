// Package events writes Kubernetes events beside the work that they tell of: nobody waits for them.
package events
