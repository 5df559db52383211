// Package migrate moves guests between this node and others. At the source a guest that moves has a Session, at the
// target it is one of Targets. Neither belongs to an activity: the activities of the migration's workflow come and read
// the state, and the copy continues for as long as it takes while Temporal is unreachable.
//
// A Session sends what libvirt does not copy, has the launcher move the guest, carries the streams that libvirt and
// QEMU open in that time, and has the target's guest resume when the source's is off. Targets have the only port that
// other nodes reach, and it is open only while there are any. Package internal/streams/migration has the protocol
// between the two.
package migrate
