// Package sandbox runs programs inside an unpacked root as a launcher pod does: own mount, process, network, IPC and
// host name spaces, a first process that reaps orphans, and an ordinary user without capabilities.
package sandbox
