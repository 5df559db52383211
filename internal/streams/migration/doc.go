// Package migration is what two node workers have agreed on for moving a guest: who they know each other by, and what
// they say. The source's node worker dials the target's, once for each stream that libvirt or QEMU opens, and once for
// what the node workers themselves have to say (Control).
//
// Each side of each migration has a key of its own that is never written down, with a certificate that it has signed
// itself. What the other side has to show is known beforehand, by the key's fingerprint: fingerprints travel through
// the workflow of the migration. So a certificate is good for one migration and one role, and no authority exists whose
// key could be lost. It is TLS 1.3 only, without resumption; the name that is asked for says which migration is meant.
//
// After the handshake the dialer says in one line which channel it wants, and is answered in one line. Then the
// connection carries the channel's bytes, each direction until its own end (Pipe).
package migration
