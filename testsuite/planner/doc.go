// Package planner checks what holds of every entity's planner.
//
//	planner.go  that each failure is followed by a pause
package planner
