// Package relay carries what two sides say to each other, with back-pressure: nothing is read while what was read
// before has not been taken. It ends when either side ends, when a side takes nothing for a while, and when nothing has
// come for long.
package relay
