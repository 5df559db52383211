// Package supervise keeps processes running: it starts them, restarts those
// that end, takes over those that an earlier supervisor left running, and ends
// them. A Unix socket tells how they are and takes orders.
package supervise
