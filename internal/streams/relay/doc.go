// Package relay carries bytes between two sides, with back-pressure: it reads nothing more until what it has read is
// written. It ends when either side ends, when a side accepts nothing for a while, and when no data has arrived for
// long.
package relay
