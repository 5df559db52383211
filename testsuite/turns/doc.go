// Package turns lets the longest tests with real guests take turns in continuous integration, whose time is limited:
// each runs in every eighth run.
package turns
