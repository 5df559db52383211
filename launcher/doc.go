// Package launcher is the first process of the pod in which a guest runs. It reads the VMI, runs libvirt, and starts
// the domain once the node worker has prepared the network. It reports the domain's state, and turns the pod's
// termination into a press of the guest's power button. It exits when the guest ends, and leaves the reason as the
// container's termination message.
//
// It also moves the guest to another launcher, and receives one: see package migration.
//
// The table in package lifecycle decides what happens next, and package domain what the domain looks like. Neither has
// side effects.
//
// The image must have, as absolute paths that the flags of cmd/launcher can change:
//
//	/usr/sbin/libvirtd with libvirt's QEMU driver        /usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so
//	                                                     /usr/lib/x86_64-linux-gnu/libvirt/storage-file/libvirt_storage_file_fs.so
//	                                                     /usr/lib/libvirt/libvirt_iohelper, /usr/share/libvirt/cpu_map
//	/usr/bin/qemu-system-x86_64, its modules and ROMs    /usr/lib/x86_64-linux-gnu/qemu/accel-tcg-x86_64.so, /usr/share/qemu and
//	                                                     /usr/share/seabios (bios-256k, kvmvapic, vgabios-stdvga, linuxboot…),
//	                                                     /usr/share/qemu/keymaps/en-us (VNC does not start without it)
//	/usr/bin/qemu-img
//	/usr/share/virtflow/capabilities/*.xml               libvirt's capabilities cache of that emulator; optional, saves seconds
//	passwd and group entries for 107, nsswitch.conf with "hosts: files dns"
//
// and the pod: writable /run/virtflow/{private,sockets,disks}, /tmp and /run/lock; the VMI at /etc/virtflow/vmi.json.
package launcher
