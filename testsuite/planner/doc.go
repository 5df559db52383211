// Package planner checks properties of every entity's planner.
//
//	planner.go  each failure is followed by a back-off
package planner
