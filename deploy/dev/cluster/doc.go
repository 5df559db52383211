// Package cluster brings the development cluster up, takes it down, and tells
// how it is. Everything it does can be repeated, and goes on from whatever a
// killed run left.
package cluster
