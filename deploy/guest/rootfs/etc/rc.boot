#!/bin/sh
# Brings the guest up: devices, name, network, services, the user's data, then the marker line that tests wait for.
# Everything said here goes to the serial console.
. /usr/lib/guest/say

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm

# The list is in dependency order, made when the image was built.
while read -r module; do
	insmod "/lib/modules/$module" 2>/dev/null
	rm -f "/lib/modules/$module" # all files are in memory here
done </etc/modules.order

# First of all services: a power button pressed during the boot counts too.
acpid -c /etc/acpi -l /tmp/acpid.log

hostname guest
/usr/lib/guest/cidata early

ip link set lo up
if [ -e /sys/class/net/eth0 ]; then
	ip link set eth0 up
	# Renews the lease in the background; without an answer it continues to ask there.
	udhcpc -b -S -i eth0 -t 5 -T 1 -A 2 -s /usr/lib/guest/dhcp -x hostname:"$(hostname)" >/tmp/udhcpc.log 2>&1
fi

dropbear -R -p 22
echo "hello from $(hostname)" >/www/index.html
httpd -p 80 -h /www

for port in /sys/class/virtio-ports/*; do
	[ "$(cat "$port/name" 2>/dev/null)" = org.qemu.guest_agent.0 ] || continue
	qemu-ga -d -m virtio-serial -p "/dev/${port##*/}" -t /run -f /run/qemu-ga.pid -l /tmp/qemu-ga.log
	say "guest agent on ${port##*/}"
done

/usr/lib/guest/cidata final

address=$(ip -4 -o addr show eth0 2>/dev/null | sed -n 's/.*inet \([0-9.]*\).*/\1/p')
echo "virtflow-guest ready $(cut -d' ' -f1 /proc/uptime) ip=$address" >/dev/console
