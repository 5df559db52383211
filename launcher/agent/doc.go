// Package agent speaks with the QEMU guest agent of the one guest. Probes have it answer or run a command, and a poller
// reads information about the guest. The guest controls every answer, so this package cuts it to size before it is
// passed on.
package agent
