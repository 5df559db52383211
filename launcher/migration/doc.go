// Package migration moves a guest away from its launcher. A Session runs one move at the source and determines its
// outcome. Monitor decides, from samples and without side effects, when a move takes too long. Handover passes the
// connections that libvirt and QEMU have opened to the node worker, which carries them to the other node.
//
// libvirt by itself can leave a guest running at both ends: where the target's last answer is lost, it resumes the
// source beside a target that runs. So the target is always left paused, and its launcher resumes it only when the
// source's launcher has proof that the guest can never run there again: its QEMU is dead, or libvirt reports the domain
// as shut off because it was migrated.
package migration
