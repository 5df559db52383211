// Package agent speaks with the QEMU guest agent of the one guest: probes ask it to answer or to run a command, and a
// poller reads what the guest says of itself. An answer is the guest's own word: it is cut to size here, before it goes
// anywhere.
package agent
