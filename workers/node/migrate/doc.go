// Package migrate carries guests between this node and others. At the source a guest that is moved has a Session, at
// the target it is one of Targets. Neither belongs to an activity: whoever is asked for by the migration's workflow
// comes and looks, and the copy goes on as long as it has to while Temporal is away.
//
// A Session sends what libvirt does not copy, has the launcher move the guest, carries the streams that libvirt and
// QEMU open meanwhile, and has the target's guest go on when the source's is off. Targets have the only port that other
// nodes reach, and it is open only while there are any. Package internal/streams/migration has what the two say to each
// other.
package migrate
