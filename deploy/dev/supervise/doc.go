// Package supervise keeps processes running: it starts them, restarts those that end, adopts those that an earlier
// supervisor left running, and ends them. A Unix socket serves their status and requests.
package supervise
