// Package histories reads what Temporal has recorded about workflows, and counts it.
package histories
