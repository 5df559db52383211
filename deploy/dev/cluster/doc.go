// Package cluster brings the development cluster up, takes it down, and reports its status. Every operation can be
// repeated, and continues from whatever a killed run left.
package cluster
