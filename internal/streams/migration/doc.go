// Package migration has the protocol by which two node workers move a guest: how they identify each other, and the
// messages that they exchange. The source's node worker dials the target's, once for each stream that libvirt or QEMU
// opens, and once for the messages of the node workers themselves (Control).
//
// Each side of each migration has a key of its own that is only in memory, with a self-signed certificate. Each side
// knows the fingerprint of the other's key beforehand: fingerprints travel through the workflow of the migration. So a
// certificate is good for one migration and one role, and there is no authority whose key could be stolen. It is TLS
// 1.3 only, without resumption; the server name identifies the migration.
//
// After the handshake the dialer requests a channel in one line, and is answered in one line. Then the connection
// carries the channel's bytes, each direction until its own end (Pipe).
package migration
